"""Room is promised and made: who is asked to leave, what is told, and what happens when it does not work out."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import assumed_on
from tests.core.engine_harness import EngineHarness, node, of_kind, pod
from tests.core.stub_plugins import permitter
from trimtab.core.framework.interface import Wait
from trimtab.core.model.change import Change
from trimtab.core.model.events import LeaseAcquired, LeaseLost, NodeDeleted, PodDeleted, PreemptDone, PreemptFailed
from trimtab.core.model.instructions import Bind, EmitEvent, Instruction, Nominate, Preempt, SetUnschedulable
from trimtab.core.model.pod import Pod
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState

LESSER = pod("lesser", cpu=1000, node="a", started=5.0)
URGENT = pod("urgent", cpu=1000, priority=10)


def full(*more: Pod, **fields: Any) -> EngineHarness:
    """A node that one lesser pod fills, and an urgent one that finds no room."""
    scene = EngineHarness(**fields)
    scene.upsert(node("a", 1000), LESSER, URGENT, *more)
    return scene


def victims(instructions: list[Instruction]) -> list[str]:
    return [wish.name for wish in of_kind(Preempt, instructions)]


def nominations(instructions: list[Instruction]) -> list[tuple[str, str]]:
    return [(wish.name, wish.node) for wish in of_kind(Nominate, instructions)]


def notes(instructions: list[Instruction]) -> list[tuple[str, str]]:
    return [(wish.name, wish.note) for wish in of_kind(EmitEvent, instructions)]


def leaves(scene: EngineHarness, victim: Pod) -> list[Instruction]:
    """The victim is deleted with grace, and then gone."""
    wishes = scene.upsert(replace(victim, terminating=True, preempted=True))
    scene.advance(2.0)
    return wishes + scene.handle(PodDeleted(victim.uid, scene.at, scene.version + 1))


def test_the_walk_of_a_preemption() -> None:
    """The node is promised, the victim is deleted, and the pod is bound to that node once the victim has gone."""
    scene = full()
    wishes = scene.turn()
    assert [("urgent", "a")] == nominations(wishes)
    assert [Preempt("uid-lesser", "default", "lesser", "uid-urgent", "trimtab")] == of_kind(Preempt, wishes)
    assert 1 == len(of_kind(SetUnschedulable, wishes))
    assert QueueState.UNSCHEDULABLE is scene.queue_state(URGENT)
    told = scene.handle(PreemptDone("uid-lesser", "uid-urgent", 1.0))
    assert [("lesser", "Preempted by pod uid-urgent on node a")] == notes(told)
    leaves(scene, LESSER)
    assert {"urgent": "a"} == scene.binds()


def test_the_preemptor_is_told_where_room_is_made() -> None:
    """An event of its own names the node and how many have to leave, beside the usual one."""
    told = dict(notes([wish for wish in full().turn() if isinstance(wish, EmitEvent) and not wish.warning]))
    assert {"urgent": "Preempting 1 lower-priority pod(s) on node a"} == told


def test_promised_room_is_not_taken_by_others() -> None:
    """A pod of the same priority does not get the node that was cleared for another."""
    scene = full()
    scene.turn()
    leaves(scene, LESSER)
    scene.upsert(pod("rival", cpu=1000, priority=10, may_preempt=False))
    assert {"urgent": "a"} == scene.binds()


@pytest.mark.parametrize(
    ("node_of", "phase", "part"),
    [
        ("a", "Running", QueueState.UNSCHEDULABLE),
        ("b", "Running", QueueState.ACTIVE),
        ("a", "Failed", QueueState.ACTIVE),
    ],
)
def test_a_promise_that_is_kept_stirs_nobody(node_of: str, phase: str, part: QueueState) -> None:
    """Who waits for room is stirred when promised room comes free, and not when the pod has taken it."""
    scene = full()
    scene.turn()
    leaves(scene, LESSER)
    rival = pod("rival", cpu=1000, priority=10, may_preempt=False)
    scene.upsert(replace(URGENT, nominated_node="a", scheduling_gates=("held",)), node("b", 0), rival)
    assert {} == scene.binds()
    scene.advance(2.0)
    scene.bound(URGENT, node_of, nominated_node="a", phase=phase)
    assert part is scene.queue_state(rival)


@pytest.mark.parametrize("priority", [9, 10])
def test_nobody_preempts_upwards_or_sideways(priority: int) -> None:
    """Pods of equal or higher priority stay where they are."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), replace(LESSER, priority=10), replace(URGENT, priority=priority))
    assert [] == victims(scene.turn())


