"""Decides whether the queue keeps each pod in exactly one part, lets it out in order, and never keeps it waiting too long."""

from __future__ import annotations

from math import floor

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct

from trimtab.core.model.change import Change
from trimtab.core.scheduling.queue.backoff import MAX_COMPLETED
from trimtab.core.scheduling.queue.queue import MAX_OVERDUE, SchedulingQueue
from trimtab.core.scheduling.queue.queued_pod import QueueState


def drained(queue: SchedulingQueue, now: float = 0.0) -> list[str]:
    out = []
    while (entry := queue.pop(now)) is not None:
        out.append(entry.uid)
    return out


def test_order_is_priority_then_time_then_uid() -> None:
    """The key decides (priority, then time); where keys are equal the smaller UID goes first."""
    queue = SchedulingQueue()
    for uid, key in {"late": (0.0, 2.0), "b": (0.0, 1.0), "a": (0.0, 1.0), "urgent": (-9.0, 3.0)}.items():
        queue.add(uid, key, 0.0)
    assert ["urgent", "a", "b", "late"] == drained(queue)


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (6, 10.0), (10_000, 10.0)]
)
def test_back_off_doubles_from_one_to_ten_seconds(attempt: int, seconds: float) -> None:
    """The first failure costs one second, each next one twice as much, none more than ten."""
    assert seconds == SchedulingQueue().backoff_of(attempt)


def test_a_pod_that_backs_off_comes_back_when_its_time_is_up() -> None:
    """Not a moment before, and with its old place in the order."""
    queue = SchedulingQueue()
    queue.add("a", (0.0, 0.0), 0.0)
    queue.pop(0.0)
    queue.add_backoff("a", 5.0)
    queue.tick(5.999)
    assert [] == drained(queue)
    queue.tick(6.0)
    assert ["a"] == drained(queue, 6.0)


