"""What a labeller runs with: no profiles, its own lease, and sources with just what the rules need."""

from __future__ import annotations

import pytest

from tests.config.config_files import TRIMTAB_HEAD
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.labeller import from_rule_file, labeller_configuration
from trimtab.config.trimtab.settings import BuiltinMetric, PrometheusSettings, QuerySettings

ONE = "sources:\n- {name: prom, prometheus: {url: 'http://prom:9090'}}\n"
TWO = ONE + "- {name: other, prometheus: {url: 'http://other:9090'}}\n"
SERVER = "sources: [{name: ms, metricsServer: {}}]\n"
CPU = "{name: cpu, metric: cpu, above: 80%}"
LOAD = "{name: load, query: node_load5, above: 8}"


def made(sources: str, *rules: str, mode: str = "observe") -> Configuration:
    listed = "".join(f"  - {rule}\n" for rule in rules)
    labels = f"labels:\n  mode: {mode}\n  rules:\n{listed}" if rules else ""
    return labeller_configuration(parse(TRIMTAB_HEAD + sources + labels, "f.yaml"), "f.yaml")


def asked(configuration: Configuration) -> list[tuple[set[BuiltinMetric], list[str]]]:
    found = [each for each in configuration.trimtab.sources if isinstance(each, PrometheusSettings)]
    return [({*each.metrics}, [query.name for query in each.queries]) for each in found]


def test_sources_are_asked_what_rules_need() -> None:
    """No pod metrics; memoryAvailable if a rule needs it; each query under its rule's name."""
    assert [({BuiltinMetric.NODE_CPU}, [])] == asked(made(ONE, CPU))
    assert [({BuiltinMetric.NODE_CPU}, ["rule/load"])] == asked(made(ONE, CPU, LOAD))
    room = "{name: room, metric: memory.available, below: 2Gi}"
    assert [({BuiltinMetric.MEMORY_AVAILABLE, BuiltinMetric.NODE_MEMORY}, [])] == asked(made(ONE, room))


def test_a_query_goes_to_the_source_it_names() -> None:
    """And to no other."""
    named = "{name: load, query: node_load5, source: other, above: 8}"
    assert [(set(), []), (set(), ["rule/load"])] == asked(made(TWO, named))


def test_the_engine_gets_rules_and_no_profiles() -> None:
    """It watches nodes only; it has a lease of its own, used only when it writes."""
    watching, writing = made(ONE, CPU), made(ONE, CPU, mode="apply")
    assert (("nodes",), False) == (watching.settings.kinds, watching.leader_election.enabled)
    assert ("trimtab-labeller", True) == (writing.leader_election.name, writing.leader_election.enabled)
    assert writing.settings.labels is not None
    assert writing.settings.labels.apply


def test_a_rule_file_and_flags() -> None:
    """One Prometheus with the rules' queries, every few seconds; it only observes unless told to write."""
    text = "Rulename: {Node_mem: {Promsql: used, Threshold: 70}}"
    found = from_rule_file(text, "rule.yaml", "http://prom:9090", 5.0, apply=False)
    (source,) = found.trimtab.sources
    queries = (QuerySettings("rule/Node_mem", "used"),)
    assert PrometheusSettings("prometheus", "http://prom:9090", 5.0, 5.0, metrics=(), queries=queries) == source
    assert found.settings.labels is not None
    assert not found.settings.labels.apply
    assert "rule/Node_mem" in dump(found)  # by which a change of the file is noticed


@pytest.mark.parametrize(
    ("sources", "rules", "words"),
    [
        (ONE, (), "f.yaml: labels: is missing"),
        ("", (CPU,), "sources: is missing: without measurements no node is ever under pressure"),
        (TWO, (LOAD,), "f.yaml:9:5: labels.rules[0]: the query of load needs a Prometheus"),
        (SERVER, (LOAD,), "labels.rules[0]: the query of load needs a Prometheus"),
        (ONE, ("{name: a, query: up, source: nope, above: 1}",), "labels.rules[0]: the query of a needs"),
    ],
)
def test_what_cannot_work_is_rejected(sources: str, rules: tuple[str, ...], words: str) -> None:
    """With the field and the remedy."""
    with pytest.raises(ConfigError) as refused:
        made(sources, *rules)
    assert words in str(refused.value)
