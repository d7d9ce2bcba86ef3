"""Gauges about nodes: trust, spread of load and requests, and a series per node where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from prometheus_client.core import Metric

from tests.build import node
from tests.core.load.builders import cluster_of, ingest, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.utilization import utilization
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.serve.node_gauges import cluster_gauges, node_gauges

GIB = 1 << 30
SETTINGS = LoadSettings(fresh=60, stale=120)


@pytest.fixture
def cluster() -> Cluster:
    """Four nodes of 4 cores: a at 90 % with half requested, b at 10 %, c with an old sample of 50 %, d without any."""
    made = cluster_of("a", "b", "c", "d", settings=SETTINGS)
    made.upsert_pod(running_pod("web", "a", cpu="2", started=0.0))
    ingest(made, reading({"c": 2000}, at=1000), at=1000)
    ingest(made, reading({"a": 3600, "b": 400}, at=1090), at=1090)
    return made


def spread(cluster: Cluster, measured: bool = True, pods: bool = True) -> Iterable[Metric]:
    """The gauges over all nodes."""
    return cluster_gauges(cluster.view, utilization(cluster.view, measured, pods))


def series(families: Iterable[Metric], name: str) -> dict[tuple[str, ...], float]:
    """The values of one metric by its label values."""
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(sample.labels.values()): round(sample.value, 6) for sample in samples}


def test_nodes_are_counted_by_the_state_of_their_sample(cluster: Cluster) -> None:
    """Two fresh, one aging that becomes stale, one missing; memory is missing everywhere."""
    found = series(spread(cluster), "trimtab_node_samples")
    assert {"fresh": 2, "aging": 1, "stale": 0, "missing": 1} == {
        state: n for (r, state), n in found.items() if r == CPU
    }
    assert 4 == found[MEMORY, "missing"]
    cluster.load_store.advance(1125)
    aged = series(spread(cluster), "trimtab_node_samples")
    assert {"fresh": 2, "aging": 0, "stale": 1, "missing": 1} == {
        state: n for (r, state), n in aged.items() if r == CPU
    }


def test_statistics_are_over_nodes_that_any_pod_may_use(cluster: Cluster) -> None:
    """Mean, least and most of the three measured nodes; a cordoned or tainted one does not count, and none gives none."""
    name = "trimtab_cluster_usage_percent"
    found = series(spread(cluster), name)
    assert {(CPU, "mean"): 50, (CPU, "min"): 10, (CPU, "max"): 90} == found
    cluster.upsert_node(node("a", version=2, unschedulable=True))
    cluster.upsert_node(node("b", version=2, taints=["gpu=yes:NoSchedule"]))
    found = series(spread(cluster), name)
    assert {(CPU, "mean"): 50, (CPU, "min"): 50, (CPU, "max"): 50} == found
    cluster.upsert_node(node("c", version=2, taints=["down:NoExecute"]))
    assert {} == series(spread(cluster), name)


def test_nodes_are_counted_by_utilization_as_a_histogram_does(cluster: Cluster) -> None:
    """A node counts in its limit and in all higher ones; one without a sample counts in none."""
    found = series(spread(cluster), "trimtab_nodes_by_utilization")
    limits = ("0.1", "0.4", "0.5", "0.9", "+Inf")
    assert [1, 1, 2, 3, 3] == [found["measured", CPU, limit] for limit in limits]
    assert [3, 3, 4, 4, 4] == [found["requested", CPU, limit] for limit in limits]
    assert 3 == found["forecast", CPU, "+Inf"]
    assert 0 == found["measured", MEMORY, "+Inf"]


def test_load_is_compared_with_requests(cluster: Cluster) -> None:
    """a uses 40 points more than requested, c 50, b 10: the differences as a histogram."""
    found = series(spread(cluster), "trimtab_nodes_by_load_over_requests")
    assert [0, 1, 2, 3, 3] == [found[CPU, limit] for limit in ("0.0", "0.2", "0.4", "0.6", "+Inf")]


def test_without_a_source_or_without_pods_nothing_is_claimed(cluster: Cluster) -> None:
    """Without a source only requests are served, without pods only measurements."""
    plain = list(spread(cluster, measured=False))
    assert ["trimtab_nodes_by_utilization"] == [each.name for each in plain]
    assert {"requested"} == {basis for basis, *_ in series(plain, "trimtab_nodes_by_utilization")}
    alone = list(spread(cluster, pods=False))
    assert {"measured"} == {basis for basis, *_ in series(alone, "trimtab_nodes_by_utilization")}
    assert {"node_cpu_usage_percent", "node_memory_usage_percent", "rescheduler_node_resource_usage_percent"} == {
        each.name for each in node_gauges(cluster.view, utilization(cluster.view, measured=True, pods=False))
    }


def test_each_node_has_its_own_series(cluster: Cluster) -> None:
    """Measured, requested and forecast usage in percent, and pods; a node without a sample has no measured value."""
    families = list(node_gauges(cluster.view, utilization(cluster.view, measured=True, pods=True)))
    assert {("a",): 90, ("b",): 10, ("c",): 50} == series(families, "node_cpu_usage_percent")
    assert {} == series(families, "node_memory_usage_percent")
    requested = series(families, "trimtab_node_requested_percent")
    assert [50, 0] == [requested[name, CPU] for name in ("a", "d")]
    forecast = series(families, "trimtab_node_forecast_percent")
    assert {"a", "b", "c"} == {name for name, resource in forecast}
    assert 90 == pytest.approx(forecast["a", CPU], abs=1)
    assert {("a",): 1, ("b",): 0, ("c",): 0, ("d",): 0} == series(families, "trimtab_node_pods")


def test_a_scrape_leaves_the_caches_of_decisions_alone(cluster: Cluster) -> None:
    """What a plugin's view has computed, and when, does not depend on who reads metrics."""
    view = cluster.view
    list(spread(cluster))
    assert [] == [cache for cache in view.load._forecast.values() if cache.columns]


def test_balance_by_the_names_of_the_rescheduler(cluster: Cluster) -> None:
    """Over nodes with a trusted sample: a at 90 %, b at 10 % and c at 50 %; one pod on four nodes."""
    families = list(spread(cluster))
    assert {("cpu",): 1066.666667, ("pods",): 0.1875} == series(families, "rescheduler_pod_distribution_variance")
    assert {("cpu",): 67.340137} == series(families, "rescheduler_load_balance_score")
    by_node = list(node_gauges(cluster.view, utilization(cluster.view, measured=True, pods=True)))
    usage = {("a", "cpu"): 90.0, ("b", "cpu"): 10.0, ("c", "cpu"): 50.0}
    assert usage == series(by_node, "rescheduler_node_resource_usage_percent")
    assert 1.0 == series(by_node, "rescheduler_node_pods_count")["a", "all"]
