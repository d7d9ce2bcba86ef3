"""The cluster state: which events are taken in, that each pod counts once, and what is reported as changed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import assumed_on
from tests.core.engine_harness import node, pod
from trimtab.core.cluster.cluster import MAX_TOMBSTONES, Cluster
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.model.change import Change
from trimtab.core.model.resources import CPU, MAX_AMOUNT
from trimtab.core.model.taints import NO_SCHEDULE, Taint

WEB = pod("web", cpu=1000, version=5)


def cluster_of(*names: str) -> Cluster:
    cluster = Cluster()
    for name in names:
        cluster.upsert_node(node(name, version=5))
    return cluster


def requested(cluster: Cluster, name: str) -> int:
    return int(cluster.view.requested(CPU)[cluster.node_table.row[name]])


# --- a pod's place


def test_an_assumed_pod_counts_once_when_it_is_observed() -> None:
    """The watch's confirmation reports an added pod and changes no sum."""
    cluster = cluster_of("a")
    cluster.upsert_pod(WEB)
    cluster.assume(WEB, "a")
    assert (1000, "a") == (requested(cluster, "a"), assumed_on(cluster, WEB.uid))
    assert Change.POD_ADDED == cluster.upsert_pod(replace(WEB, node="a", version=6))
    assert (1000, None, []) == (requested(cluster, "a"), assumed_on(cluster, WEB.uid), check_invariants(cluster))


def test_forgetting_an_assumed_pod_releases_its_resources_once() -> None:
    """An observed pod cannot be forgotten."""
    cluster = cluster_of("a")
    cluster.upsert_pod(WEB)
    cluster.assume(WEB, "a")
    assert (Change.POD_DELETED, Change.NOTHING) == (cluster.forget(WEB.uid), cluster.forget(WEB.uid))
    cluster.upsert_pod(replace(WEB, node="a", version=6))
    assert (Change.NOTHING, 1000) == (cluster.forget(WEB.uid), requested(cluster, "a"))


def test_a_pod_observed_on_another_node_than_assumed_moves_there() -> None:
    """The API server is right."""
    cluster = cluster_of("a", "b")
    cluster.upsert_pod(WEB)
    cluster.assume(WEB, "a")
    assert Change.POD_DELETED in cluster.upsert_pod(replace(WEB, node="b", version=6))
    assert (0, 1000, []) == (requested(cluster, "a"), requested(cluster, "b"), check_invariants(cluster))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_no_resources(phase: str) -> None:
    """Whether it was placed before, or is first seen now."""
    cluster = cluster_of("a")
    cluster.upsert_pod(replace(WEB, node="a"))
    assert Change.POD_DELETED == cluster.upsert_pod(replace(WEB, node="a", phase=phase, version=6))
    assert Change.NOTHING == cluster.upsert_pod(pod("other", cpu=5, node="a", phase=phase))
    assert (0, []) == (requested(cluster, "a"), check_invariants(cluster))


def test_a_pod_resized_in_place_counts_with_its_new_requests() -> None:
    """And the change is reported, so that unschedulable pods are requeued."""
    cluster = cluster_of("a")
    cluster.upsert_pod(replace(WEB, node="a"))
    change = cluster.upsert_pod(replace(pod("web", cpu=300), node="a", version=6))
    assert (300, True) == (requested(cluster, "a"), bool(change & Change.POD_DELETED))


def test_an_update_of_a_pending_pod_is_no_change_of_the_cluster() -> None:
    """No other pod becomes schedulable by it."""
    cluster = cluster_of("a")
    cluster.upsert_pod(WEB)
    assert Change.NOTHING == cluster.upsert_pod(replace(WEB, labels={"new": "label"}, version=6))


def test_sums_above_the_maximum_shrink_again() -> None:
    """The exact sum is kept next to the capped cell."""
    cluster = cluster_of("a")
    for name in ("huge", "vast"):
        cluster.upsert_pod(pod(name, cpu=MAX_AMOUNT, node="a"))
    assert MAX_AMOUNT == requested(cluster, "a")
    cluster.delete_pod("uid-huge")
    cluster.delete_pod("uid-vast")
    assert (0, []) == (requested(cluster, "a"), check_invariants(cluster))


