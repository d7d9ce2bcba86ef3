"""How much terminating and removed pods subtract from their node: never what others were measured to use."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.load.builders import cluster_of, expected, ingest, pod_reading, reading, running_pod, unsampled
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.load import terminated_pods
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

BY_REQUESTS = LoadSettings(estimates=("requests",))


def crowd(count: int, *, cpu: str = "500m", used: float = 1000.0, measured: dict[str, float] | None = None) -> Cluster:
    """So many pods on one node, with samples of it and of some of them."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    for name in (*(f"p{number}" for number in range(count)), *(measured or ())):
        cluster.upsert_pod(running_pod(name, "a", cpu=cpu, started=-1000.0))
    ingest(cluster, reading({"a": used}), *([pod_reading(measured)] if measured else []))
    return cluster


def test_expected_usage_is_never_negative_and_contains_added_pods() -> None:
    """The estimates of two removed pods may exceed the node's sample."""
    cluster = crowd(2, cpu="3", used=100.0)
    for name in ("p0", "p1"):
        cluster.delete_pod(f"uid-{name}")
    assert ({"a": -100.0}, {"a": 0.0}) == (unsampled(cluster), expected(cluster))
    cluster.upsert_pod(running_pod("next", "a"))
    assert {"a": 500.0} == expected(cluster)
    assert [] == check_invariants(cluster)
    ingest(cluster, reading({"a": 430.0}, at=15.0))
    assert {"a": 430.0} == expected(cluster)


@pytest.mark.parametrize("way", ["gone", "on their way out"])
def test_pods_without_a_sample_share_their_nodes_sample(way: str) -> None:
    """Four that request twice the usage: each counts a quarter, and the remaining ones keep the rest."""
    cluster = crowd(4)
    for number, left in enumerate((750.0, 500.0, 250.0, 0.0)):
        pod = cluster.pods[f"uid-p{number}"]
        if way == "gone":
            cluster.delete_pod(pod.uid)
        else:
            cluster.upsert_pod(replace(pod, version=2, terminating=True))
        assert {"a": left} == expected(cluster)
    assert [] == check_invariants(cluster)


def test_measured_usage_is_never_subtracted_with_other_pods() -> None:
    """Two pods without a sample are removed: the remaining one was measured at 800."""
    cluster = crowd(2, measured={"web": 800.0})
    for name in ("p0", "p1"):
        cluster.delete_pod(f"uid-{name}")
    assert {"a": 800.0} == expected(cluster)
    ingest(cluster, reading({"a": 810.0}, at=15.0), pod_reading({"web": 800.0}, at=15.0))
    assert {"a": 810.0} == expected(cluster)


def test_samples_of_pods_may_exceed_their_node() -> None:
    """They were taken at other times than the node's; a removed pod subtracts only what the others leave."""
    cluster = crowd(0, measured={"web": 700.0, "job": 600.0})
    cluster.delete_pod("uid-job")
    assert {"a": 700.0} == expected(cluster)
    cluster.delete_pod("uid-web")
    assert {"a": 0.0} == expected(cluster)


def test_pods_added_and_removed_while_the_sample_is_old() -> None:
    """The node is not sampled for minutes."""
    cluster = crowd(3, measured={"web": 300.0})
    for turn in range(20):
        cluster.age_load(10.0 * turn)
        cluster.upsert_pod(running_pod(f"short-{turn}", "a", started=10.0 * turn, uid=f"short-{turn}"))
        assert 800.0 <= (expected(cluster)["a"] or 0.0)
        cluster.delete_pod(f"short-{turn}")
        if turn < 3:
            cluster.delete_pod(f"uid-p{turn}")
        assert 300.0 <= (expected(cluster)["a"] or 0.0)
    assert {"a": 300.0} == expected(cluster)
    assert [] == check_invariants(cluster)


def test_a_pod_added_after_its_nodes_sample_is_not_in_it() -> None:
    """Pods are sampled more often here: the pod's usage is added, and removed with it."""
    cluster = crowd(0, measured={"web": 400.0})
    cluster.age_load(10.0)
    cluster.upsert_pod(running_pod("new", "a", started=10.0))
    ingest(cluster, pod_reading({"web": 400.0, "new": 300.0}, at=40.0))
    assert {"a": 1300.0} == expected(cluster)
    cluster.delete_pod("uid-new")
    assert {"a": 1000.0} == expected(cluster)
    assert [] == check_invariants(cluster)


def test_a_node_may_fall_idle_with_its_only_pod() -> None:
    """Its sample is not rejected because of the removed pod's."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a", started=-1000.0))
    ingest(cluster, reading({"a": 3900.0}), pod_reading({"web": 3800.0}))
    cluster.delete_pod("uid-web")
    assert {} == ingest(cluster, reading({"a": 20.0}, at=15.0))
    assert {"a": 20.0} == expected(cluster)


@pytest.mark.parametrize(
    ("measured", "read", "window", "usage"), [(285.0, 305.0, 300.0, 970.0), (3540.0, 3780.0, 3600.0, 990.0)]
)
def test_a_later_sample_over_a_longer_window_contains_a_removed_pod(
    measured: float, read: float, window: float, usage: float
) -> None:
    """The first source's samples have no window, and the last of them goes stale five minutes after the pod was removed.
    The pod was forgotten with it, and a sample of the second source, whose window reaches further back, counted in full."""
    cluster = crowd(1, cpu="600m")
    cluster.delete_pod("uid-p0")
    assert {"a": 400.0} == expected(cluster)
    cluster.age_load(read)
    assert {"a": None} == expected(cluster)
    ingest(cluster, reading({"a": 1000.0}, at=measured, window=window, source="averages"), at=read)
    assert {"a": usage} == expected(cluster)
    assert [] == check_invariants(cluster)


def test_entries_are_merged_when_the_list_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost: those of one node and minute are merged."""
    monkeypatch.setattr(terminated_pods, "MAX_ENTRIES", 10)
    names = [f"n{number}" for number in range(4)]
    cluster = cluster_of(*names, settings=BY_REQUESTS)
    cluster.load_store.terminated_pods.max_entries = 10
    pods = [running_pod(f"p{number}", names[number % 4], cpu="10m", started=-1000.0) for number in range(100)]
    for pod in pods:
        cluster.upsert_pod(pod)
    ingest(cluster, reading(dict.fromkeys(names, 1000.0)))
    for number, pod in enumerate(pods):
        cluster.age_load(15.0 * number / len(pods))
        cluster.delete_pod(pod.uid)
    assert dict.fromkeys(names, 750.0) == expected(cluster)
    assert [] == check_invariants(cluster)
    assert 10 >= cluster.load_store.terminated_pods.count
    ingest(cluster, reading(dict.fromkeys(names, 740.0), at=30.0))
    assert dict.fromkeys(names, 740.0) == expected(cluster)
    cluster.age_load(4000.0)
    ingest(cluster, reading(dict.fromkeys(names, 740.0), at=4000.0))
    assert 0 == cluster.load_store.terminated_pods.count


def test_slots_of_removed_pods_are_cleared() -> None:
    """However many pods are removed, nothing of them is left for the pods that get their slots."""
    cluster = crowd(0, measured={f"p{number}": 10.0 for number in range(30)})
    history = cluster.load_store.accounting[CPU].history
    slots = [cluster.pod_table.slot[f"uid-p{number}"] for number in range(30)]
    assert {1.0} == set(history.hourly()[0][slots].tolist())
    for number in range(30):
        cluster.delete_pod(f"uid-p{number}")
    assert {0.0} == set(history.hourly()[0][slots].tolist())
