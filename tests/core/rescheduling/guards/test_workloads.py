"""A workload that is changing is left alone, and none loses many pods at once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.guards.replicas import NOW, budget, context, refused, replica, replicas
from trimtab.core.model.objects import StatefulSet
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.guards import GuardContext, UnderWay, owner_slot
from trimtab.core.rescheduling.settings import Method

FIRST, SECOND, THIRD = replicas(3)


def moving(*pods: Pod, replacement: str = "") -> dict[str, UnderWay]:
    return {each.uid: UnderWay(owner_slot(each), replacement) for each in pods}


def test_an_owner_is_held_after_a_move() -> None:
    """Of a ReplicaSet for all pods, whatever their names; and only for as long as it is held."""
    found = context(FIRST, SECOND, holds={owner_slot(SECOND): NOW + 60})
    assert ("cool-down", "a pod of its owner was moved; the next one may be in 60 s") == refused(found, FIRST)
    assert refused(context(FIRST, SECOND, holds={owner_slot(SECOND): NOW}), FIRST) is None


def test_a_rollout_is_not_disturbed() -> None:
    """A Deployment that has pods of two ReplicaSets; pods of another Deployment do not count."""
    newer = replica("web-2-0", owner="web-2")
    expected = ("rollout", "a rollout of Deployment web is in progress")
    assert expected == refused(context(FIRST, SECOND, newer), FIRST)
    assert expected == refused(context(FIRST, SECOND, newer), newer)
    assert refused(context(FIRST, SECOND, replica("cart-2-0", owner="cart-2")), FIRST) is None
    assert refused(context(FIRST, SECOND, replace(newer, namespace="other")), FIRST) is None
    assert refused(context(FIRST, SECOND, replace(newer, phase="Succeeded")), FIRST) is None


def test_a_rollout_of_a_stateful_set_is_not_disturbed() -> None:
    """Its pods have one owner, and differ by their revision."""
    old, new = replicas(2, owner="db", kind="StatefulSet")
    found = context(old, replace(new, labels={**new.labels, "controller-revision-hash": "2"}))
    assert ("rollout", "a rollout of StatefulSet db is in progress") == refused(found, old)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (replace(SECOND, terminating=True), "Deployment web is changing: web-1-1 is terminating"),
        (replace(SECOND, created=NOW - 60), "Deployment web is changing: web-1-1 is new"),
        (replace(SECOND, created=NOW - 120), ""),
    ],
)
def test_scaling_is_not_disturbed(other: Pod, reason: str) -> None:
    """Pods were added or are removed, as by a HorizontalPodAutoscaler."""
    expected = ("scaling", reason) if reason else None
    assert expected == refused(context(FIRST, other, THIRD), FIRST)


def test_a_workload_that_misses_a_pod_loses_no_other() -> None:
    """With up to nine pods none may be missing; of twenty two may, rounded down."""
    down = replace(SECOND, ready=False)
    expected = ("unavailable pods", "1 of 3 pods of Deployment web are not ready")
    assert expected == refused(context(FIRST, down, THIRD), FIRST)
    pending = replace(SECOND, node="", phase="Pending", ready=False)
    assert expected == refused(context(FIRST, pending, THIRD), FIRST)
    twenty = replicas(29)
    broken = [replace(each, ready=False) for each in twenty[-3:]]
    assert refused(context(*twenty[:-3], *broken[:2], twenty[-1]), twenty[0]) is None
    assert "unavailable pods" == (refused(context(*twenty[:-3], *broken), twenty[0]) or ("",))[0]


def test_the_last_ready_pod_stays() -> None:
    """Without a budget, if it is evicted; with one, that says whether it may go. A pod that is being moved is no longer
    there. Where the replacement comes first the last one may go."""
    expected = ("last replica", "it is the last ready pod of Deployment web, which has no disruption budget")
    assert expected == refused(context(FIRST, settings={"method": Method.EVICTION}), FIRST)
    assert expected == refused(context(FIRST, evicting=True), FIRST)
    assert expected == refused(context(FIRST, SECOND, under_way=moving(SECOND), evicting=True), FIRST)
    assert refused(context(FIRST), FIRST) is None
    assert refused(context(FIRST, budget()), FIRST) is None


def test_few_pods_of_a_workload_are_moved_at_once() -> None:
    """One of up to nineteen pods, and two of twenty."""
    few, many = replicas(19), replicas(20)
    found = context(*few, under_way=moving(few[1]))
    assert ("moves under way", "1 of 19 pods of Deployment web are being moved") == refused(found, few[0])
    assert refused(context(*many, under_way=moving(many[1])), many[0]) is None
    found = context(*many, under_way=moving(*many[1:3]))
    assert ("moves under way", "2 of 20 pods of Deployment web are being moved") == refused(found, many[0])
    assert refused(context(*few, budget(), under_way=moving(few[1])), few[0]) is None


def test_a_move_counts_after_its_pod_is_gone() -> None:
    """It is under way until the replacement has a node."""
    found = context(FIRST, THIRD, under_way=moving(SECOND))
    assert "moves under way" == (refused(found, FIRST) or ("",))[0]


def test_a_move_of_our_own_is_no_change_of_the_workload() -> None:
    """The pod that leaves and its replacement are counted as one move, and as nothing else."""
    many = replicas(20)
    leaving = replace(many[1], terminating=True)
    replacement = replace(replica("web-1-new", on=""), ready=False, created=NOW)
    others = [many[0], *many[2:], leaving, replacement]
    assert refused(context(*others, under_way=moving(leaving, replacement=replacement.uid)), many[0]) is None
    assert "scaling" == (refused(context(*others), many[0]) or ("",))[0]


# --- StatefulSets

ZERO, ONE, TWO = replicas(3, owner="db", kind="StatefulSet")


def stateful(*pods: Pod, count: int | None = None, **fields: Any) -> GuardContext:
    known = StatefulSet(name="db", uid="uid-db", namespace="default", replicas=count)
    return context(*pods, *(() if count is None else (known,)), **fields)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (stateful(ZERO, ONE, TWO, count=3), ""),
        (stateful(ZERO, TWO), "a pod of StatefulSet db is missing"),
        (stateful(ZERO, ONE, count=3), "a pod of StatefulSet db is missing"),
        (stateful(ZERO, replace(ONE, ready=False), TWO), "db-1 of StatefulSet db is not ready"),
        (stateful(ZERO, replace(TWO, terminating=True), ONE), "db-2 of StatefulSet db is not ready"),
        (stateful(ZERO, ONE, TWO, under_way=moving(TWO)), "another pod of StatefulSet db is being moved"),
    ],
)
def test_stateful_sets_are_moved_pod_by_pod(found: GuardContext, reason: str) -> None:
    """And only while all of them are there and ready."""
    expected = ("stateful set", reason) if reason else None
    assert expected == refused(found, ZERO)
