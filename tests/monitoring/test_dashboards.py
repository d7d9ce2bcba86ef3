"""The dashboards are valid for Grafana, complete, readable, and made of metrics that exist."""

from __future__ import annotations

import json
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from tests.live.requires_controlplane import controlplane_or_skip
from tests.monitoring.promql import FOREIGN, all_expressions, documented, filled, metrics_of, panel_expressions
from tools.monitoring.dashboards import DASHBOARDS, Dashboard
from tools.monitoring.files import FOLDER, files

# Panels of the systems that Trimtab replaces: S0-31 to S0-34, S1-52 to S1-57.
EXPECTED = {
    "overview": {"Replicas up", "Scheduling latency", "Success rate", "Attempts by result", "Preemption"},
    "nodes": {"Node cpu usage", "Node memory usage", "Pods per node", "Node cpu: mean, least and most"},
    "rescheduling": {
        *{"Planned moves", "Moves by state", "Refused by guard", "Moves that helped", "Plan error", "Budgets left"},
        *{"Pauses", "Kill switch", "Paused strategies"},
    },
    "internals": {"Plugin execution time", "Plugins", "Extension points"},
}
Content = dict[str, Any]


def read(dashboard: Dashboard) -> Content:
    content: Content = json.loads((FOLDER / "dashboards" / f"{dashboard.name}.json").read_text())
    return content


def plain(value: Any) -> Any:
    """Without what is unset, as the SDK leaves it out."""
    return json.loads(json.dumps(value, cls=JSONEncoder))


@pytest.fixture(params=DASHBOARDS, ids=lambda each: each.name)
def content(request: pytest.FixtureRequest) -> Content:
    return read(request.param)


def test_committed_files_are_the_generated_ones() -> None:
    """Otherwise run `make manifests`; no other file is there."""
    made = files()
    assert {} == {name: "outdated" for name, text in made.items() if text != (FOLDER / name).read_text()}
    found = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert {"kustomization.yaml"} == found - made.keys()


def test_grafana_s_schema_knows_every_field(content: Content) -> None:
    """Read by the SDK's model of Grafana's schema and written again, nothing is lost."""
    assert content == plain(model.Dashboard.from_json(content))


def test_the_shape_is_that_of_a_file(content: Content) -> None:
    """No object around it, as the HTTP API has; a stable uid, and a refresh and a range."""
    assert "dashboard" not in content
    assert content["uid"].startswith("trimtab-")
    assert ("30s", "now-1h") == (content["refresh"], content["time"]["from"])


def test_variables(content: Content) -> None:
    """The data source first, then job and instance; all of them are the default."""
    names = [each["name"] for each in content["templating"]["list"]]
    assert ["datasource", "job", "instance"] == names[:3]
    for variable in content["templating"]["list"][1:]:
        assert (True, True, ".+") == (variable["multi"], variable["includeAll"], variable["allValue"])
        assert "$__all" == variable["current"]["value"]


def test_panels_have_unique_ids_and_do_not_overlap(content: Content) -> None:
    """Ids are unique, and no two panels share a cell of the grid of 24 columns."""
    panels = content["panels"]
    assert len(panels) == len({panel["id"] for panel in panels})
    for panel in panels:
        assert 24 >= panel["gridPos"]["x"] + panel["gridPos"]["w"], panel["title"]
    for one, other in combinations(panels, 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(one: Content, other: Content) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not (beside or below)


def test_panels_say_what_they_show(content: Content) -> None:
    """Each has a title of its own, a description, a unit, the chosen data source, and a legend for several queries."""
    panels = [panel for panel in content["panels"] if panel["type"] != "row"]
    titles = [(panel["type"], panel["title"]) for panel in panels]
    assert len(titles) == len(set(titles))
    for panel in panels:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert "${datasource}" == panel["datasource"]["uid"], panel["title"]
        assert panel["targets"], panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]) or 1 == len(panel["targets"]), panel["title"]


def test_thresholds_rise(content: Content) -> None:
    """Grafana ignores a step that is not above the one before; the first has no value, for it is the base."""
    for panel in (panel for panel in content["panels"] if panel["type"] != "row"):
        base, *values = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        assert base is None, panel["title"]
        assert sorted(set(values)) == values, panel["title"]


def test_every_dashboard_has_the_panels_of_the_earlier_systems() -> None:
    """Status, latency, success rate, attempts, moves, node usage, pods per node, plugin times."""
    assert {} == {
        each.name: missing
        for each in DASHBOARDS
        if (missing := EXPECTED[each.name] - {panel.title for panel in each.panels})
    }


def test_config_maps_hold_the_files() -> None:
    """One for each dashboard, with the label of Grafana's sidecar and the same content."""
    built = subprocess.run([controlplane_or_skip() / "kubectl", "kustomize", FOLDER], capture_output=True, check=True)
    found = {each["metadata"]["name"]: each for each in yaml.safe_load_all(built.stdout) if each["kind"] == "ConfigMap"}
    assert {f"trimtab-dashboard-{each.name}" for each in DASHBOARDS} == found.keys()
    for dashboard in DASHBOARDS:
        document = found[f"trimtab-dashboard-{dashboard.name}"]
        assert ("1", "trimtab") == (
            document["metadata"]["labels"]["grafana_dashboard"],
            document["metadata"]["namespace"],
        )
        assert read(dashboard) == json.loads(document["data"][f"trimtab-{dashboard.name}.json"])


def test_every_expression_selects_what_the_variables_say() -> None:
    """Otherwise two installations on one Prometheus would be mixed up."""
    assert [] == [where for where, expr in panel_expressions() if "$job" not in expr and "ALERTS" not in expr]


def test_every_metric_is_documented() -> None:
    """Panels and alerts use metrics of docs/metrics.md, of the process, and of kube-state-metrics."""
    known = documented()
    unknown = {
        name: where
        for where, expr in all_expressions()
        for name in metrics_of(expr) - known
        if not FOREIGN.fullmatch(name)
    }
    assert {} == unknown


def test_promtool_parses_every_expression(tmp_path: Path) -> None:
    """As recording rules, with the variables filled in."""
    rules = [
        {"record": "panel", "expr": filled(expr), "labels": {"n": str(n)}}
        for n, (_, expr) in enumerate(all_expressions())
    ]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    command = [controlplane_or_skip() / "promtool", "check", "rules", file]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == checked.returncode, checked.stderr
