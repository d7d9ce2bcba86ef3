"""The field `labels`: how it is parsed, what is rejected and where, and that it can be dumped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.config.config_files import TRIMTAB_HEAD
from trimtab.config.config_node import ConfigNode, Report
from trimtab.config.kube_scheduler import parse as read_file
from trimtab.config.schema import document_fields
from trimtab.config.trimtab.labels import LabelsSpec, RuleSpec, dump_labels, parse_labels
from trimtab.config.yaml import from_plain
from trimtab.core.load.pressure_rules import Denominator, Direction, LabellingSettings, Rule
from trimtab.core.model.selectors import Requirement

PAGE = Path(__file__).parents[3] / "docs" / "labels.md"
CPU = {"name": "cpu", "metric": "cpu", "above": "80%"}
GIB = float(1 << 30)


def read(**fields: object) -> tuple[LabellingSettings | None, list[str]]:
    report = Report("f.yaml")
    found = parse_labels(ConfigNode(from_plain({"rules": [CPU], **fields}), report, "labels"))
    return found, [str(problem) for problem in report.problems]


def rule(**fields: object) -> Rule:
    found, problems = read(rules=[{key: value for key, value in {**CPU, **fields}.items() if value is not None}])
    assert (1, []) == (len(found.rules) if found else 0, problems)
    assert found is not None
    return found.rules[0]


def test_little_is_enough() -> None:
    """A metric and a threshold: observed only, cleared a tenth below, labelled under our prefix by the metric's name."""
    found, _ = read()
    label = ("pressure.trimtab.dev/cpu", "high")
    assert (
        LabellingSettings((Rule("cpu", "cpu", 0.8, 0.72, for_seconds=30.0, clear_for_seconds=60.0, label=label),))
        == found
    )


def test_everything_can_be_said() -> None:
    """Mode, expiry, exclusion, label and taint, an average, and both hold times."""
    one = {
        "name": "room",
        "metric": "memory.available",
        "below": "2Gi",
        "clear": "3Gi",
        "over": "5m",
        "for": "1m30s",
        "clearFor": "0s",
        "label": {"key": "pressure.trimtab.dev/ram", "value": "scarce"},
        "taint": "pressure.trimtab.dev/ram",
    }
    lines = [{"key": "pool", "operator": "In", "values": ["batch"]}]
    found, problems = read(mode="apply", expireAfter="10m", exclude=lines, rules=[one])
    label = ("pressure.trimtab.dev/ram", "scarce")
    expected = Rule(
        *("room", "memory.available", 2 * GIB, 3 * GIB, Direction.BELOW, Denominator.NONE, 300.0, 90.0, 0.0, label),
        "pressure.trimtab.dev/ram",
    )
    assert (LabellingSettings((expected,), True, (Requirement("pool", "In", ("batch",)),), 600.0), []) == (
        found,
        problems,
    )


@pytest.mark.parametrize(("below", "clear"), [("10%", 0.11), ("90%", 0.95), ("96%", 0.98), ("100%", 1.0)])
def test_what_is_free_can_always_be_enough(below: str, clear: float) -> None:
    """The default of `clear` is at most half way to 100%, so that it can always be reached."""
    assert clear == rule(metric="memory.available", above=None, below=below).clear


def test_a_query_has_a_number_and_its_rules_name() -> None:
    """Any PromQL; the label is named after the rule."""
    found = rule(name="load", metric=None, query="node_load5", source="prom", above=8)
    assert ("rule/load", 8.0, Denominator.NONE) == (found.metric, found.threshold, found.denominator)
    assert ("node_load5", "prom", ("pressure.trimtab.dev/load", "high")) == (found.query, found.source, found.label)


