"""The files in deploy/monitoring: dashboards, and the alerts as a rule file and as a PrometheusRule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tools.monitoring.alert import RUNBOOKS
from tools.monitoring.alerts import GROUPS
from tools.monitoring.dashboards import DASHBOARDS, to_json

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
HEADER = "# Written by `make manifests` from tools/monitoring: change it there.\n"


def files(runbooks: str = RUNBOOKS) -> dict[str, str]:
    """The text of each file, by its path in the folder."""
    return {
        **{f"dashboards/{each.name}.json": to_json(each) for each in DASHBOARDS},
        "alerts.yaml": to_yaml(rule_file(runbooks)),
        "prometheusrule.yaml": to_yaml(prometheus_rule(runbooks)),
    }


def to_yaml(document: Any) -> str:
    """YAML without line breaks in expressions, so that they can be searched for."""
    return HEADER + yaml.safe_dump(document, sort_keys=False, width=1_000_000, allow_unicode=True)


def rule_file(runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """The content of a rule file for Prometheus."""
    return {
        "groups": [
            {"name": f"trimtab-{page}", "interval": "30s", "rules": [each.rule(page, runbooks) for each in group]}
            for page, group in GROUPS.items()
        ]
    }


def prometheus_rule(runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """The same for the Prometheus operator."""
    labels = {f"app.kubernetes.io/{key}": "trimtab" for key in ("name", "instance", "part-of")}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "trimtab", "namespace": "trimtab", "labels": labels},
        "spec": rule_file(runbooks),
    }
