"""Decides whether a pod walks its stages in order, and whether a refusal or a changed world undoes what was done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.engine_harness import BIND, OURS, WEB, node, of_kind, pod, with_pending_pod
from tests.core.stub_plugins import go, permitter, pre_binder, reserver, staged
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.framework.interface import Reject, StageResult, StageStatus, Wait, Warn
from trimtab.core.model.change import Change
from trimtab.core.model.events import NodeDeleted, PodDeleted, StageAnswered
from trimtab.core.model.instructions import Bind, EmitEvent
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState


def test_stages_are_asked_in_order_and_end_in_the_bind() -> None:
    """Reserve, permit, pre-bind, bind; each is asked once."""
    asked: list[str] = []

    def noting(name: str) -> Any:
        return lambda pod, node: asked.append(name) or StageStatus.SUCCESS

    def reserving(pod: Pod) -> StageStatus:
        asked.append("reserve")
        return StageStatus.SUCCESS

    scene = with_pending_pod(
        pre_binder("PreBind", noting("pre_bind")), permitter("Permit", noting("permit")), reserver("Reserve", reserving)
    )
    assert [BIND] == scene.turn()
    assert ["reserve", "permit", "pre_bind"] == asked


@pytest.mark.parametrize("stage", ["reserve", "permit", "pre_bind"])
def test_a_refusal_at_any_stage_undoes_the_reservations_in_reverse_order(stage: str) -> None:
    """What was reserved last is given back first, the room too, and the pod backs off with the reason told."""
    order: list[str] = []
    no = Reject("not today")

    def undoing(name: str, refuse: bool) -> Any:
        plugin = reserver(name, lambda pod: no if refuse else StageStatus.SUCCESS)
        kind = type(plugin)
        undo = kind.unreserve
        kind.unreserve = lambda self, memory, pod, node: order.append(name) or undo(self, memory, pod, node)
        return plugin

    scene = with_pending_pod(
        undoing("First", refuse=False),
        undoing("Second", refuse=stage == "reserve"),
        permitter("Permit", staged(no) if stage == "permit" else go),
        pre_binder("PreBind", staged(no) if stage == "pre_bind" else go),
    )
    told = of_kind(EmitEvent, scene.turn())
    assert ["Second", "First"] == order
    assert [True] == ["not today" in tell.note for tell in told]
    assert (QueueState.BACKOFF, 0) == (scene.queue_state(WEB), scene.requested("a"))
    assert ("web", "-web") == scene.engine.cluster.plugin_state["First"]
    assert [] == check_invariants(scene.engine.cluster)


def test_a_refused_pod_is_tried_again() -> None:
    """After its back-off the pod walks all stages anew."""
    scene = with_pending_pod(reserver("Reserve"), permitter("Permit", staged(Reject("not yet"))))
    scene.turn()
    scene.advance(1.0)
    assert [BIND] == scene.turn()
    assert ("web", "-web", "web") == scene.engine.cluster.plugin_state["Reserve"]


def test_a_waiting_stage_says_what_to_do_once_and_goes_on_when_answered() -> None:
    """Its instructions go out with the first Wait only; the answer leads to the next stage and to the bind."""
    wish = EmitEvent("uid-web", "default", "web", "Claimed", "a volume")
    scene = with_pending_pod(permitter("Permit", staged(Wait(30.0, (wish,)), Wait(30.0, (wish,)))))
    assert [wish] == scene.turn()
    assert [] == scene.handle(StageAnswered("uid-web", 1.0))
    assert [BIND] == scene.handle(StageAnswered("uid-web", 2.0))
    assert [] == scene.handle(StageAnswered("uid-web", 3.0))


def test_a_stage_that_warns_does_not_block() -> None:
    """The warning goes out once, as an Event, and the pod goes on: to the bind, or to a stage that waits."""
    told = EmitEvent("uid-web", "default", "web", "Tight", "a is full", warning=True, scheduler_name=OURS)
    assert [told, BIND] == with_pending_pod(pre_binder("Warns", staged(Warn("Tight", "a is full")))).turn()
    scene = with_pending_pod(
        pre_binder("Warns", staged(Warn("Tight", "a is full"))), pre_binder("Waits", staged(Wait(9.0)))
    )
    assert [told] == scene.turn()
    assert [BIND] == scene.handle(StageAnswered("uid-web", 1.0))


def test_a_waiting_pod_keeps_its_room() -> None:
    """Nobody else gets what a pod in its stages has been given."""
    scene = with_pending_pod(
        permitter("Permit", lambda pod, node: Wait(30.0) if pod.name == "web" else StageStatus.SUCCESS)
    )
    scene.turn()
    scene.upsert(pod("other", cpu=4000))
    assert (1000, {}) == (scene.requested("a"), scene.binds())


@pytest.mark.parametrize(
    ("change", "bound"),
    [(Change.POD_DELETED, True), (Change.POD_DELETED | Change.TAINTS, True), (Change.TAINTS, False)],
)
def test_a_waiting_stage_is_asked_again_when_what_it_named_happens(change: Change, bound: bool) -> None:
    """And not when something else does."""
    other = pod("other", cpu=100)
    scene = with_pending_pod(permitter("Permit", staged(Wait(30.0, retry_on=change))))
    scene.bound(other, "a")
    scene.turn()
    assert ([BIND] if bound else []) == scene.handle(PodDeleted(other.uid, 1.0))


def test_the_deadline_runs_from_the_first_wait_and_ends_in_a_refusal() -> None:
    """A stage that waits for ever is timed out, however often it is asked in between."""
    scene = with_pending_pod(reserver("Reserve"), permitter("Permit", lambda pod, node: Wait(30.0)))
    scene.turn()
    scene.at = 20.0
    scene.handle(StageAnswered("uid-web", 20.0))
    assert [] == of_kind(EmitEvent, scene.advance(9.9))
    assert ["Permit: timed out waiting"] == [tell.note for tell in of_kind(EmitEvent, scene.advance(0.1))]
    assert (QueueState.BACKOFF, 0) == (scene.queue_state(WEB), scene.requested("a"))


def test_a_stage_that_is_ready_at_its_deadline_goes_on() -> None:
    """The deadline asks once more before it refuses."""
    scene = with_pending_pod(permitter("Permit", staged(Wait(30.0))))
    scene.turn()
    assert [BIND] == scene.advance(30.0)


def test_a_refusal_after_a_wait_wakes_those_who_want_the_room() -> None:
    """They were parked because of it, and must not sit out their minute."""
    big = pod("big", cpu=4000)
    scene = with_pending_pod(
        permitter("Permit", lambda pod, node: Wait(30.0) if pod.name == "web" else StageStatus.SUCCESS),
    )
    scene.turn()
    scene.upsert(big)
    scene.turn()
    assert QueueState.UNSCHEDULABLE is scene.queue_state(big)
    scene.advance(30.0)
    assert QueueState.ACTIVE is scene.queue_state(big)


def test_two_waiting_pods_that_wake_each_other_are_bound_once_each() -> None:
    """A refusal that frees room wakes other stages, and none of them is walked twice for it."""
    answers = {"web": iter([Wait(5.0)]), "other": iter([Wait(30.0, retry_on=Change.POD_DELETED)])}

    def answer(pod: Pod, node: str) -> StageResult:
        return next(answers[pod.name], Reject("no") if pod.name == "web" else StageStatus.SUCCESS)

    scene = with_pending_pod(permitter("Permit", answer))
    scene.upsert(pod("other", cpu=100))
    scene.turn()
    assert ["other"] == [bind.name for bind in of_kind(Bind, scene.advance(30.0))]


def test_a_pod_on_its_way_out_is_not_bound_after_its_wait() -> None:
    """The server would refuse to bind a pod that is being deleted: its room is free at once, and no bind is sent."""
    scene = with_pending_pod(reserver("Reserve"), permitter("Permit", staged(Wait(30.0))))
    scene.turn()
    scene.upsert(pod("web", cpu=1000, terminating=True))
    assert ([], 0) == (scene.handle(StageAnswered("uid-web", 1.0)), scene.requested("a"))
    assert ("web", "-web") == scene.engine.cluster.plugin_state["Reserve"]


@pytest.mark.parametrize("what", ["gone", "shrunk", "cordoned", "filled"])
def test_a_node_that_no_longer_fits_after_the_wait_is_not_bound_to(what: str) -> None:
    """The server checks neither room nor that the node exists, so the wait ends in a refusal instead of a bind."""
    scene = with_pending_pod(permitter("Permit", staged(Wait(30.0))))
    scene.turn()
    if what == "gone":
        scene.handle(NodeDeleted("a", 1.0))
    elif what == "filled":
        scene.bound(pod("foreign", cpu=3500, scheduler_name="other"), "a")
    else:
        scene.upsert(node("a", cpu=500 if what == "shrunk" else 4000, unschedulable=what == "cordoned"))
    assert [] == of_kind(Bind, scene.handle(StageAnswered("uid-web", 2.0)))
    assert QueueState.BACKOFF is scene.queue_state(WEB)
    assert [] == check_invariants(scene.engine.cluster)


def test_a_pod_that_somebody_else_binds_during_our_stages_is_not_told_in_our_name() -> None:
    """Not even when it went to the node that we had in mind."""
    scene = with_pending_pod(permitter("Permit", staged(Wait(30.0))))
    scene.turn()
    assert ([], 1000, 0) == (
        scene.bound(WEB, "a"),
        scene.requested("a"),
        len(scene.engine.controller(Scheduling).bindings),
    )


def test_a_pod_edited_while_its_stage_waits_for_that_is_asked_again() -> None:
    """The change named SELF is about the waiting pod alone."""
    scene = with_pending_pod(permitter("Permit", staged(Wait(30.0, retry_on=Change.OWN_POD_UPDATED))))
    scene.turn()
    assert [] == scene.upsert(pod("other", scheduling_gates=("wait",)), pod("other", scheduling_gates=("more",)))
    assert [BIND] == scene.upsert(pod("web", cpu=1000, labels={"ready": "yes"}))
