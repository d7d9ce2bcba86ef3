"""What a node's newest sample does not contain yet, and what of it is due to removed pods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from tests.core.load.builders import (
    cluster_of,
    expected,
    ingest,
    pod_reading,
    pods_sampled_at,
    reading,
    running_pod,
    unsampled,
)
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.load.pod_usage import PodUsage
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

BY_REQUESTS = LoadSettings(estimates=("requests",))


def scene(*names: str) -> Cluster:
    """Nodes at 1000 since time 0; added pods are estimated at 500."""
    cluster = cluster_of(*(names or ("a",)), settings=BY_REQUESTS)
    ingest(cluster, reading(dict.fromkeys(names or ("a",), 1000.0), at=0.0))
    return cluster


def test_pods_from_before_the_first_sample_are_in_it() -> None:
    """Nothing is unsampled."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 1000.0}, at=0.0))
    assert {"a": 0.0} == unsampled(cluster)


def test_an_assumed_pod_counts_at_once_and_until_a_sample_contains_it() -> None:
    """The next placement sees it; a sample taken after its start contains it."""
    cluster = scene("a", "b")
    cluster.upsert_pod(replace(running_pod("web", ""), node=""))
    cluster.assume(replace(running_pod("web", ""), node=""), "a")
    assert {"a": 1500.0, "b": 1000.0} == expected(cluster)
    ingest(cluster, reading({"a": 1010.0, "b": 1000.0}, at=0.0), at=10.0)
    assert {"a": 1500.0, "b": 1000.0} == expected(cluster)
    ingest(cluster, reading({"a": 1480.0, "b": 1000.0}, at=15.0))
    assert {"a": 1480.0, "b": 1000.0} == expected(cluster)
    assert [] == check_invariants(cluster)


def test_a_bind_that_failed_leaves_nothing_behind() -> None:
    """An assumed and forgotten pod leaves no trace."""
    cluster = scene()
    cluster.upsert_pod(running_pod("web", "", phase="Pending"))
    cluster.assume(running_pod("web", ""), "a")
    cluster.forget("uid-web")
    assert {"a": 0.0} == unsampled(cluster)


@pytest.mark.parametrize(("after", "left"), [(0.0, 500.0), (60.0, 400.0), (150.0, 250.0), (300.0, 0.0), (900.0, 0.0)])
def test_a_sample_contains_a_young_pod_in_part(after: float, left: float) -> None:
    """As much as it has run of the window; the rest is unsampled."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.load_store.advance(1000.0)
    cluster.upsert_pod(running_pod("web", "a", started=1000.0))
    ingest(cluster, reading({"a": 1000.0}, at=1000.0 + after, window=300.0))
    assert {"a": left} == unsampled(cluster)


def test_where_pods_are_measured_the_first_own_sample_counts() -> None:
    """A pod still pulling its image is not in the node's sample, however long ago it was bound."""
    cluster = scene()
    cluster.upsert_pod(running_pod("there", "a", started=-1000.0))
    cluster.upsert_pod(running_pod("pulling", "a", started=10.0))
    for at in (30.0, 60.0):
        ingest(cluster, reading({"a": 1000.0}, at=at), pod_reading({"there": 400.0}, at=at))
        assert {"a": 500.0} == unsampled(cluster)
    ingest(cluster, reading({"a": 1300.0}, at=75.0), pod_reading({"there": 400.0, "pulling": 300.0}, at=75.0))
    assert {"a": 0.0} == unsampled(cluster)
    assert [] == check_invariants(cluster)


def test_a_pod_that_is_never_measured_counts_as_sampled_in_the_end() -> None:
    """After as long as samples are trusted: some pods have no metrics, and must not count twice forever."""
    cluster = scene()
    cluster.upsert_pod(running_pod("there", "a", started=-1000.0))
    cluster.upsert_pod(running_pod("dark", "a", started=10.0))
    for at, left in ((300.0, 500.0), (315.0, 0.0)):
        ingest(cluster, reading({"a": 1000.0}, at=at), pod_reading({"there": 400.0}, at=at))
        assert {"a": left} == unsampled(cluster)


