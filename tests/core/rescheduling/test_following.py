"""What becomes of a move after its charge: every state, every way out of it, and every surge is taken back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW
from tests.core.rescheduling.move_stage import EVICTING, MoveStage, Store, charged_record, workload_pod
from trimtab.core.model.events import EvictDone, EvictFailed, SurgeDone, SurgeFailed
from trimtab.core.model.instructions import EndSurge, Evict, Nominate, StartSurge
from trimtab.core.model.ledger import MoveState

OLD, NEW = "web-old", "web-new"
UID = "uid-web-old"
GIVE_UP_OLD = EndSurge(UID, "default", "ReplicaSet", "web", OLD)
GIVE_UP_NEW = EndSurge(UID, "default", "ReplicaSet", "web", NEW)


def evicting(**fields: object) -> MoveStage:
    """The eviction of a pod was sent."""
    scene = MoveStage(workload_pod(OLD), **{**EVICTING, **fields})
    scene.charge(OLD)
    return scene


def surging(state: MoveState = MoveState.SURGED) -> MoveStage:
    """A workload has a further replica, perhaps one with a node."""
    scene = MoveStage(workload_pod(OLD))
    scene.charge(OLD)
    scene.tell(scene.execution.surge_done(SurgeDone(UID, scene.at)))
    if state is not MoveState.SURGED:
        scene.creates(NEW)
        scene.shows(replace(scene.pod(NEW), node="cold", phase="Running"))
    if state is MoveState.LEAVING:
        scene.becomes_ready(NEW)
    return scene


def ended(scene: MoveStage) -> None:
    scene.tell(scene.execution.surge_done(SurgeDone(UID, scene.at, ended=True)))


# --- by eviction


def test_an_eviction() -> None:
    """Charged, evicted, placed, done; the replacement is nominated to the planned node."""
    scene = evicting()
    scene.tell(scene.execution.evict_done(EvictDone(UID, scene.at)))
    assert {OLD: "evicted"} == scene.states
    scene.terminates(OLD)
    new = scene.creates(NEW)
    assert [Nominate(new.uid, "default", NEW, "cold")] == scene.take(Nominate)
    scene.shows(replace(scene.pod(NEW), node="cold", phase="Running"))
    assert {OLD: "placed"} == scene.states
    scene.at += 7
    scene.becomes_ready(NEW)
    record = scene.record(OLD)
    assert (MoveState.DONE, "cold", 7.0) == (record.state, record.node, record.unready)


def test_the_answer_is_lost_and_the_watch_shows_it() -> None:
    """A pod that terminates, or is gone at once, was evicted."""
    for happens in (MoveStage.terminates, MoveStage.deletes):
        scene = evicting()
        scene.tell(scene.execution.evict_failed(EvictFailed(UID, "no answer", scene.at, unknown=True)))
        happens(scene, OLD)
        assert {OLD: "evicted"} == scene.states


def test_an_unknown_outcome_counts() -> None:
    """It is not repeated, and fails when nothing was seen of it; the budget counts it."""
    scene = evicting()
    scene.tell(scene.execution.evict_failed(EvictFailed(UID, "no answer", scene.at, unknown=True)))
    scene.advance(61)
    assert ({OLD: "failed"}, True, 1) == (scene.states, scene.record(OLD).counts, len(scene.take(Evict)))


def test_a_budget_of_the_api_server_does_not_hold_the_owner() -> None:
    """Whereas a pod that two budgets cover, or that a webhook protects, is not tried again soon."""
    for failure, state, held in (({"by_budget": True}, "cancelled", 0), ({}, "refused", 1)):
        scene = evicting()
        scene.tell(scene.execution.evict_failed(EvictFailed(UID, "no", scene.at, **failure)))
        assert ({OLD: state}, held) == (scene.states, len(scene.execution.guard_context(scene.at).holds))
        assert not scene.record(OLD).counts


def test_a_pod_that_never_goes() -> None:
    """It is under way until it is given up; no other pod of the owner is moved, and the others are."""
    scene = MoveStage(workload_pod(OLD), workload_pod("web-two"), workload_pod("app-x"), **EVICTING)
    scene.charge(OLD)
    scene.terminates(OLD)
    scene.advance(90)
    assert "" == scene.execution.why_stopped(scene.at)
    scene.take(Evict)
    scene.charge("web-two", "app-x")
    assert ["app-x"] == [each.name for each in scene.take(Evict)]
    scene.advance(220)
    assert (MoveState.FAILED, "it did not terminate in time") == (scene.record(OLD).state, scene.record(OLD).message)


def test_a_replacement_without_a_node_stops_all_moves() -> None:
    """Its scheduler may be down; when it gets one, moves go on."""
    scene = evicting()
    scene.terminates(OLD)
    scene.creates(NEW)
    scene.advance(65)
    assert "has no node for 65 s: is its scheduler running?" in scene.execution.why_stopped(scene.at)
    scene.becomes_ready(NEW)
    assert "" == scene.execution.why_stopped(scene.at)


def test_a_replacement_that_is_never_ready() -> None:
    """The move fails, and the owner's pods stay for twice the cool-down."""
    scene = evicting()
    scene.terminates(OLD)
    scene.creates(NEW)
    scene.shows(replace(scene.pod(NEW), node="cold", phase="Running"))
    scene.advance(601)
    assert "its replacement was not ready in time" == scene.record(OLD).message
    assert NOW + 600 == scene.execution.guard_context(scene.at).holds[scene.record(OLD).slot]


