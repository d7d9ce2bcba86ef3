"""Decides whether the cluster believes the right facts, counts each pod once, and says truly what has changed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.engine.scene import node, pod
from trimtab.core.cluster.invariants import faults
from trimtab.core.cluster.state import TOMBSTONES, Cluster
from trimtab.core.model.change import Change
from trimtab.core.model.resources import CAP, CPU
from trimtab.core.model.taints import NO_SCHEDULE, Taint

WEB = pod("web", cpu=1000, version=5)


def cluster_of(*names: str) -> Cluster:
    cluster = Cluster()
    for name in names:
        cluster.see_node(node(name, version=5))
    return cluster


def requested(cluster: Cluster, name: str) -> int:
    return int(cluster.view.requested(CPU)[cluster.columns.row[name]])


# --- a pod's place


def test_an_assumed_pod_counts_and_is_then_held_without_counting_twice() -> None:
    """The watch's confirmation says that a pod came, and changes no sum."""
    cluster = cluster_of("a")
    cluster.see_pod(WEB)
    cluster.assume(WEB, "a")
    assert (1000, "a") == (requested(cluster, "a"), cluster.assumed_on(WEB.uid))
    assert Change.POD_CAME == cluster.see_pod(replace(WEB, node="a", version=6))
    assert (1000, None, []) == (requested(cluster, "a"), cluster.assumed_on(WEB.uid), faults(cluster))


def test_an_assumed_pod_that_is_forgotten_gives_its_room_back_once() -> None:
    """A held pod is not ours to forget."""
    cluster = cluster_of("a")
    cluster.see_pod(WEB)
    cluster.assume(WEB, "a")
    assert (Change.POD_LEFT, Change.NOTHING) == (cluster.forget(WEB.uid), cluster.forget(WEB.uid))
    cluster.see_pod(replace(WEB, node="a", version=6))
    assert (Change.NOTHING, 1000) == (cluster.forget(WEB.uid), requested(cluster, "a"))


def test_a_pod_seen_elsewhere_than_assumed_is_moved_there() -> None:
    """The API server's word goes over ours."""
    cluster = cluster_of("a", "b")
    cluster.see_pod(WEB)
    cluster.assume(WEB, "a")
    assert Change.POD_LEFT in cluster.see_pod(replace(WEB, node="b", version=6))
    assert (0, 1000, []) == (requested(cluster, "a"), requested(cluster, "b"), faults(cluster))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_takes_no_room(phase: str) -> None:
    """Whether it was held, or is only now seen for the first time."""
    cluster = cluster_of("a")
    cluster.see_pod(replace(WEB, node="a"))
    assert Change.POD_LEFT == cluster.see_pod(replace(WEB, node="a", phase=phase, version=6))
    assert Change.NOTHING == cluster.see_pod(pod("other", cpu=5, node="a", phase=phase))
    assert (0, []) == (requested(cluster, "a"), faults(cluster))


def test_a_pod_resized_in_place_counts_with_its_new_size() -> None:
    """And those who wait for room hear of it."""
    cluster = cluster_of("a")
    cluster.see_pod(replace(WEB, node="a"))
    change = cluster.see_pod(replace(pod("web", cpu=300), node="a", version=6))
    assert (300, True) == (requested(cluster, "a"), bool(change & Change.POD_LEFT))


def test_an_edit_of_a_waiting_pod_concerns_nobody_else() -> None:
    """No other pod is helped by it, so it is no change of the cluster."""
    cluster = cluster_of("a")
    cluster.see_pod(WEB)
    assert Change.NOTHING == cluster.see_pod(replace(WEB, labels={"new": "label"}, version=6))


def test_sums_beyond_the_cap_shrink_again() -> None:
    """The exact sum is kept beside the capped cell."""
    cluster = cluster_of("a")
    for name in ("huge", "vast"):
        cluster.see_pod(pod(name, cpu=CAP, node="a"))
    assert CAP == requested(cluster, "a")
    cluster.lose_pod("uid-huge")
    cluster.lose_pod("uid-vast")
    assert (0, []) == (requested(cluster, "a"), faults(cluster))


# --- nominations


@pytest.mark.parametrize("end", ["deleted", "bound", "withdrawn", "elsewhere"])
def test_a_nomination_that_ends_is_told(end: str) -> None:
    """The room that was promised may serve somebody else."""
    cluster = cluster_of("a", "b")
    promised = replace(WEB, nominated="a")
    cluster.see_pod(promised)
    assert Change.NOTHING == cluster.see_pod(replace(promised, labels={"new": "label"}, version=6))
    if end == "deleted":
        change = cluster.lose_pod(WEB.uid)
    else:
        fields = {"bound": {"node": "b"}, "withdrawn": {"nominated": ""}, "elsewhere": {"nominated": "b"}}[end]
        change = cluster.see_pod(replace(promised, version=7, **fields))
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
    assert change == cluster.see_node(replace(node("a", version=6), **fields))
    assert [] == faults(cluster)


def test_a_node_that_goes_leaves_its_row_to_another_with_all_its_pods() -> None:
    """And takes its own pods with it until it comes back."""
    cluster = cluster_of("a", "b", "c")
    for name in "abc":
        cluster.see_pod(pod(f"on-{name}", cpu=100, node=name))
    assert Change.NODE_GONE == cluster.lose_node("a", "uid-a")
    assert ([100, 100], []) == ([requested(cluster, name) for name in "bc"], faults(cluster))
    cluster.see_node(node("a", uid="uid-new", version=9))
    assert (100, []) == (requested(cluster, "a"), faults(cluster))


def test_a_dead_node_is_not_believed_again() -> None:
    """Its UID is buried, whether its deletion was seen or a new node took its name."""
    cluster = cluster_of("a", "b")
    cluster.lose_node("a", "uid-a", 9)
    cluster.see_node(node("b", uid="uid-new", version=10))
    assert (Change.NOTHING, Change.NOTHING) == (
        cluster.see_node(node("a", version=11)),
        cluster.see_node(node("b", version=12)),
    )
    assert ["uid-new"] == [each.uid for each in cluster.columns.nodes]


def test_tombstones_are_bounded() -> None:
    """The oldest go first."""
    cluster = Cluster()
    for number in range(TOMBSTONES + 10):
        cluster.lose_pod(str(number))
    assert (TOMBSTONES, False, True) == (len(cluster.buried), "9" in cluster.buried, "10" in cluster.buried)


# --- forks


def test_nothing_done_to_a_fork_is_seen_by_the_original() -> None:
    """Nor the other way round."""
    cluster = cluster_of("a", "b")
    cluster.see_pod(WEB)
    twin = cluster.fork()
    twin.assume(WEB, "a")
    twin.see_pod(pod("more", cpu=7, node="b"))
    twin.lose_node("a")
    twin.see_node(node("c"))
    cluster.see_pod(pod("other", cpu=5, node="b"))
    assert ([0, 5], ["a", "b"]) == ([requested(cluster, n) for n in "ab"], [n.name for n in cluster.columns.nodes])
    assert (7, ["b", "c"]) == (requested(twin, "b"), [n.name for n in twin.columns.nodes])
    assert ([], []) == (faults(cluster), faults(twin))
