"""A later plan leaves the room alone that moves under way will need."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import OURS
from tests.core.rescheduling.test_planner import PROFILE, measured, moves
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.plan import Plan
from trimtab.core.model.resources import CPU
from trimtab.core.rescheduling.guards import GuardContext, UnderWay, owner_slot
from trimtab.core.rescheduling.planner import Planner
from trimtab.core.rescheduling.settings import ReschedulingSettings

REPLACEMENT = "uid-new"


def hot() -> Cluster:
    """Two nodes are hot; c has room for one more pod of 0.9 cores below its limit of 3.2, and not for two."""
    return measured(
        *(("first", "a", 0.9), ("rest", "a", 2.5), ("second", "b", 0.9), ("others", "b", 2.5), ("calm", "c", 1.8))
    )


def moving(cluster: Cluster, target: str = "c", replacement: str = "") -> dict[str, UnderWay]:
    pod = cluster.pods["uid-first"]
    return {pod.uid: UnderWay(owner_slot(pod), replacement, target, pod)}


def plan(cluster: Cluster, under_way: dict[str, UnderWay], **settings: Any) -> Plan:
    chosen = ReschedulingSettings(limits={CPU: 0.8}, required_gain=16.0, allow_last_replica=True, **settings)
    planner = Planner(GuardContext(cluster, chosen, 1500.0, under_way=under_way), {OURS: PROFILE}.get)
    for _ in planner.steps():
        pass
    assert planner.plan is not None
    return planner.plan


def evicted(cluster: Cluster, stage: str) -> str:
    """Bring the move of `first` so far; returns the UID of the replacement, if it was seen."""
    leaving = cluster.pods["uid-first"]
    if stage == "asked for":
        return ""
    if stage == "terminating":
        cluster.upsert_pod(replace(leaving, terminating=True, version=5))
        return ""
    cluster.delete_pod(leaving.uid)
    if stage == "gone":
        return ""
    pending = replace(leaving, uid=REPLACEMENT, name="new", node="", phase="Pending", ready=False, version=6)
    cluster.upsert_pod(pending)
    if stage == "nominated":
        cluster.nominate(REPLACEMENT, "c")
    elif stage == "assumed":
        cluster.assume(pending, "c")
    return REPLACEMENT


@pytest.mark.parametrize("stage", ["asked for", "terminating", "gone", "created", "nominated", "assumed"])
def test_the_target_is_not_filled_twice(stage: str) -> None:
    """However far the first move has come; without it `second` would take the room."""
    cluster = hot()
    replacement = evicted(cluster, stage)
    assert [] == moves(plan(cluster, moving(hot(), replacement=replacement)))


def test_without_a_move_under_way_the_room_is_taken() -> None:
    """By the one pod that fits."""
    cluster = hot()
    cluster.delete_pod("uid-first")
    assert [("second", "b", "c")] == moves(plan(cluster, {}))


def test_the_pod_that_leaves_does_not_count_on_its_node() -> None:
    """Its node will be calm, so no other pod needs to leave it; and it is not moved a second time."""
    cluster = measured(("first", "a", 0.9), ("second", "a", 0.9), ("rest", "a", 1.7), ("calm", "c", 0.5))
    assert 1 == len(moves(plan(cluster, {})))
    assert [] == moves(plan(cluster, moving(cluster)))


def test_requests_are_reserved_as_well() -> None:
    """c has room for what both use, but not for what both request; a replacement that was nominated counts once."""
    cluster = measured(("first", "a", 0.9), ("rest", "a", 2.5), ("second", "b", 0.9), ("others", "b", 2.5), nodes="abc")
    for name in ("first", "second"):
        pod = cluster.pods[f"uid-{name}"]
        cluster.upsert_pod(replace(pod, requests=replace(pod.requests, amounts=((CPU, 2100),)), version=2))
    before = moving(cluster)
    assert [] == moves(plan(cluster, before))
    replacement = evicted(cluster, "nominated")
    assert [] == moves(plan(cluster, {uid: each._replace(replacement=replacement) for uid, each in before.items()}))
    small = cluster.pods["uid-second"]
    cluster.upsert_pod(replace(small, requests=replace(small.requests, amounts=((CPU, 1900),)), version=3))
    found = plan(cluster, {uid: each._replace(replacement=replacement) for uid, each in before.items()})
    assert [("second", "b", "c")] == moves(found)


def test_a_target_that_is_gone_keeps_nothing() -> None:
    """Nor does a move that has none."""
    for target in ("gone", ""):
        assert plan(hot(), moving(hot(), target)).moves


def test_nothing_is_left_on_the_cluster() -> None:
    """Reservations are made on a fork."""
    cluster = hot()
    before = dict(cluster.placements)
    plan(cluster, moving(cluster))
    assert before == cluster.placements