# --- nominations


@pytest.mark.parametrize("end", ["deleted", "bound", "withdrawn", "elsewhere"])
def test_the_end_of_a_nomination_is_reported(end: str) -> None:
    """Other pods may use the node's resources."""
    cluster = cluster_of("a", "b")
    promised = replace(WEB, nominated_node="a")
    cluster.upsert_pod(promised)
    assert Change.NOTHING == cluster.upsert_pod(replace(promised, labels={"new": "label"}, version=6))
    if end == "deleted":
        change = cluster.delete_pod(WEB.uid)
    else:
        fields = {"bound": {"node": "b"}, "withdrawn": {"nominated_node": ""}, "elsewhere": {"nominated_node": "b"}}[
            end
        ]
        change = cluster.upsert_pod(replace(promised, version=7, **fields))
    assert Change.NOMINATED in change
    assert ([promised.uid] if end == "elsewhere" else []) == list(cluster.nominated)


# --- nodes


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({}, Change.NOTHING),
        ({"allocatable": ((CPU, 1),)}, Change.ALLOCATABLE),
        ({"labels": {"zone": "x"}}, Change.LABELS),
        ({"taints": (Taint("k", "", NO_SCHEDULE),)}, Change.TAINTS),
        ({"unschedulable": True}, Change.TAINTS),
        ({"unschedulable": True, "labels": {"zone": "x"}}, Change.TAINTS | Change.LABELS),
    ],
)
def test_node_changes_are_reported_by_kind(fields: dict[str, object], change: Change) -> None:
    """A heartbeat is not a change."""
    cluster = cluster_of("a", "b")
    assert change == cluster.upsert_node(replace(node("a", version=6), **fields))
    assert [] == check_invariants(cluster)


def test_the_last_row_moves_into_a_removed_one_with_all_its_pods() -> None:
    """The removed node's own pods have no row until it comes back."""
    cluster = cluster_of("a", "b", "c")
    for name in "abc":
        cluster.upsert_pod(pod(f"on-{name}", cpu=100, node=name))
    assert Change.NODE_DELETED == cluster.delete_node("a", "uid-a")
    assert ([100, 100], []) == ([requested(cluster, name) for name in "bc"], check_invariants(cluster))
    cluster.upsert_node(node("a", uid="uid-new", version=9))
    assert (100, []) == (requested(cluster, "a"), check_invariants(cluster))


def test_events_of_a_deleted_node_are_ignored() -> None:
    """By UID, whether its deletion was observed or a new node took its name."""
    cluster = cluster_of("a", "b")
    cluster.delete_node("a", "uid-a", 9)
    cluster.upsert_node(node("b", uid="uid-new", version=10))
    assert (Change.NOTHING, Change.NOTHING) == (
        cluster.upsert_node(node("a", version=11)),
        cluster.upsert_node(node("b", version=12)),
    )
    assert ["uid-new"] == [each.uid for each in cluster.node_table.nodes]


def test_tombstones_are_bounded() -> None:
    """The oldest go first."""
    cluster = Cluster()
    for number in range(MAX_TOMBSTONES + 10):
        cluster.delete_pod(str(number))
    assert (MAX_TOMBSTONES, False, True) == (
        len(cluster.tombstones),
        "9" in cluster.tombstones,
        "10" in cluster.tombstones,
    )


# --- forks


def test_a_fork_and_the_original_are_independent() -> None:
    """In both directions."""
    cluster = cluster_of("a", "b")
    cluster.upsert_pod(WEB)
    fork = cluster.fork()
    fork.assume(WEB, "a")
    fork.upsert_pod(pod("more", cpu=7, node="b"))
    fork.delete_node("a")
    fork.upsert_node(node("c"))
    cluster.upsert_pod(pod("other", cpu=5, node="b"))
    assert ([0, 5], ["a", "b"]) == ([requested(cluster, n) for n in "ab"], [n.name for n in cluster.node_table.nodes])
    assert (7, ["b", "c"]) == (requested(fork, "b"), [n.name for n in fork.node_table.nodes])
    assert ([], []) == (check_invariants(cluster), check_invariants(fork))
