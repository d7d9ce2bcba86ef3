"""Decides whether the queue keeps each pod in exactly one part, lets it out in order, and never keeps it waiting too long."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct

from trimtab.core.model.change import Change
from trimtab.core.scheduling.queue.queue import QueueState, SchedulingQueue


def drained(queue: SchedulingQueue) -> list[str]:
    out = []
    while (entry := queue.pop()) is not None:
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
    queue.pop()
    queue.add_backoff("a", 5.0)
    queue.tick(5.999)
    assert [] == drained(queue)
    queue.tick(6.0)
    assert ["a"] == drained(queue)


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
    queue.pop()
    queue.add_unschedulable("a", woken_by, (), 0.0)
    queue.wake(change, 5.0)
    assert part is queue.pods["a"].state


def test_a_pod_woken_too_early_sits_out_its_back_off() -> None:
    """Wakes do not turn a pod that fits nowhere into a busy loop."""
    queue = SchedulingQueue()
    queue.add("a", (0.0,), 0.0)
    queue.pop()
    queue.add_unschedulable("a", Change.POD_DELETED, (), 10.0)
    assert ["a"] == queue.wake(Change.POD_DELETED, 10.5)
    assert QueueState.BACKOFF is queue.pods["a"].state
    queue.tick(11.0)
    assert QueueState.ACTIVE is queue.pods["a"].state


def test_nobody_is_parked_for_more_than_a_minute() -> None:
    """After sixty seconds a parked pod is tried again, though nothing that it named has happened."""
    queue = SchedulingQueue()
    for uid, at in (("a", 0.0), ("b", 30.0)):
        queue.add(uid, (at,), at)
        queue.pop()
        queue.add_unschedulable(uid, Change.NOTHING, (), at)
    queue.tick(59.9)
    assert {QueueState.UNSCHEDULABLE: 2} == {part: count for part, count in queue.counts().items() if count}
    queue.tick(60.0)
    assert (QueueState.ACTIVE, QueueState.UNSCHEDULABLE) == (queue.pods["a"].state, queue.pods["b"].state)


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
    assert ([], None, 0) == (queue.wake(Change.ANY, 1_000.0), queue.pop(), len(queue))
    queue.add("backing", (0.0,), 1_000.0)
    assert ["backing"] == drained(queue)


def test_what_is_left_of_an_earlier_back_off_does_not_end_a_later_one() -> None:
    """The pod was let go while it backed off, came again, and failed again: its new time counts."""
    queue = SchedulingQueue()
    for at in (0.0, 0.5):
        queue.delete("a", at)
        queue.add("a", (at,), at)
        queue.pop()
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
    attempts: int = 0
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
        ready = sorted((each.key, uid) for uid, each in self.model.items() if each.part is QueueState.ACTIVE)
        assert bool(ready) == self.queue.has_active()
        entry = self.queue.pop()
        assert (ready[0][1] if ready else None) == (entry.uid if entry is not None else None)
        if entry is not None:
            self.model[entry.uid].part = QueueState.POPPED
            self.model[entry.uid].attempts += 1

    @precondition(lambda self: self._has(QueueState.POPPED))
    @rule(data=st.data(), woken_by=st.sampled_from([Change.POD_DELETED, Change.NODES, Change.NOTHING]))
    def no_node_fits(self, data: st.DataObject, woken_by: Change) -> None:
        standing = self.model[uid := self._some(data, QueueState.POPPED)]
        self.queue.add_unschedulable(uid, woken_by, (), self.at)
        standing.part, standing.parked, standing.requeue_on = QueueState.UNSCHEDULABLE, self.at, woken_by
        standing.due = self.at + min(2.0 ** (standing.attempts - 1), 10.0)

    @precondition(lambda self: self._has(QueueState.POPPED))
    @rule(data=st.data())
    def a_bind_fails(self, data: st.DataObject) -> None:
        standing = self.model[uid := self._some(data, QueueState.POPPED)]
        self.queue.add_backoff(uid, self.at)
        standing.part, standing.due = QueueState.BACKOFF, self.at + min(2.0 ** (standing.attempts - 1), 10.0)

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
                self._stir(each)

    def _stir(self, standing: Standing) -> None:
        standing.part = QueueState.BACKOFF if standing.due > self.at else QueueState.ACTIVE

    @invariant()
    def each_pod_is_in_exactly_the_part_where_it_should_be(self) -> None:
        assert {u: e.part for u, e in self.model.items()} == {u: e.state for u, e in self.queue.pods.items()}
        assert sorted(u for u, e in self.model.items() if e.part is QueueState.UNSCHEDULABLE) == sorted(
            entry.uid for entry in self.queue.unschedulable()
        )


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
TestQueueAgainstAPlainModel = QueueMachine.TestCase