def test_a_terminating_pod_is_subtracted_at_once() -> None:
    """When its deletion is seen, while it terminates, and after that until a sample without it arrives."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    web = running_pod("web", "a", started=-500.0)
    cluster.upsert_pod(web)
    ingest(cluster, reading({"a": 1000.0}, at=0.0), pod_reading({"web": 300.0}, at=0.0))
    cluster.load_store.advance(5.0)
    cluster.upsert_pod(replace(web, terminating=True, version=2))
    assert {"a": 700.0} == expected(cluster)
    ingest(cluster, reading({"a": 990.0}, at=15.0), pod_reading({"web": 290.0}, at=15.0))
    assert {"a": 700.0} == expected(cluster)
    cluster.load_store.advance(20.0)
    cluster.delete_pod("uid-web")
    assert {"a": 700.0} == expected(cluster)
    assert [] == check_invariants(cluster)
    ingest(cluster, reading({"a": 710.0}, at=30.0))
    assert {"a": 710.0} == expected(cluster)


def test_a_pod_that_terminates_for_too_long_counts_again() -> None:
    """Long grace periods and stuck finalizers."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    web = running_pod("web", "a", started=-500.0)
    cluster.upsert_pod(web)
    ingest(cluster, reading({"a": 1000.0}, at=0.0), pod_reading({"web": 300.0}, at=0.0))
    cluster.upsert_pod(replace(web, terminating=True, version=2))
    for at, left in ((290.0, 700.0), (310.0, 1000.0)):
        ingest(cluster, reading({"a": 1000.0}, at=at), pod_reading({"web": 300.0}, at=at))
        assert {"a": left} == expected(cluster)


@pytest.mark.parametrize(("after", "shown"), [(0.0, 500.0), (60.0, 400.0), (270.0, 50.0), (300.0, 0.0)])
def test_a_sample_contains_a_removed_pod_for_its_window(after: float, shown: float) -> None:
    """Less and less: as much as its window reaches back to the pod."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 1000.0}, at=1000.0, window=300.0))
    cluster.delete_pod("uid-web")
    ingest(cluster, reading({"a": 1000.0}, at=1000.0 + after + 1e-3, window=300.0))
    assert {"a": pytest.approx(-shown, abs=0.01)} == unsampled(cluster)


def test_without_a_sample_all_pods_are_unsampled_and_expected_usage_is_unknown() -> None:
    """Missing is not zero; the same once the sample is too old."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    assert ({"a": 500.0}, {"a": None}) == (unsampled(cluster), expected(cluster))
    ingest(cluster, reading({"a": 1000.0}, at=0.0))
    assert {"a": 0.0} == unsampled(cluster)
    cluster.age_load(1000.0)
    assert ({"a": 500.0}, {"a": None}) == (unsampled(cluster), expected(cluster))


def test_a_pod_resized_in_place_keeps_its_samples() -> None:
    """Nothing is subtracted, and nothing is unsampled."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 1000.0}, at=0.0), pod_reading({"web": 300.0}, at=0.0))
    cluster.upsert_pod(running_pod("web", "a", cpu="900m", version=2))
    assert {"a": 1000.0} == expected(cluster)
    assert [0.0] == pods_sampled_at(cluster)[:1].tolist()
    assert [] == check_invariants(cluster)


def test_updates_that_change_the_load_are_logged_for_the_row() -> None:
    """Cached results of that node are recomputed, although no request has changed."""
    cluster = scene("a", "b")
    web = running_pod("web", "b", started=-100.0)
    cluster.upsert_pod(web)
    for number, news in enumerate(({"terminating": True}, {"ready": True}, {"started": 5.0})):
        before = len(cluster.node_table.log)
        web = replace(web, version=2 + number, **news)
        cluster.upsert_pod(web)
        assert [1, 0, 1][number] == len(cluster.node_table.log) - before


def test_pods_on_a_node_that_is_removed_and_added_again() -> None:
    """They are unsampled until it is measured; removed pods of the old node do not count for the new one."""
    cluster = scene("a", "b")
    cluster.upsert_pod(running_pod("web", "a", started=-100.0))
    cluster.upsert_pod(running_pod("job", "a", started=-100.0))
    ingest(cluster, reading({"a": 1000.0, "b": 1000.0}, at=5.0))
    cluster.delete_pod("uid-job")
    old = cluster.node_table.nodes[cluster.node_table.row["a"]]
    cluster.delete_node("a")
    assert [] == check_invariants(cluster)
    cluster.upsert_node(replace(old, uid="new", version=9))
    assert {"a": 500.0, "b": 0.0} == unsampled(cluster)
    ingest(cluster, reading({"a": 600.0}, at=10.0))
    assert {"a": 600.0, "b": 1000.0} == expected(cluster)
    assert [] == check_invariants(cluster)


def test_placed_at() -> None:
    """As far as observed; pods from before the first event with a time are older than everything."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("first", "a"))
    cluster.load_store.advance(50.0)
    cluster.upsert_pod(running_pod("second", "a"))
    cluster.upsert_pod(running_pod("third", "a", started=20.0))
    slots = [cluster.pod_table.slot[f"uid-{name}"] for name in ("first", "second", "third")]
    assert [float("-inf"), 50.0, 20.0] == cluster.load.placed_at[slots].tolist()


