"""docs/scenarios.md has every field of a scenario file, and the shipped scenarios."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.sim.scenario_file.scenario_texts import problems_of
from trimtab.sim.scenario_file import (
    FOUNDATIONS,
    SCENARIO_FIELDS,
    SERVICE_FIELDS,
    SNAPSHOT_FIELDS,
    faults,
    nodes,
    patterns,
    trace,
    workloads,
)
from trimtab.sim.shipped import scenario_names, shipped
from trimtab.sim.traces import FORMATS

PAGE = Path(__file__).parents[3] / "docs" / "scenarios.md"
SECTIONS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("", SCENARIO_FIELDS),
    ("nodes[].", nodes.NODE_FIELDS),
    ("workloads[].", workloads.WORKLOAD_FIELDS),
    ("workloads[].scale[].", workloads.SCALE_FIELDS),
    ("workloads[].autoscaling.", workloads.AUTOSCALING_FIELDS),
    ("workloads[].disruptionBudget.", workloads.BUDGET_FIELDS),
    ("services[].", SERVICE_FIELDS),
    ("usage.", patterns.USAGE_FIELDS),
    ("", patterns.PATTERN_FIELDS),
    ("daily.", patterns.DAILY_FIELDS),
    ("bursty.", patterns.BURSTY_FIELDS),
    ("ramp.", patterns.RAMP_FIELDS),
    ("surge.", patterns.SURGE_FIELDS),
    ("recorded.", patterns.RECORDED_FIELDS),
    ("metrics.", faults.METRICS_FIELDS),
    ("metrics.outages[].", faults.OUTAGE_FIELDS),
    ("events[].", faults.EVENT_FIELDS),
    ("clusterAutoscaler.", nodes.AUTOSCALER_FIELDS),
    ("trace.", trace.TRACE_FIELDS),
    ("snapshot.", SNAPSHOT_FIELDS),
)


def test_the_page_has_every_field() -> None:
    """The tables of the page are the fields that the parser accepts, line by line."""
    text = PAGE.read_text().partition("## Shipped scenarios")[0]
    rows = re.findall(r"^\| `(.+?)(?<!\.csv)(?<!\.json)` \| (.+) \|$", text, re.MULTILINE)
    assert [(f"{prefix}{name}", doc) for prefix, fields in SECTIONS for name, doc in fields.items()] == rows


def test_the_page_has_every_scenario() -> None:
    """With the description of its file."""
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", PAGE.read_text().partition("## Shipped scenarios")[2], re.MULTILINE)
    assert [(name, shipped(name).description) for name in scenario_names()] == rows


def test_the_page_has_every_format() -> None:
    """Each format of a trace has a section."""
    assert [f"### Format `{name}`" for name in FORMATS] == re.findall(
        r"^### Format .+$", PAGE.read_text(), re.MULTILINE
    )


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL))
def test_examples(text: str) -> None:
    """The examples of the page are valid; the folder of a trace and the file of a snapshot are the reader's."""
    found = problems_of(text)
    assert all("../traces/mix" in each or "cluster.json.gz: cannot be read" in each for each in found)
    assert bool(found) == any(key in yaml.safe_load(text) for key in FOUNDATIONS)


def test_messages_of_the_page() -> None:
    """The example with three mistakes gives the messages that the page shows."""
    example = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    broken = (
        example.replace("cpu: 8,", "cpu: -8,").replace('cpu: "1", ', "").replace("node: worker-2", "node: worker-4")
    ).replace('daily: {low: 20%, high: 120%, peak: "14:00"}, noise: 10%', "steady: 50%")
    shown = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    assert shown.splitlines() == [each.replace("s.yaml", "mine.yaml") for each in problems_of(broken)]