def test_who_may_not_preempt_waits() -> None:
    """preemptionPolicy Never leaves others alone, and the reason says so."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), LESSER, replace(URGENT, may_preempt=False))
    wishes = scene.turn()
    assert ([], []) == (victims(wishes), nominations(wishes))
    assert notes(wishes)[0][1].endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_no_second_attempt_while_victims_are_asked_to_leave() -> None:
    """Before the victim is seen leaving, if only marked, nothing brings the pod back; after a minute it tries again."""
    scene = full()
    scene.upsert(node("b", 1000), pod("other", cpu=1000, node="b"))
    assert ["other"] == victims(scene.turn())
    scene.advance(30.0)
    scene.upsert(
        pod("other", cpu=1000, node="b", preempted=True), replace(URGENT, labels={"woken": "yes"}), node("c", 0)
    )
    assert ([], QueueState.UNSCHEDULABLE) == (scene.turn(), scene.queue_state(URGENT))
    scene.advance(30.0)
    assert 1 == len(victims(scene.turn()))


def test_a_pod_that_comes_back_to_the_queue_asks_nobody_else() -> None:
    """It was gated for a moment, so the queue holds it no longer; its victim has not been seen leaving yet."""
    scene = full()
    scene.upsert(node("b", 1000), pod("other", cpu=1000, node="b"))
    assert ["other"] == victims(scene.turn())
    scene.upsert(replace(URGENT, scheduling_gates=("held",)))
    scene.upsert(URGENT)
    wishes = scene.turn()
    assert [] == victims(wishes)
    assert notes(wishes)[0][1].endswith("waiting for the preemption for this pod to be finished")


def test_while_victims_take_their_time_nobody_else_is_asked() -> None:
    """As long as a victim is terminating on the promised node, the pod waits for it."""
    scene = full()
    scene.turn()
    scene.upsert(replace(LESSER, terminating=True, preempted=True))
    scene.advance(61.0)
    wishes = scene.turn()
    assert [] == victims(wishes)
    assert notes(wishes)[0][1].endswith("not eligible due to a terminating pod on the nominated node.")


def test_a_pod_that_is_leaving_already_is_not_deleted_again() -> None:
    """A victim that terminates for another reason is waited for, and nothing is sent for it."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), replace(LESSER, terminating=True), URGENT)
    wishes = scene.turn()
    assert ([], [("urgent", "a")]) == (victims(wishes), nominations(wishes))


def test_lesser_promises_on_the_node_are_taken_back() -> None:
    """A pod of lower priority to whom the node was promised loses it, and looks around again."""
    waiting = pod("waiting", cpu=1000, priority=5, nominated_node="a", may_preempt=False)
    scene = EngineHarness()
    scene.upsert(node("a", 1000), LESSER, waiting)
    scene.turn()
    scene.advance(2.0)
    scene.upsert(URGENT)
    assert [("urgent", "a"), ("waiting", "")] == nominations(scene.turn(1))
    assert QueueState.ACTIVE is scene.queue_state(waiting)


def test_a_promise_holds_until_the_watch_shows_it() -> None:
    """A sight of the pod from before the patch does not undo the promise; one from after it, when cleared, does."""
    scene = full()
    scene.turn()
    scene.upsert(replace(URGENT, labels={"seen": "early"}))
    assert {"uid-urgent": "a"} == {uid: each.nominated_node for uid, each in scene.engine.cluster.nominated.items()}
    scene.upsert(replace(URGENT, nominated_node="a"))
    scene.upsert(URGENT)
    assert {} == scene.engine.cluster.nominated


def test_a_failed_delete_is_told_and_the_promise_taken_back() -> None:
    """The pod says what went wrong, gives the node up, and tries again."""
    scene = full()
    scene.turn()
    scene.advance(2.0)
    wishes = scene.handle(PreemptFailed("uid-lesser", "uid-urgent", "etcd is down", scene.at))
    assert [("urgent", "preemption: default/lesser was not deleted: etcd is down")] == notes(wishes)
    assert [("urgent", "")] == nominations(wishes)
    assert ["lesser"] == victims(scene.turn())


def test_a_lost_answer_does_not_undo_what_is_seen() -> None:
    """A victim that is seen leaving has been deleted, whatever became of the answer: the promise holds."""
    scene = full()
    scene.turn()
    scene.upsert(replace(LESSER, terminating=True, preempted=True))
    assert [] == scene.handle(PreemptFailed("uid-lesser", "uid-urgent", "no answer", scene.at))
    assert "a" == scene.engine.cluster.nominated["uid-urgent"].nominated_node


@pytest.mark.parametrize("answers", [[], [PreemptFailed("uid-lesser", "uid-urgent", "not the leader", 0.0)]])
def test_what_another_leader_promises_counts(answers: list[PreemptFailed]) -> None:
    """A promise that went unwritten when we lost the lease neither hides the new one nor costs a second victim."""
    scene = full()
    scene.turn()
    other = pod("other", cpu=1000, priority=5, node="b")
    scene.upsert(node("b", 1000), other)
    assert [] == scene.handle(LeaseLost(scene.at), *answers)
    assert {} == scene.engine.cluster.nominated
    scene.upsert(replace(URGENT, nominated_node="b"), replace(other, terminating=True, preempted=True))
    scene.advance(5.0)
    scene.handle(LeaseAcquired(2, scene.at))
    assert ("b", []) == (scene.engine.cluster.nominated["uid-urgent"].nominated_node, victims(scene.turn()))
    scene.advance(61.0)
    assert [] == victims(scene.turn())