def test_a_taint_alone_needs_no_label() -> None:
    """With a taint and no label there is only the taint."""
    assert (None, "pressure.trimtab.dev/cpu") == (
        (found := rule(taint="pressure.trimtab.dev/cpu")).label,
        found.taint,
    )


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"above": "0%"}, "labels.rules[0].above", "0% is not above 0% and at most 100%"),
        ({"above": "180%"}, "labels.rules[0].above", "180% is not above 0% and at most 100%"),
        ({"above": 0.8}, "labels.rules[0].above", "'0.8' is not a percentage such as 80%"),
        ({"above": "NaN"}, "labels.rules[0].above", "is not a percentage"),
        ({"above": "2Gi"}, "labels.rules[0].above", "is not a percentage"),
        ({"below": "20%"}, "labels.rules[0]", "either above or below"),
        ({"above": None}, "labels.rules[0]", "either above or below"),
        ({"clear": "90%"}, "labels.rules[0]", "clear (0.9) must be at most the threshold (0.8)"),
        ({"clear": 3}, "labels.rules[0].clear", "is not a percentage"),
        ({"metric": "gpu"}, "labels.rules[0].metric", "'gpu' is not one of cpu, memory, memory.available"),
        ({"query": "up"}, "labels.rules[0]", "either a metric"),
        ({"metric": None}, "labels.rules[0]", "either a metric"),
        ({"metric": None, "query": 'up{a="b}', "above": 1}, "labels.rules[0].query", "unclosed quote"),
        ({"metric": None, "query": 'up{a="%s"}', "above": 1}, "labels.rules[0].query", "unknown placeholder '%s'"),
        ({"metric": None, "query": "up", "above": "80%"}, "labels.rules[0].above", "expected a number"),
        ({"metric": None, "query": "up", "above": 1, "over": "5m"}, "labels.rules[0].over", "only applies to a metric"),
        ({"source": "prom"}, "labels.rules[0].source", "only applies to a query"),
        ({"for": "-1s"}, "labels.rules[0].for", "is not between"),
        ({"for": 30}, "labels.rules[0].for", "a duration"),
        ({"over": "2h"}, "labels.rules[0].over", "is not between"),
        ({"label": {"key": "zone", "value": "a"}}, "labels.rules[0]", "must begin with pressure.trimtab.dev/"),
        ({"taint": "node.kubernetes.io/x"}, "labels.rules[0]", "must begin with pressure.trimtab.dev/"),
        ({"name": "a b"}, "labels.rules[0].name", "is not a valid name"),
        ({"name": None}, "labels.rules[0]", "name is missing"),
        ({"hysteresis": 5}, "labels.rules[0].hysteresis", "unknown field"),
    ],
)
def test_what_makes_no_sense_is_rejected_where_it_stands(fields: dict[str, object], path: str, words: str) -> None:
    """The message has the field, the value and the remedy."""
    given = {key: value for key, value in {**CPU, **fields}.items() if value is not None}
    found, problems = read(rules=[given])
    assert found is None
    assert any(f"{path}: " in problem and words in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rules": []}, "rules are missing"),
        ({"rules": [CPU, CPU]}, "two rules are named cpu"),
        ({"mode": "on"}, "'on' is not one of apply, observe"),
        ({"expireAfter": "0s"}, "is not between"),
        ({"exclude": [{"key": "a", "operator": "In"}]}, "is not a valid requirement"),
        ({"exclude": [{"key": "a", "operator": "Like"}]}, "'Like' is not one of"),
    ],
)
def test_the_whole_must_make_sense_too(fields: dict[str, object], words: str) -> None:
    """No rules, duplicate names, an unknown mode."""
    found, problems = read(**fields)
    assert found is None
    assert any(words in problem for problem in problems), problems


def test_what_was_read_can_be_written_and_read_again() -> None:
    """The dumped field parses as the same value."""
    lines = [{"key": "pool", "operator": "Exists"}]
    rules = [
        {**CPU, "clear": "66.5%", "of": "allocatable", "over": "1m"},
        {"name": "ram", "metric": "memory.available", "below": "1536Mi", "taint": "pressure.trimtab.dev/ram"},
        {"name": "share", "metric": "memory.available", "below": "10%"},
        {"name": "small", "metric": "memory.available", "below": "500m", "clear": "5.5"},
        {"name": "exact", "metric": "memory", "above": "12.345678%", "clear": "10%"},
        {"name": "load", "query": "node_load5", "above": 7.5, "label": {"key": "status", "value": "presure"}},
    ]
    found, _ = read(rules=rules, exclude=lines, mode="apply")
    assert found is not None
    again, problems = read(**json.loads(json.dumps(dump_labels(found))))
    assert [] == problems
    assert found == again


def test_a_document_with_labels_can_be_read() -> None:
    """The field is parsed as part of the document."""
    text = TRIMTAB_HEAD + "labels:\n  mode: apply\n  rules:\n  - {name: cpu, metric: cpu, above: 80%}\n"
    configuration = read_file(text, "f.yaml")
    assert configuration.trimtab.labels is not None
    assert configuration.trimtab.labels.apply


def test_the_page_names_every_field() -> None:
    """docs/labels.md has the documentation of every field."""
    rows = re.findall(r"^\| `(labels\S*)` \| (.+) \|$", PAGE.read_text(), re.M)
    listed = [*document_fields(LabelsSpec, "labels."), *document_fields(RuleSpec, "labels.rules[].")]
    assert {path: each.doc for path, each in listed} == dict(rows)
