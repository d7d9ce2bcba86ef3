"""Decides whether the cluster believes the right facts, counts each pod once, and says truly what has changed."""

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


def test_an_assumed_pod_counts_and_is_then_held_without_counting_twice() -> None:
    """The watch's confirmation says that a pod came, and changes no sum."""
    cluster = cluster_of("a")
    cluster.upsert_pod(WEB)
    cluster.assume(WEB, "a")
    assert (1000, "a") == (requested(cluster, "a"), assumed_on(cluster, WEB.uid))
    assert Change.POD_ADDED == cluster.upsert_pod(replace(WEB, node="a", version=6))
    assert (1000, None, []) == (requested(cluster, "a"), assumed_on(cluster, WEB.uid), check_invariants(cluster))


def test_an_assumed_pod_that_is_forgotten_gives_its_room_back_once() -> None:
    """A held pod is not ours to forget."""
    cluster = cluster_of("a")
    cluster.upsert_pod(WEB)
    cluster.assume(WEB, "a")
    assert (Change.POD_DELETED, Change.NOTHING) == (cluster.forget(WEB.uid), cluster.forget(WEB.uid))
    cluster.upsert_pod(replace(WEB, node="a", version=6))
    assert (Change.NOTHING, 1000) == (cluster.forget(WEB.uid), requested(cluster, "a"))


def test_a_pod_seen_elsewhere_than_assumed_is_moved_there() -> None:
    """The API server's word goes over ours."""
    cluster = cluster_of("a", "b")
    cluster.upsert_pod(WEB)
    cluster.assume(WEB, "a")
    assert Change.POD_DELETED in cluster.upsert_pod(replace(WEB, node="b", version=6))
    assert (0, 1000, []) == (requested(cluster, "a"), requested(cluster, "b"), check_invariants(cluster))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_takes_no_room(phase: str) -> None:
    """Whether it was held, or is only now seen for the first time."""
    cluster = cluster_of("a")
    cluster.upsert_pod(replace(WEB, node="a"))
    assert Change.POD_DELETED == cluster.upsert_pod(replace(WEB, node="a", phase=phase, version=6))
    assert Change.NOTHING == cluster.upsert_pod(pod("other", cpu=5, node="a", phase=phase))
    assert (0, []) == (requested(cluster, "a"), check_invariants(cluster))


def test_a_pod_resized_in_place_counts_with_its_new_size() -> None:
    """And those who wait for room hear of it."""
    cluster = cluster_of("a")
    cluster.upsert_pod(replace(WEB, node="a"))
    change = cluster.upsert_pod(replace(pod("web", cpu=300), node="a", version=6))
    assert (300, True) == (requested(cluster, "a"), bool(change & Change.POD_DELETED))


def test_an_edit_of_a_waiting_pod_concerns_nobody_else() -> None:
    """No other pod is helped by it, so it is no change of the cluster."""
    cluster = cluster_of("a")
    cluster.upsert_pod(WEB)
    assert Change.NOTHING == cluster.upsert_pod(replace(WEB, labels={"new": "label"}, version=6))


def test_sums_beyond_the_cap_shrink_again() -> None:
    """The exact sum is kept beside the capped cell."""
    cluster = cluster_of("a")
    for name in ("huge", "vast"):
        cluster.upsert_pod(pod(name, cpu=MAX_AMOUNT, node="a"))
    assert MAX_AMOUNT == requested(cluster, "a")
    cluster.delete_pod("uid-huge")
    cluster.delete_pod("uid-vast")
    assert (0, []) == (requested(cluster, "a"), check_invariants(cluster))


# --- nominations


@pytest.mark.parametrize("end", ["deleted", "bound", "withdrawn", "elsewhere"])
def test_a_nomination_that_ends_is_told(end: str) -> None:
    """The room that was promised may serve somebody else."""
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
def test_what_changed_of_a_node_is_told(fields: dict[str, object], change: Change) -> None:
    """Nothing else is: a heartbeat wakes nobody."""
    cluster = cluster_of("a", "b")
    assert change == cluster.upsert_node(replace(node("a", version=6), **fields))
    assert [] == check_invariants(cluster)


def test_a_node_that_goes_leaves_its_row_to_another_with_all_its_pods() -> None:
    """And takes its own pods with it until it comes back."""
    cluster = cluster_of("a", "b", "c")
    for name in "abc":
        cluster.upsert_pod(pod(f"on-{name}", cpu=100, node=name))
    assert Change.NODE_DELETED == cluster.delete_node("a", "uid-a")
    assert ([100, 100], []) == ([requested(cluster, name) for name in "bc"], check_invariants(cluster))
    cluster.upsert_node(node("a", uid="uid-new", version=9))
    assert (100, []) == (requested(cluster, "a"), check_invariants(cluster))


def test_a_dead_node_is_not_believed_again() -> None:
    """Its UID is buried, whether its deletion was seen or a new node took its name."""
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


def test_nothing_done_to_a_fork_is_seen_by_the_original() -> None:
    """Nor the other way round."""
    cluster = cluster_of("a", "b")
    cluster.upsert_pod(WEB)
    twin = cluster.fork()
    twin.assume(WEB, "a")
    twin.upsert_pod(pod("more", cpu=7, node="b"))
    twin.delete_node("a")
    twin.upsert_node(node("c"))
    cluster.upsert_pod(pod("other", cpu=5, node="b"))
    assert ([0, 5], ["a", "b"]) == ([requested(cluster, n) for n in "ab"], [n.name for n in cluster.node_table.nodes])
    assert (7, ["b", "c"]) == (requested(twin, "b"), [n.name for n in twin.node_table.nodes])
    assert ([], []) == (check_invariants(cluster), check_invariants(twin))