def test_samples_of_pods_are_not_trusted_after_their_source_failed() -> None:
    """Then the node's own sample decides what it contains."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("web", "a", started=0.0))
    at = 100.0
    ingest(cluster, reading({"a": 1000.0}, at, window=400.0), pod_reading({"web": 300.0}, at, window=0.0))
    assert ({"a": 0.0}, [False]) == (unsampled(cluster), cluster.load.node_metrics_only(CPU).tolist())
    cluster.discard_source("pods", 101.0)
    assert ({"a": 375.0}, [True]) == (unsampled(cluster), cluster.load.node_metrics_only(CPU).tolist())


def test_samples_of_pods_outlive_their_node_object() -> None:
    """A node that registers again has the same pods."""
    cluster = scene("a", "b")
    cluster.upsert_pod(running_pod("web", "a", started=-100.0))
    ingest(cluster, pod_reading({"web": 300.0}, at=5.0))
    old = cluster.node_table.nodes[cluster.node_table.row["a"]]
    cluster.upsert_node(replace(old, uid="new", version=9))
    assert ([5.0], {"a": 300.0, "b": 0.0}) == (pods_sampled_at(cluster)[:1].tolist(), unsampled(cluster))
    assert [] == check_invariants(cluster)


# --- what forks share


def usage(cluster: Cluster) -> PodUsage:
    return cluster.load_store.accounting[CPU].pods


def change_settings(cluster: Cluster) -> None:
    cluster.load_store.apply_settings(LoadSettings(estimates=("trimaran",)))


WRITES: tuple[Callable[[Cluster], object], ...] = (
    lambda cluster: cluster.upsert_pod(running_pod("new", "a")),
    lambda cluster: cluster.upsert_pod(replace(running_pod("web", "a", version=9), terminating=True)),
    lambda cluster: cluster.delete_pod("uid-web"),
    lambda cluster: cluster.delete_node("a"),
    lambda cluster: ingest(cluster, reading({"a": 1200.0}, at=30.0), pod_reading({"web": 700.0}, 30.0)),
    lambda cluster: cluster.discard_source("meter", 30.0),
    change_settings,
)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("of_fork", [False, True])
def test_a_fork_shares_what_pods_use_until_one_side_writes(write: Callable[[Cluster], object], of_fork: bool) -> None:
    """The other side keeps every value that both had."""
    cluster = scene()
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 1000.0}, at=15.0), pod_reading({"web": 600.0}, 15.0))
    fork = cluster.fork()
    assert all(np.shares_memory(getattr(usage(cluster), name), getattr(usage(fork), name)) for name in PodUsage.COLUMNS)
    writer, other = (fork, cluster) if of_fork else (cluster, fork)
    before = {name: getattr(usage(other), name).copy() for name in PodUsage.COLUMNS}
    write(writer)
    for name, values in before.items():
        np.testing.assert_array_equal(values, getattr(usage(other), name))
    assert any(
        not np.array_equal(values, getattr(usage(writer), name), equal_nan=True) for name, values in before.items()
    )
    assert ([], []) == (check_invariants(writer), check_invariants(other))
