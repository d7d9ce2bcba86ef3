"""Decides what a node's pods are said to come to, with their metrics, without, and with little of them."""

from __future__ import annotations

import pytest

from tests.core.load.builders import by_name, cluster_of, ingest, pod_reading, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

BY_REQUESTS = LoadSettings(estimates=("requests",))  # a deviation of half the request


def foretold(cluster: Cluster, name: str = "a") -> tuple[float | None, float | None]:
    mean, variance = cluster.load.forecast(CPU)
    return by_name(cluster, mean)[name], by_name(cluster, variance)[name]


def test_means_and_variances_of_pods_add_up_to_the_node() -> None:
    """And what the node uses beside its pods is on top."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    for name in ("web", "job"):
        cluster.upsert_pod(running_pod(name, "a"))
    for step in range(100):
        swing = 50.0 if step % 2 else -50.0
        use = {"web": 400.0 + swing, "job": 200.0 - swing}
        ingest(cluster, reading({"a": 800.0}, at=15.0 * step), pod_reading(use, at=15.0 * step))
    mean, variance = foretold(cluster)
    assert (pytest.approx(800.0), pytest.approx(2 * 50.0**2, rel=0.3)) == (mean, variance)
    assert [False] == cluster.load.node_metrics_only(CPU).tolist()


def test_what_a_node_uses_beside_its_pods_is_known_whichever_sample_came_first() -> None:
    """Nodes and pods may be read from two sources: until the node is measured again, nothing is not what it uses."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a", started=0.0))
    ingest(cluster, reading({"a": 2000.0}, at=400.0))
    ingest(cluster, pod_reading({"web": 500.0}, at=400.0))
    assert [1500.0] == cluster.load.system_usage(CPU).tolist()
    assert 2000.0 == foretold(cluster)[0]
    cluster.source_failed("pods", 410.0)
    assert {"a": None} == by_name(cluster, cluster.load.system_usage(CPU))


def test_one_sample_varies_as_the_estimate_does_and_many_as_they_do() -> None:
    """The estimate's variance counts as one more sample."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    told = []
    for step in range(3):
        ingest(cluster, reading({"a": 400.0}, at=15.0 * step), pod_reading({"web": 400.0}, at=15.0 * step))
        told.append(foretold(cluster)[1])
    assert [62500.0, 31250.0, pytest.approx(62500 / 3, abs=1.0)] == told


def test_who_comes_and_goes_is_in_the_sum_at_once() -> None:
    """With its estimate, or not at all, long before any sample shows it."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    for name in ("web", "job"):
        cluster.upsert_pod(running_pod(name, "a"))
    ingest(cluster, reading({"a": 700.0}), pod_reading({"web": 400.0, "job": 300.0}))
    cluster.upsert_pod(running_pod("new", "", phase="Pending"))
    cluster.assume(running_pod("new", ""), "a")
    assert (1200.0, 3 * 62500.0) == foretold(cluster)
    cluster.delete_pod("uid-job")
    assert (900.0, 2 * 62500.0) == foretold(cluster)


def test_a_young_pods_samples_are_taken_for_what_they_show() -> None:
    """A fifth of the window shows a fifth of the use: the rest is as estimated."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("old", "a", started=-1000.0))
    cluster.upsert_pod(running_pod("new", "a", started=0.0))
    told = pod_reading({"old": 100.0, "new": 60.0}, at=60.0, window=300.0)
    ingest(cluster, reading({"a": 160.0}, at=60.0, window=300.0), told)
    assert 100.0 + 60.0 + 0.8 * 500.0 == foretold(cluster)[0]


def test_without_metrics_of_pods_the_nodes_own_stand_in_and_say_so() -> None:
    """What is expected, and how the node itself varies; pods not shown yet add their doubt."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    for step in range(4):
        ingest(cluster, reading({"a": 1000.0 + (100.0 if step % 2 else -100.0)}, at=15.0 * step))
    spread = pytest.approx(4 * 100.0**2 / 3, rel=1e-6)
    assert ([True], (1100.0, spread)) == (cluster.load.node_metrics_only(CPU).tolist(), foretold(cluster))
    cluster.upsert_pod(running_pod("new", "a"))
    assert (1600.0, pytest.approx(4 * 100.0**2 / 3 + 62500.0)) == foretold(cluster)


def test_with_one_sample_of_the_node_its_pods_estimates_say_how_it_varies() -> None:
    """A single look has no deviation; none at all foretells nothing."""
    cluster = cluster_of("a", "dark", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 1000.0}))
    assert (1000.0, 62500.0) == foretold(cluster)
    assert (None, None) == foretold(cluster, "dark")


def test_only_nodes_without_metrics_of_pods_are_stood_in_for() -> None:
    """An empty node is fine; one whose old pods all lack theirs is not."""
    cluster = cluster_of("a", "empty", "dark", settings=BY_REQUESTS)
    for name, node in (("web", "a"), ("job", "dark")):
        cluster.upsert_pod(running_pod(name, node, started=-1000.0))
    fleet = dict.fromkeys(("a", "empty", "dark"), 600.0)
    ingest(cluster, reading(fleet), pod_reading({"web": 400.0}))
    alone = dict(zip(("a", "empty", "dark"), cluster.load.node_metrics_only(CPU).tolist(), strict=True))
    assert {"a": False, "empty": False, "dark": True} == alone
    assert [600.0, 600.0, 600.0] == [foretold(cluster, name)[0] for name in fleet]