def test_a_replacement_that_comes_back() -> None:
    """To the node that the pod was to leave: failed."""
    scene = evicting()
    scene.terminates(OLD)
    scene.creates(NEW)
    scene.becomes_ready(NEW, on="hot")
    assert (MoveState.FAILED, "hot") == (scene.record(OLD).state, scene.record(OLD).node)


def test_a_replacement_that_is_deleted_before_it_is_ready() -> None:
    """The owner creates another while the first terminates, or later; that one is followed."""
    for after in (False, True):
        scene = evicting()
        scene.terminates(OLD)
        scene.creates(NEW)
        scene.shows(replace(scene.pod(NEW), node="cool", phase="Running"))
        scene.terminates(NEW)
        if after:
            scene.deletes(NEW)
        assert ({OLD: "evicted"}, "") == (scene.states, scene.record(OLD).node)
        scene.creates("web-third")
        scene.becomes_ready("web-third")
        assert (MoveState.DONE, "cold") == (scene.record(OLD).state, scene.record(OLD).node)


def test_the_replacement_in_a_stateful_set_has_the_same_name() -> None:
    """Another UID makes it the replacement; pods of other ordinals are none."""
    old = workload_pod("db-0", kind="StatefulSet")
    scene = MoveStage(old, workload_pod("db-1", kind="StatefulSet"), **EVICTING)
    scene.charge("db-0")
    scene.terminates("db-0")
    scene.deletes("db-0")
    scene.shows(replace(workload_pod("db-2", "", kind="StatefulSet"), ready=False, phase="Pending"))
    assert "" == scene.record("db-0").replacement
    new = replace(workload_pod("db-0", "", kind="StatefulSet"), uid="uid-2", ready=False, phase="Pending")
    scene.shows(new)
    scene.becomes_ready("db-0")
    assert ("uid-2", MoveState.DONE) == (scene.record("db-0").replacement, scene.record("db-0").state)


def test_a_pod_that_somebody_else_adds_is_no_replacement() -> None:
    """While the old one is there, an autoscaler created it."""
    scene = evicting()
    scene.creates(NEW)
    scene.becomes_ready(NEW)
    assert ({OLD: "charged"}, "") == (scene.states, scene.record(OLD).replacement)


# --- replacement first


def test_replacement_first() -> None:
    """The workload gives up the old pod when the new one is ready; nobody misses a pod."""
    scene = surging()
    assert 1 == len(scene.take(StartSurge))
    scene.creates(NEW)
    scene.becomes_ready(NEW)
    assert ([GIVE_UP_OLD], {OLD: "leaving"}) == (scene.take(EndSurge), scene.states)
    ended(scene)
    assert {OLD: "leaving"} == scene.states
    scene.terminates(OLD)
    assert (MoveState.DONE, 0.0, []) == (scene.record(OLD).state, scene.record(OLD).unready, scene.take(EndSurge))


def test_the_old_pod_may_go_first() -> None:
    """Somebody else deletes it: the move ends only when the replica was taken back."""
    scene = surging(MoveState.LEAVING)
    scene.terminates(OLD)
    assert {OLD: "leaving"} == scene.states
    ended(scene)
    assert {OLD: "done"} == scene.states


def test_taking_the_replica_back_is_tried_again() -> None:
    """Until the API server confirms it, whether the pod is to leave or the move is undone."""
    scene = surging(MoveState.LEAVING)
    assert [GIVE_UP_OLD] == scene.take(EndSurge)
    for _ in range(3):
        scene.tell(scene.execution.surge_failed(SurgeFailed(UID, "conflict", scene.at)))
        scene.advance(11)
        assert ([GIVE_UP_OLD], {OLD: "leaving"}) == (scene.take(EndSurge), scene.states)
    undone = surging()
    undone.advance(301)
    assert 1 == len(undone.take(EndSurge))
    undone.advance(11)
    assert (1, {OLD: "undoing"}) == (len(undone.take(EndSurge)), undone.states)
    ended(undone)
    assert (MoveState.FAILED, "its replacement got no node in time") == (
        undone.record(OLD).state,
        undone.record(OLD).message,
    )


def test_another_pod_left() -> None:
    """The replica was taken back, and the workload gave up another pod."""
    scene = surging(MoveState.LEAVING)
    ended(scene)
    scene.advance(61)
    assert (MoveState.FAILED, "another pod left") == (scene.record(OLD).state, scene.record(OLD).message)


