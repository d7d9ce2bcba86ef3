"""Every alert fires when it should and stays silent when it should, says so in words, and has a page to follow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.live.requires_controlplane import controlplane_or_skip
from tests.monitoring.alert_cases import CASES
from tests.monitoring.promql import FOREIGN, documented
from tests.monitoring.promtool import promtool, unit_tests
from tools.monitoring.alert import RUNBOOKS, Alert
from tools.monitoring.alerts import ALERTS, GROUPS
from tools.monitoring.files import rule_file

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "monitoring" / "alerts.yaml"
SECTIONS = ("What it means", "What users notice", "Check first", "Likely causes", "What to do", "When to escalate")
OWN_METRIC = re.compile(r"`((?:trimtab|scheduler|node|rest_client|leader_election|kube|process)_[a-z_]+)`")


def test_promtool_accepts_the_recording_rules() -> None:
    """Those that sources use where they exist."""
    assert "SUCCESS: 2 rules found" in promtool(
        controlplane_or_skip(), "check", "rules", ROOT / "deploy" / "prometheus-rules.yaml"
    )


def test_promtool_accepts_the_rule_file() -> None:
    """Expressions, templates and durations are valid."""
    assert f"SUCCESS: {len(ALERTS)} rules found" in promtool(controlplane_or_skip(), "check", "rules", RULES)


def test_alerts_fire_and_stay_silent(tmp_path: Path) -> None:
    """promtool runs all cases on the committed rules: labels and texts must be as expected."""
    tests = []
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:  # a file for each: a case evaluates all rules of its file, every minute
            name = rule["alert"]
            rules, file = tmp_path / f"{name}.json", tmp_path / f"{name}.test.json"
            rules.write_text(json.dumps({"groups": [{**group, "rules": [rule]}]}))
            file.write_text(unit_tests(rules, (case for case in CASES if case.alert == name)))
            tests.append(file)
    promtool(controlplane_or_skip(), "test", "rules", *tests)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_both_kinds_of_cases(alert: Alert) -> None:
    """At least one case in which it fires, and one in which it does not."""
    assert {True, False} == {bool(case.says) for case in CASES if case.alert == alert.name}


def test_names_are_unique() -> None:
    """Prometheus would accept two alerts of one name, but nobody could tell them apart."""
    assert len(ALERTS) == len({alert.name for alert in ALERTS})


def test_the_readme_counts_them() -> None:
    """Alerts and dashboards, as a newcomer reads."""
    numbers = ["zero", "one", "two", "three", "four", "five", "six"]
    boards = len([*(ROOT / "deploy/monitoring/dashboards").glob("*.json")])
    assert f"{numbers[boards]} Grafana dashboards, {len(ALERTS)} alerts" in (ROOT / "README.md").read_text()


def test_the_operator_s_rules_are_the_same() -> None:
    """The PrometheusRule has the groups of the plain file."""
    rule = yaml.safe_load(RULES.with_name("prometheusrule.yaml").read_text())
    assert ("PrometheusRule", yaml.safe_load(RULES.read_text())) == (rule["kind"], rule["spec"])


def test_runbooks_may_be_served_elsewhere() -> None:
    """The base of the links is a setting."""
    url = rule_file("https://example.com/pages")["groups"][0]["rules"][0]["annotations"]["runbook_url"]
    assert "https://example.com/pages/availability.md#trimtabdown" == url


def runbooks() -> dict[str, str]:
    """The text about each alert, by its name."""
    found = {}
    for page in GROUPS:
        for part in (ROOT / RUNBOOKS / f"{page}.md").read_text().split("\n## ")[1:]:
            name, _, text = part.partition("\n")
            found[name] = text
    return found


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_a_runbook(alert: Alert) -> None:
    """On the page of its group, with every section in order, and commands to run."""
    text = runbooks()[alert.name]
    headings = re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)
    assert list(SECTIONS) == headings
    assert "`" in text.partition("**Check first.**")[2].partition("**Likely causes.**")[0]


def test_runbooks_are_about_alerts_and_metrics_that_exist() -> None:
    """No page for an alert that was renamed, and no metric that is not served."""
    pages = runbooks()
    assert {alert.name for alert in ALERTS} == pages.keys()
    named = {(alert, metric) for alert, text in pages.items() for metric in OWN_METRIC.findall(text)}
    assert set() == {pair for pair in named if pair[1] not in documented() and not FOREIGN.fullmatch(pair[1])}
