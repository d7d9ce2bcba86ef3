"""Mean and variance of a node's usage: with pod metrics, without, and with few samples."""

from __future__ import annotations

import pytest

from tests.core.load.builders import by_name, cluster_of, ingest, pod_reading, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

BY_REQUESTS = LoadSettings(estimates=("requests",))  # a deviation of half the request


def forecast(cluster: Cluster, name: str = "a") -> tuple[float | None, float | None]:
    mean, variance = cluster.load.forecast(CPU)
    return by_name(cluster, mean)[name], by_name(cluster, variance)[name]


def test_means_and_variances_of_pods_add_up_to_the_node() -> None:
    """Plus the node's system usage."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    for name in ("web", "job"):
        cluster.upsert_pod(running_pod(name, "a"))
    for step in range(100):
        swing = 50.0 if step % 2 else -50.0
        use = {"web": 400.0 + swing, "job": 200.0 - swing}
        ingest(cluster, reading({"a": 800.0}, at=15.0 * step), pod_reading(use, at=15.0 * step))
    mean, variance = forecast(cluster)
    assert (pytest.approx(800.0), pytest.approx(2 * 50.0**2, rel=0.3)) == (mean, variance)
    assert [False] == cluster.load.node_metrics_only(CPU).tolist()


def test_system_usage_is_known_whichever_sample_came_first() -> None:
    """Nodes and pods may have different sources: system usage is not 0 until the node is sampled again."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a", started=0.0))
    ingest(cluster, reading({"a": 2000.0}, at=400.0))
    ingest(cluster, pod_reading({"web": 500.0}, at=400.0))
    assert [1500.0] == cluster.load.system_usage(CPU).tolist()
    assert 2000.0 == forecast(cluster)[0]
    cluster.discard_source("pods", 410.0)
    assert {"a": None} == by_name(cluster, cluster.load.system_usage(CPU))


def test_the_estimate_counts_as_one_more_sample_in_the_variance() -> None:
    """One sample varies like the estimate, many like themselves."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    samples = []
    for step in range(3):
        ingest(cluster, reading({"a": 400.0}, at=15.0 * step), pod_reading({"web": 400.0}, at=15.0 * step))
        samples.append(forecast(cluster)[1])
    assert [62500.0, 31250.0, pytest.approx(62500 / 3, abs=1.0)] == samples


def test_added_and_removed_pods_change_the_forecast_at_once() -> None:
    """Before any sample contains them."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    for name in ("web", "job"):
        cluster.upsert_pod(running_pod(name, "a"))
    ingest(cluster, reading({"a": 700.0}), pod_reading({"web": 400.0, "job": 300.0}))
    cluster.upsert_pod(running_pod("new", "", phase="Pending"))
    cluster.assume(running_pod("new", ""), "a")
    assert (1200.0, 3 * 62500.0) == forecast(cluster)
    cluster.delete_pod("uid-job")
    assert (900.0, 2 * 62500.0) == forecast(cluster)


def test_a_young_pods_sample_is_filled_up_with_its_estimate() -> None:
    """A fifth of the window contains a fifth of its usage."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("old", "a", started=-1000.0))
    cluster.upsert_pod(running_pod("new", "a", started=0.0))
    samples = pod_reading({"old": 100.0, "new": 60.0}, at=60.0, window=300.0)
    ingest(cluster, reading({"a": 160.0}, at=60.0, window=300.0), samples)
    assert 100.0 + 60.0 + 0.8 * 500.0 == forecast(cluster)[0]


def test_node_metrics_are_used_without_pod_metrics() -> None:
    """Expected usage, and the variance of the node's samples; unsampled pods add the variance of their estimates."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    for step in range(4):
        ingest(cluster, reading({"a": 1000.0 + (100.0 if step % 2 else -100.0)}, at=15.0 * step))
    spread = pytest.approx(4 * 100.0**2 / 3, rel=1e-6)
    assert ([True], (1100.0, spread)) == (cluster.load.node_metrics_only(CPU).tolist(), forecast(cluster))
    cluster.upsert_pod(running_pod("new", "a"))
    assert (1600.0, pytest.approx(4 * 100.0**2 / 3 + 62500.0)) == forecast(cluster)


def test_with_one_sample_the_estimates_of_pods_give_the_variance() -> None:
    """One sample has no deviation; none at all gives no forecast."""
    cluster = cluster_of("a", "dark", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 1000.0}))
    assert (1000.0, 62500.0) == forecast(cluster)
    assert (None, None) == forecast(cluster, "dark")


def test_node_metrics_only() -> None:
    """True for a node whose old pods all lack samples, not for an empty one."""
    cluster = cluster_of("a", "empty", "dark", settings=BY_REQUESTS)
    for name, node in (("web", "a"), ("job", "dark")):
        cluster.upsert_pod(running_pod(name, node, started=-1000.0))
    fleet = dict.fromkeys(("a", "empty", "dark"), 600.0)
    ingest(cluster, reading(fleet), pod_reading({"web": 400.0}))
    alone = dict(zip(("a", "empty", "dark"), cluster.load.node_metrics_only(CPU).tolist(), strict=True))
    assert {"a": False, "empty": False, "dark": True} == alone
    assert [600.0, 600.0, 600.0] == [forecast(cluster, name)[0] for name in fleet]