def test_without_the_permission_nobody_is_asked_again_soon() -> None:
    """After a refusal for want of a right, pods are placed as before and nobody preempts for five minutes."""
    scene = full()
    scene.turn()
    wishes = scene.handle(PreemptFailed("uid-lesser", "uid-urgent", "forbidden", scene.at, forbidden=True))
    assert [("urgent", "preemption: default/lesser was not deleted: forbidden")] == notes(wishes)
    scene.advance(61.0)
    wishes = scene.turn()
    assert [] == victims(wishes)
    assert notes(wishes)[0][1].endswith("deploy/rbac-preemption.yaml allows it")
    scene.advance(301.0)
    assert ["lesser"] == victims(scene.turn())


def test_a_void_promise_is_taken_back() -> None:
    """When the promised node goes and nothing else helps, the pod's nomination is cleared."""
    scene = full()
    scene.turn()
    leaves(scene, LESSER)
    scene.upsert(node("small", 100))
    assert [] == scene.handle(NodeDeleted("a", scene.at, "uid-a"))
    assert [("urgent", "")] == nominations(scene.turn())


def test_a_victim_in_its_stages_is_turned_back() -> None:
    """A pod that only waits for leave to be bound is not deleted: it gives its room back and queues again."""
    scene = EngineHarness(permitter("Slow", lambda *_: Wait(600.0, retry_on=Change.NOTHING)))
    scene.upsert(node("a", 1000), pod("lesser", cpu=1000))
    assert [] == of_kind(Bind, scene.turn())
    scene.upsert(URGENT)
    wishes = scene.turn()
    assert ([], [("urgent", "a")]) == (victims(wishes), nominations(wishes))
    assert ("lesser", "preempted by pod uid-urgent on node a") in notes(wishes)
    scene.advance(2.0)
    scene.turn()
    assert "a" == assumed_on(scene.engine.cluster, "uid-urgent")


class Counts(MetricsRecorder):
    """Keeps each call of a PostFilter plugin, and how many pods had to leave for it."""

    def __init__(self) -> None:
        self.attempts, self.victims = 0, list[int]()

    def preemption_attempted(self) -> None:
        self.attempts += 1

    def preempted(self, victims: int) -> None:
        self.victims.append(victims)


def test_attempts_and_victims_are_counted() -> None:
    """Each attempt counts, and each victim once: not again for a second pod that wants its room while it leaves."""
    counts = Counts()
    scene = full(recorder=counts)
    scene.turn()
    scene.upsert(pod("huge", cpu=5000, priority=10), replace(URGENT, uid="uid-first", name="first", priority=20))
    assert [("first", "a"), ("urgent", "")] == nominations(scene.turn(1))
    scene.turn()
    assert (3, [1]) == (counts.attempts, counts.victims)


@pytest.mark.parametrize(
    ("priority", "part"),
    [(9, QueueState.ACTIVE), (10, QueueState.ACTIVE), (11, QueueState.UNSCHEDULABLE)],
)
def test_a_nomination_taken_back_wakes_whom_it_kept_away(priority: int, part: QueueState) -> None:
    """Pods of higher priority had that room all along; they are not tried again for it."""
    scene = full()
    scene.turn()
    scene.upsert(replace(LESSER, terminating=True, preempted=True))
    rival = pod("rival", cpu=5000, priority=priority, may_preempt=False)
    scene.upsert(rival)
    scene.turn()
    scene.advance(2.0)
    assert QueueState.UNSCHEDULABLE is scene.queue_state(rival)
    scene.handle(PodDeleted(URGENT.uid, scene.at, scene.version + 1))
    assert part is scene.queue_state(rival)


def test_preemptors_do_not_sit_out_a_back_off() -> None:
    """Ten pods that have failed often are all bound at the moment when the last of their victims are gone."""
    scene = EngineHarness()
    lesser = [pod(f"lesser-{i}", cpu=1000, node="a", started=5.0) for i in range(10)]
    urgent = [pod(f"urgent-{i}", cpu=1000, priority=10) for i in range(10)]
    scene.upsert(node("a", 10_000), *lesser, *urgent)
    scene.turn(20)
    scene.upsert(*(replace(each, terminating=True, preempted=True) for each in lesser))
    queue = scene.engine.controller(Scheduling).queue
    for each in urgent:
        queue.pods[each.uid].failures = 9
    bound: dict[str, str] = {}
    for each in lesser:
        scene.at += 0.01
        scene.handle(PodDeleted(each.uid, scene.at, scene.version + 1))
        while scene.engine.has_work():
            bound |= scene.binds(20)
    assert {each.name for each in urgent} == bound.keys()
    assert 0.2 > scene.at


def test_a_fork_goes_on_from_the_same_promise() -> None:
    """A twin knows what was promised and whom it waits for, and what it learns is not known here."""
    scene = full()
    scene.turn()
    twin = scene.engine.fork()
    twin.handle(PodDeleted("uid-lesser", 1.0, scene.version + 1))
    assert [] == list(twin.state.writes.owned(Preempt, "uid-urgent"))
    [deletion] = scene.engine.state.writes.owned(Preempt, "uid-urgent")
    assert ("uid-lesser", 0.0) == (deletion.target, deletion.sent_at)
    assert "a" == twin.cluster.pending_nominations["uid-urgent"]
