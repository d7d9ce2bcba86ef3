"""The field `rescheduling.limits` with metrics of pods: how it is parsed and dumped, and what is rejected and where."""

from __future__ import annotations

import pytest

from tests.config.config_files import FILE, TRIMTAB_HEAD, problems_of
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.core.load.pod_metrics import Capacity
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.sources.registry import SOURCE_SETTINGS

QUERIES = "[{name: network, of: pods, query: x}, {name: speed, query: y}, {name: cpu, of: pods, unit: cores, query: z}]"
PROMETHEUS = f"sources: [{{name: main, prometheus: {{url: 'http://p:9090', queries: {QUERIES}}}}}]\n"


def content(limits: str, sources: str = PROMETHEUS) -> str:
    return f"{TRIMTAB_HEAD}{sources}rescheduling: {{limits: {limits}}}\n"


def settings_of(text: str) -> ReschedulingSettings:
    found = parse(text, FILE, source_kinds=SOURCE_SETTINGS).settings.rescheduling
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        ("1.25e9", Capacity(amount=1.25e9)),
        ("{metric: speed}", Capacity(metric="speed")),
        ("{allocatable: acme.com/bandwidth}", Capacity(allocatable="acme.com/bandwidth")),
    ],
)
def test_a_limit_of_a_metric_of_pods(capacity: str, expected: Capacity) -> None:
    """In percent of an amount, a metric of nodes, or a resource of nodes; CPU and memory keep their defaults. What `config
    show` prints is the same."""
    text = content(f"{{network: {{limit: 70.5, capacity: {capacity}}}}}")
    found = settings_of(text)
    assert ({"cpu": 0.8, "memory": 0.9, "network": 0.705}, {"network": expected}) == (found.limits, found.capacities)
    assert found == settings_of(dump(parse(text, FILE)))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (
            "{network: 70}",
            "limits.network: network is neither cpu nor memory: write {limit: 70, capacity: …}, where capacity",
        ),
        (
            "{network: {limit: 70}}",
            "limits.network: capacity is missing: write an amount, {metric: NAME} for a query of",
        ),
        ("{network: {capacity: 5}}", "limits.network: limit is missing: write the percentage"),
        (
            "{network: {limit: 0, capacity: 5}}",
            "limits.network.limit: 0 is not above 0 and at most 100: write a percent",
        ),
        ("{network: {limit: 101, capacity: 5}}", "limits.network.limit: 101 is not above 0 and at most 100: write a"),
        (
            "{network: {limit: 70, capacity: 0}}",
            "network.capacity: 0 is not above 0 and at most 1e+15: write what a node",
        ),
        ("{network: {limit: 70, capacity: -1}}", "network.capacity: -1 is not above 0 and at most 1e+15: write what a"),
        ("{network: {limit: 70, capacity: 10G}}", "network.capacity: expected a number, got the string '10G'"),
        (
            "{network: {limit: 70, capacity: {}}}",
            "network.capacity: has 0 fields, and needs one: write an amount, {metric",
        ),
        ("{network: {limit: 70, capacity: {metric: ''}}}", "network.capacity.metric: must not be empty"),
        (
            "{network: {limit: 70, capacity: {metric: a, allocatable: b}}}",
            "network.capacity: has 2 fields, and needs one",
        ),
        ("{network: {limit: 70, capacity: 5, of: pods}}", "limits.network.of: unknown field"),
        ("{acme.com/net: {limit: 70, capacity: 5}}", "limits.acme.com/net: 'acme.com/net' is not a valid name"),
        ("{cpu: {limit: 70}}", "limits.cpu: expected a number, got a mapping"),
        ("[network]", "limits: expected a mapping, got a list"),
        (
            "{netwrk: {limit: 70, capacity: 5}}",
            "limits.netwrk: no source measures netwrk of pods (did you mean network?): add a query with name: netwrk and "
            "of: pods to a Prometheus in sources",
        ),
        ("{speed: {limit: 70, capacity: 5}}", "limits.speed: no source measures speed of pods: add a query with name"),
        (
            "{network: {limit: 70, capacity: {metric: sped}}}",
            "network.capacity.metric: no source measures sped of nodes (did you mean speed?): add a query with name: sped "
            "and of: nodes",
        ),
    ],
)
def test_bad_limits(limits: str, expected: str) -> None:
    """Each is rejected at its position, with what to write instead."""
    (found,) = problems_of(content(limits))
    assert found.startswith("f.yaml:4:") and expected in found


@pytest.mark.parametrize("sources", ["", "sources: [{name: server, metricsServer: {}}]\n"])
def test_a_limit_that_nobody_measures(sources: str) -> None:
    """Also without a Prometheus at all."""
    (found,) = problems_of(content("{network: {limit: 70, capacity: 5}}", sources))
    assert "rescheduling.limits.network: no source measures network of pods: add a query" in found


def test_problems_of_sources_are_told_alone() -> None:
    """A query that cannot be read is no reason to say that nobody measures its resource."""
    broken = PROMETHEUS.replace("query: x", "qery: x")
    found = problems_of(content("{network: {limit: 70, capacity: 5}}", broken))
    assert found and not any("no source measures" in each for each in found)


def test_what_other_sources_measure_is_not_known() -> None:
    """A recording may contain anything."""
    sources = "sources: [{name: old, replay: {path: /tmp/readings}}]\n"
    assert 0.7 == settings_of(content("{network: {limit: 70, capacity: 5}}", sources)).limits["network"]
