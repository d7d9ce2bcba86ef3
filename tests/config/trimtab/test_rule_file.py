"""The rule.yaml of the former labeller: how it is parsed, and what is rejected and where."""

from __future__ import annotations

import pytest

from trimtab.config.diagnostics import ConfigError
from trimtab.config.trimtab.labeller import parse_rule_file
from trimtab.core.load.pressure_rules import Denominator, Direction

# As its template has it, job name and all.
TEMPLATE = """\
PromJob:
  Name: 测试环境k8s资源节点监控
Rulename:
  Node_cpu1:
    Promsql: "(1-(sum(increase(node_cpu_seconds_total{job='测试环境k8s资源节点监控',mode='idle'}[1m]))by(instance))\
/(sum(increase(node_cpu_seconds_total{job='测试环境k8s资源节点监控'}[1m]))by(instance)))*100"
    Threshold: 70
  Node_mem:
    Promsql: "(1-(node_memory_MemAvailable_bytes{job='a'}/(node_memory_MemTotal_bytes{job='a'})))*100"
    Threshold: "70"
"""


def complaints(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse_rule_file(text, "rule.yaml")
    return str(refused.value)


def test_the_template_reads_as_it_stands() -> None:
    """Both rules put the legacy label, at once; it goes a minute after the value fell a tenth below the threshold."""
    rules = parse_rule_file(TEMPLATE, "rule.yaml")
    assert ["rule/Node_cpu1", "rule/Node_mem"] == [each.metric for each in rules]
    assert {(70.0, 63.0, 0.0, 60.0, Direction.ABOVE, Denominator.NONE)} == {
        (each.threshold, each.clear, each.for_seconds, each.clear_for_seconds, each.direction, each.denominator)
        for each in rules
    }
    assert {("status", "presure")} == {each.label for each in rules}
    assert rules[1].query.startswith("(1-(node_memory")


def test_below_and_patience_can_be_said() -> None:
    """memory.available, the reason for all of it, needs `below`."""
    text = "Rulename: {room: {Promsql: k8_node_cgroups_mem_available, Threshold: 2040, Direction: below, For: 1m}}"
    (rule,) = parse_rule_file(text, "rule.yaml")
    assert (Direction.BELOW, 2040.0, 2244.0, 60.0) == (rule.direction, rule.threshold, rule.clear, rule.for_seconds)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "rule.yaml: the file is empty"),
        ("Rulename: {}", "has no rules"),
        ("PromJob: {Name: a}", "has no rules"),
        ("Rulename:\n  a: {Threshold: 70}", "rule.yaml:2:6: Rulename.a: Promsql is missing"),
        ("Rulename:\n  a: {Promsql: up}", "rule.yaml:2:6: Rulename.a: Threshold is missing"),
        ("Rulename:\n  a:\n    Promsql: up\n    Threshold: high", "rule.yaml:4:16: Rulename.a.Threshold: 'high' is no"),
        ("Rulename: {a: {Promsql: up, Threshold: 'nan'}}", "'nan' is not a number"),
        ("Rulename: {a: {Promsql: 'sum(up', Threshold: 7}}", "lacks a )"),
        (
            "Rulename: {a: {Promsql: 'up{instance=~\"%v:.*\"}', Threshold: 7}}",
            "Rulename.a.Promsql: 'up{instance=~\"%v:.*\"}' has the unknown placeholder '%v'",
        ),
        ("Rulename: {a: {Promsql: up, Threshold: 7, Clear: 8}}", "clear (8) must be at most the threshold (7)"),
        ("Rulename: {a: {Promsql: up, Threshold: 7, Direction: under}}", "'under' is not one of above, below"),
        ("Rulename: {a: {promsql: up, Threshold: 7}}", "unknown field (did you mean Promsql?)"),
        ("Rulename: [a]", "expected a mapping, got a list"),
        ("Rules: {}", "unknown field"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration",
            "rule.yaml: this is a KubeSchedulerConfiguration, not a rule.yaml: pass it with --config instead of -r",
        ),
        ("Rulename: {a: {Promsql: up, Threshold: 7}}\n---\nRulename: {}", "a second document is not supported"),
        ("Rulename: {a: {Promsql: up, Threshold: 7}", "rule.yaml:"),
    ],
)
def test_a_bad_file_is_rejected_with_line_field_and_remedy(text: str, words: str) -> None:
    """It used to mean no rules at all, and the verdicts of before."""
    assert words in complaints(text)
