"""Runs the real promtool on rule files and on unit tests of rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.monitoring.alert_cases import AlertCase
from tools.monitoring.alert import RUNBOOKS
from tools.monitoring.alerts import GROUPS


def promtool(binaries: Path, *arguments: str | Path) -> str:
    """What it prints; a failure is raised with its output."""
    done = subprocess.run([binaries / "promtool", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def unit_tests(rules: Path, cases: Iterable[AlertCase]) -> str:
    """A file for `promtool test rules`, in JSON, which is YAML."""
    groups = [_group(case) for case in cases]
    return json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": groups})


def _group(case: AlertCase) -> dict[str, Any]:
    expected = {"eval_time": case.at, "alertname": case.alert, "exp_alerts": [_alert(case)] if case.says else []}
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    return {
        "interval": "1m",
        "name": f"{case.alert} at {case.at}",
        "input_series": series,
        "alert_rule_test": [expected],
    }


def _alert(case: AlertCase) -> dict[str, Any]:
    page, alert = next((page, alert) for page, group in GROUPS.items() for alert in group if alert.name == case.alert)
    annotations = {
        "summary": alert.summary,
        "description": case.says,
        "runbook_url": f"{RUNBOOKS}/{page}.md#{alert.name.lower()}",
    }
    return {"exp_labels": {"severity": alert.severity, **case.labels}, "exp_annotations": annotations}