@pytest.mark.parametrize(("on", "seconds"), [("cold", 601), ("hot", 0)])
def test_a_replacement_that_fails_is_given_up(on: str, seconds: int) -> None:
    """Not ready in time, or on the same node again; the old pod stays."""
    scene = surging()
    scene.creates(NEW)
    scene.shows(replace(scene.pod(NEW), node=on, phase="Running"))
    scene.advance(seconds)
    assert ([GIVE_UP_NEW], {OLD: "undoing"}) == (scene.take(EndSurge)[:1], scene.states)


def test_a_surge_of_unknown_outcome() -> None:
    """The replica is taken back after a while: not at once, since the request may still arrive. Nobody knows whether a new
    pod is the replacement, or that of another pod."""
    for appears in (True, False):
        scene = MoveStage(workload_pod(OLD))
        scene.charge(OLD)
        scene.tell(scene.execution.surge_failed(SurgeFailed(UID, "no answer", scene.at, unknown=True)))
        assert ({OLD: "charged"}, []) == (scene.states, scene.take(EndSurge))
        if appears:
            scene.creates(NEW)
        scene.advance(61)
        assert {OLD: "undoing"} == scene.states


def test_a_surge_that_begins_after_the_move_was_given_up() -> None:
    """Is taken back."""
    scene = MoveStage(workload_pod(OLD))
    scene.charge(OLD)
    scene.advance(61)
    ended(scene)
    scene.take(EndSurge)
    scene.tell(scene.execution.surge_done(SurgeDone(UID, scene.at)))
    assert (1, {OLD: "undoing"}) == (len(scene.take(EndSurge)), scene.states)
    ended(scene)
    assert {OLD: "failed"} == scene.states


def test_a_late_answer_to_the_start_is_not_taken_for_the_end() -> None:
    """The replacement was ready before the answer came."""
    scene = MoveStage(workload_pod(OLD))
    scene.charge(OLD)
    scene.creates(NEW)
    scene.becomes_ready(NEW)
    scene.terminates(OLD)
    scene.tell(scene.execution.surge_done(SurgeDone(UID, scene.at)))
    assert {OLD: "leaving"} == scene.states


# --- a new leader


@pytest.mark.parametrize(
    ("state", "surge", "sent"),
    [
        (MoveState.CHARGED, True, []),
        (MoveState.SURGED, True, []),
        (MoveState.PLACED, True, []),
        (MoveState.LEAVING, True, [GIVE_UP_OLD]),
        (MoveState.UNDOING, True, [EndSurge(UID, "default", "ReplicaSet", "web", "")]),
        (MoveState.EVICTED, False, []),
    ],
)
def test_moves_under_way_are_taken_over(state: MoveState, surge: bool, sent: list[EndSurge]) -> None:
    """What was to be sent is sent again, and in the end nothing is under way."""
    store = Store(charged_record(OLD, NOW - 5, state, surge=surge), term=1)
    pods = (workload_pod(OLD),) if surge else ()
    scene = MoveStage(*pods, store=store, term=2, **({} if surge else EVICTING))
    assert sent == scene.take(EndSurge)
    for _ in range(14):
        scene.advance(60)
        if scene.take(EndSurge):
            ended(scene)
    assert {OLD: "failed"} == scene.states


def test_what_happened_without_a_leader_is_seen() -> None:
    """The replacement became ready meanwhile: the old pod is given up at once, and not the new one."""
    scene = surging(MoveState.PLACED)
    scene.advance(5)
    new = scene.pod(NEW)
    scene.state.cluster.upsert_pod(replace(new, version=99, ready=True))
    successor = scene.successor()
    assert ([GIVE_UP_OLD], {OLD: "leaving"}) == (successor.take(EndSurge), successor.states)


def test_a_replacement_that_came_and_went_without_a_leader() -> None:
    """The next one is found by its owner and age."""
    scene = surging(MoveState.PLACED)
    scene.advance(5)
    scene.state.cluster.delete_pod(scene.pod(NEW).uid)
    third = replace(workload_pod("web-third", "cold"), created=scene.at, version=99)
    scene.state.cluster.upsert_pod(third)
    successor = scene.successor()
    assert (third.uid, {OLD: "leaving"}) == (successor.record(OLD).replacement, successor.states)


@pytest.mark.parametrize("state", [MoveState.SURGED, MoveState.PLACED])
def test_a_pod_that_leaves_before_its_replacement_is_ready(state: MoveState) -> None:
    """With a rollout, or with its node: the further replica is taken back at once, from whichever pod."""
    scene = surging(state)
    scene.terminates(OLD)
    assert [EndSurge(UID, "default", "ReplicaSet", "web", "")] == scene.take(EndSurge)
    ended(scene)
    assert ("failed", "it left before its replacement was ready") == (scene.states[OLD], scene.record(OLD).message)