@pytest.mark.parametrize(
    ("woken_by", "change", "part"),
    [
        (Change.POD_DELETED, Change.POD_DELETED, QueueState.ACTIVE),
        (Change.POD_DELETED | Change.NODE_ADDED, Change.NODE_ADDED | Change.LABELS, QueueState.ACTIVE),
        (Change.POD_DELETED, Change.NODE_ADDED, QueueState.UNSCHEDULABLE),
        (Change.NOTHING, Change.ANY, QueueState.UNSCHEDULABLE),
    ],
)
def test_only_what_may_help_wakes_a_parked_pod(woken_by: Change, change: Change, part: QueueState) -> None:
    """A change wakes those that named it, and leaves the others where they are."""
    queue = SchedulingQueue()
    queue.add("a", (0.0,), 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("a", woken_by, (), 0.0)
    queue.wake(change, 5.0)
    assert part is queue.pods["a"].state


def test_a_pod_woken_too_early_sits_out_its_back_off() -> None:
    """Wakes do not turn a pod that fits nowhere into a busy loop."""
    queue = SchedulingQueue()
    queue.add("a", (0.0,), 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("a", Change.POD_DELETED, (), 10.0)
    assert ["a"] == queue.wake(Change.POD_DELETED, 10.5)
    assert QueueState.BACKOFF is queue.pods["a"].state
    queue.tick(11.0)
    assert QueueState.ACTIVE is queue.pods["a"].state


def failed(queue: SchedulingQueue, uid: str, key: tuple[float, ...], now: float, times: int = 1) -> None:
    """The pod is in the queue, and has found no node so many times."""
    queue.add(uid, key, now)
    for _ in range(times):
        queue.take(uid, now)
        queue.add_unschedulable(uid, Change.POD_DELETED, (), now)


def test_pods_are_popped_before_their_back_off_is_over_when_no_other_is_ready() -> None:
    """First whose back-off ends first, in whole seconds, and among these in the queue's order; a ready pod goes before."""
    queue = SchedulingQueue()
    failed(queue, "often", (-9.0,), 10.0, times=3)
    failed(queue, "lesser", (0.0,), 10.0)
    failed(queue, "urgent", (-9.0,), 10.5)
    queue.wake(Change.POD_DELETED, 10.6)
    queue.add("ready", (9.0,), 10.6)
    assert {"often", "lesser", "urgent"} == {e.uid for e in queue.pods.values() if e.state is QueueState.BACKOFF}
    assert ["ready", "urgent", "lesser", "often"] == drained(queue, 10.6)


def test_nobody_is_tried_twice_at_one_instant() -> None:
    """A pod that is woken at the time of its own attempt is popped when time has passed, and not at once."""
    queue = SchedulingQueue()
    queue.tick(10.0)
    failed(queue, "a", (0.0,), 10.0)
    queue.wake(Change.POD_DELETED, 10.0)
    assert ([], False) == (drained(queue, 10.0), queue.has_ready())
    queue.tick(10.001)
    assert (True, ["a"]) == (queue.has_ready(), drained(queue, 10.001))


@pytest.mark.parametrize("error", [True, False])
def test_a_back_off_after_an_error_or_by_a_plugin_is_sat_out(error: bool) -> None:
    """Nothing but time ends it, though no other pod is ready."""
    queue = SchedulingQueue()
    queue.add("a", (0.0,), 0.0)
    queue.pop(0.0)
    if error:
        queue.add_backoff("a", 0.0)
    else:
        queue.add_unschedulable("a", Change.POD_DELETED, (), 0.0, backoff=1.0)
        queue.wake(Change.POD_DELETED, 0.5)
    queue.tick(0.9)
    assert ([], False) == (drained(queue, 0.9), queue.has_ready())
    queue.tick(1.0)
    assert ["a"] == drained(queue, 1.0)


def test_an_attempt_that_only_time_brought_about_does_not_lengthen_the_back_off() -> None:
    """A pod that waits for minutes answers a change as quickly as after its first failure."""
    queue = SchedulingQueue()
    failed(queue, "a", (0.0,), 0.0)
    for at in (60.0, 120.0, 180.0):
        queue.tick(at)
        assert ["a"] == drained(queue, at)
        queue.add_unschedulable("a", Change.POD_DELETED, (), at)
    assert (4, 181.0) == (queue.pods["a"].attempts, queue.pods["a"].backoff_until)
    queue.wake(Change.POD_DELETED, 182.0)
    assert ["a"] == drained(queue, 182.0)
    queue.add_unschedulable("a", Change.POD_DELETED, (), 182.0)
    assert 184.0 == queue.pods["a"].backoff_until


def test_a_held_pod_stays_where_it_is_until_it_is_released() -> None:
    """No change requeues it, nor an edit; when the time is up, it goes as any other."""
    queue = SchedulingQueue()
    failed(queue, "a", (0.0,), 0.0)
    queue.hold("a", 60.0)
    assert [] == queue.wake(Change.POD_DELETED, 5.0)
    queue.wake_one("a", 5.0)
    queue.wake_all(5.0)
    queue.tick(59.9)
    assert QueueState.UNSCHEDULABLE is queue.pods["a"].state
    queue.tick(60.0)
    assert QueueState.BACKOFF is queue.pods["a"].state
    failed(queue, "b", (0.0,), 60.0)
    queue.hold("b", 120.0)
    queue.release("b")
    assert ["b"] == queue.wake(Change.POD_DELETED, 65.0)


def test_of_those_that_a_change_helps_only_the_admitted_are_woken() -> None:
    """Each pod is asked about by itself, though a hint was asked for once for all."""
    queue = SchedulingQueue()
    for uid in ("high", "low"):
        failed(queue, uid, (0.0,), 0.0)
    assert ["low"] == queue.wake(Change.POD_DELETED, 5.0, may_wake=lambda uid: uid == "low")
    assert QueueState.UNSCHEDULABLE is queue.pods["high"].state


def test_nobody_is_parked_for_more_than_a_minute() -> None:
    """After sixty seconds a parked pod is tried again, though nothing that it named has happened: when nothing else is to
    be done, and ten seconds later in any case."""
    queue = SchedulingQueue()
    for uid, at in (("a", 0.0), ("b", 30.0)):
        queue.add(uid, (at,), at)
        queue.pop(0.0)
        queue.add_unschedulable(uid, Change.NOTHING, (), at)
    queue.tick(59.9)
    assert {QueueState.UNSCHEDULABLE: 2} == {part: count for part, count in queue.counts().items() if count}
    queue.tick(60.0)
    assert (QueueState.BACKOFF, QueueState.UNSCHEDULABLE) == (queue.pods["a"].state, queue.pods["b"].state)
    assert queue.has_ready()
    queue.tick(70.0)
    assert QueueState.ACTIVE is queue.pods["a"].state


def test_pods_that_are_tried_again_go_after_all_others() -> None:
    """A thousand have waited for a minute when another one comes: that one is next, and few are requeued at once."""
    queue = SchedulingQueue()
    for number in range(1_000):
        failed(queue, f"old-{number}", (0.0,), 0.0)
    queue.tick(60.0)
    assert MAX_OVERDUE == queue.counts()[QueueState.BACKOFF]
    queue.add("new", (61.0,), 61.0)
    queue.tick(61.0)
    assert 2 * MAX_OVERDUE == queue.counts()[QueueState.BACKOFF]
    popped = [queue.pop(61.0), queue.pop(61.0)]
    assert ["new", True] == [popped[0].uid if popped[0] else "", popped[1] is not None and popped[1].timed_out]


def test_many_backoffs_that_end_at_once_end_in_slices() -> None:
    """What ends at one instant is not moved in one step, and nothing is forgotten."""
    queue = SchedulingQueue()
    for number in range(MAX_COMPLETED + 1):
        queue.add(f"old-{number}", (0.0,), 0.0)
    for uid in drained(queue):
        queue.add_backoff(uid, 0.0)
    active = []
    for _ in range(2):
        queue.tick(1.0)
        active.append(queue.counts()[QueueState.ACTIVE])
    assert [MAX_COMPLETED, MAX_COMPLETED + 1] == active


def test_a_gated_pod_is_known_and_not_tried() -> None:
    """It is neither woken nor timed out; only an open gate admits it, with the time since when it waits kept."""
    queue = SchedulingQueue()
    queue.gate("a", (0.0, 1.0), 1.0)
    queue.wake(Change.ANY, 2.0)
    queue.wake_one("a", 2.0)
    queue.tick(1_000.0)
    assert [] == drained(queue)
    queue.add("a", (0.0, 1.0), 1_001.0)
    assert (["a"], 1.0) == (drained(queue), queue.pods["a"].since)


def test_a_forgotten_pod_does_not_come_back_from_any_part() -> None:
    """Entries left behind in heaps count for nothing, also when the same UID is admitted anew."""
    queue = SchedulingQueue()
    for uid in ("ready", "backing", "parked"):
        queue.add(uid, (0.0,), 0.0)
    queue.add_unschedulable("parked", Change.ANY, (), 0.0)
    queue.add_backoff("backing", 0.0)
    for uid in ("ready", "backing", "parked"):
        queue.delete(uid, 0.0)
    queue.tick(1_000.0)
    assert ([], None, 0) == (queue.wake(Change.ANY, 1_000.0), queue.pop(0.0), len(queue))
    queue.add("backing", (0.0,), 1_000.0)
    assert ["backing"] == drained(queue)


def test_what_is_left_of_an_earlier_back_off_does_not_end_a_later_one() -> None:
    """The pod was let go while it backed off, came again, and failed again: its new time counts."""
    queue = SchedulingQueue()
    for at in (0.0, 0.5):
        queue.delete("a", at)
        queue.add("a", (at,), at)
        queue.pop(0.0)
        queue.add_backoff("a", at)
    queue.tick(1.0)
    assert QueueState.BACKOFF is queue.pods["a"].state
    queue.tick(1.5)
    assert QueueState.ACTIVE is queue.pods["a"].state


def test_a_pod_admitted_anew_goes_by_its_new_key() -> None:
    """What is left of its former place in the order counts for nothing."""
    queue = SchedulingQueue()
    queue.add("a", (1.0,), 0.0)
    queue.gate("a", (1.0,), 0.0)
    queue.add("b", (2.0,), 0.0)
    queue.add("a", (3.0,), 0.0)
    assert ["b", "a"] == drained(queue)


class Standing(Struct):
    """What the model knows of one pod: no heaps, no stamps, nothing lazy."""

    part: QueueState
    key: tuple[float, float]
    attempted: float = -1.0
    failures: int = 0
    errors: int = 0
    timed_out: bool = False
    sits_out: bool = False
    due: float = 0.0
    requeue_on: Change = Change.NOTHING
    parked: float = 0.0


class QueueMachine(RuleBasedStateMachine):
    """Drives a queue and a plain dictionary side by side; each pod must stand in the same part of both."""

    def __init__(self) -> None:
        super().__init__()
        self.queue, self.at = SchedulingQueue(), 0.0
        self.model: dict[str, Standing] = {}

    def _some(self, data: st.DataObject, *parts: QueueState) -> str:
        return data.draw(st.sampled_from(sorted(uid for uid, each in self.model.items() if each.part in parts)))

    def _has(self, *parts: QueueState) -> bool:
        return any(each.part in parts for each in self.model.values())

    @rule(uid=st.sampled_from("abcde"), priority=st.integers(-2, 2), gated=st.booleans())
    def a_pod_comes(self, uid: str, priority: int, gated: bool) -> None:
        if uid not in self.model:
            key = (float(-priority), self.at)
            (self.queue.gate if gated else self.queue.add)(uid, key, self.at)
            self.model[uid] = Standing(QueueState.GATED if gated else QueueState.ACTIVE, key)

    @precondition(lambda self: self._has(QueueState.GATED))
    @rule(data=st.data())
    def a_gate_opens(self, data: st.DataObject) -> None:
        uid = self._some(data, QueueState.GATED)
        self.queue.add(uid, self.model[uid].key, self.at)
        self.model[uid].part = QueueState.ACTIVE

    @precondition(lambda self: self._has(QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE))
    @rule(data=st.data())
    def a_gate_closes(self, data: st.DataObject) -> None:
        uid = self._some(data, QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE)
        self.queue.gate(uid, self.model[uid].key, self.at)
        self.model[uid].part = QueueState.GATED

    @rule()
    def the_next_goes_out(self) -> None:
        active = sorted((each.key, uid) for uid, each in self.model.items() if each.part is QueueState.ACTIVE)
        early = sorted(
            (floor(each.due), each.key, uid)
            for uid, each in self.model.items()
            if each.part is QueueState.BACKOFF and not each.sits_out and each.attempted < self.at
        )
        first = active[0][-1] if active else early[0][-1] if early else None
        assert (first is not None) == self.queue.has_ready()
        entry = self.queue.pop(self.at)
        assert first == (entry.uid if entry is not None else None)
        if first is not None:
            self.model[first].part, self.model[first].attempted = QueueState.POPPED, self.at

    @precondition(lambda self: self._has(QueueState.POPPED))
    @rule(data=st.data(), woken_by=st.sampled_from([Change.POD_DELETED, Change.NODES, Change.NOTHING]))
    def no_node_fits(self, data: st.DataObject, woken_by: Change) -> None:
        standing = self.model[uid := self._some(data, QueueState.POPPED)]
        self.queue.add_unschedulable(uid, woken_by, (), self.at)
        standing.part, standing.parked, standing.requeue_on = QueueState.UNSCHEDULABLE, self.at, woken_by
        standing.failures, standing.errors = standing.failures + (not standing.timed_out), 0
        standing.due, standing.sits_out = self.at + min(2.0 ** max(standing.failures - 1, 0), 10.0), False

    @precondition(lambda self: self._has(QueueState.POPPED))
    @rule(data=st.data())
    def a_bind_fails(self, data: st.DataObject) -> None:
        standing = self.model[uid := self._some(data, QueueState.POPPED)]
        self.queue.add_backoff(uid, self.at)
        standing.errors, standing.sits_out = standing.errors + 1, True
        standing.part, standing.due = QueueState.BACKOFF, self.at + min(2.0 ** (standing.errors - 1), 10.0)

    @rule(change=st.sampled_from([Change.POD_DELETED, Change.NODE_ADDED, Change.LOAD, Change.ANY]))
    def something_happens(self, change: Change) -> None:
        stirred = [uid for uid, e in self.model.items() if e.part is QueueState.UNSCHEDULABLE and e.requeue_on & change]
        assert sorted(stirred) == sorted(self.queue.wake(change, self.at))
        for uid in stirred:
            self._stir(self.model[uid])

    @precondition(lambda self: bool(self.model))
    @rule(data=st.data())
    def a_pod_is_edited(self, data: st.DataObject) -> None:
        uid = self._some(data, *QueueState)
        self.queue.wake_one(uid, self.at)
        if self.model[uid].part is QueueState.UNSCHEDULABLE:
            self._stir(self.model[uid])

    @precondition(lambda self: bool(self.model))
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        uid = self._some(data, *QueueState)
        self.queue.delete(uid, self.at)
        del self.model[uid]

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 4.0, 10.0, 30.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.at += seconds
        self.queue.tick(self.at)
        for each in self.model.values():
            if each.part is QueueState.BACKOFF and each.due <= self.at:
                each.part = QueueState.ACTIVE
            elif each.part is QueueState.UNSCHEDULABLE and self.at - each.parked >= 60.0:
                self._stir(each, timed_out=True)

    def _stir(self, standing: Standing, timed_out: bool = False) -> None:
        standing.timed_out = timed_out
        if timed_out:
            standing.due, standing.sits_out = self.at + 10.0, False
        standing.part = QueueState.BACKOFF if standing.due > self.at else QueueState.ACTIVE

    @invariant()
    def each_pod_is_in_exactly_the_part_where_it_should_be(self) -> None:
        assert {u: e.part for u, e in self.model.items()} == {u: e.state for u, e in self.queue.pods.items()}
        assert sorted(u for u, e in self.model.items() if e.part is QueueState.UNSCHEDULABLE) == sorted(
            entry.uid for entry in self.queue.unschedulable()
        )


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
TestQueueAgainstAPlainModel = QueueMachine.TestCase
