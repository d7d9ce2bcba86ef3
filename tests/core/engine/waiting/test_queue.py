"""Decides whether the queue keeps each pod in exactly one part, lets it out in order, and never keeps it waiting too long."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct

from trimtab.core.model.change import Change
from trimtab.core.scheduling.queue.queue import Part, Queue


def drained(queue: Queue) -> list[str]:
    out = []
    while (entry := queue.pop()) is not None:
        out.append(entry.uid)
    return out


def test_order_is_priority_then_time_then_uid() -> None:
    """The key decides (priority, then time); where keys are equal the smaller UID goes first."""
    queue = Queue()
    for uid, key in {"late": (0.0, 2.0), "b": (0.0, 1.0), "a": (0.0, 1.0), "urgent": (-9.0, 3.0)}.items():
        queue.admit(uid, key, 0.0)
    assert ["urgent", "a", "b", "late"] == drained(queue)


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (6, 10.0), (10_000, 10.0)]
)
def test_back_off_doubles_from_one_to_ten_seconds(attempt: int, seconds: float) -> None:
    """The first failure costs one second, each next one twice as much, none more than ten."""
    assert seconds == Queue().back_off_of(attempt)


def test_a_pod_that_backs_off_comes_back_when_its_time_is_up() -> None:
    """Not a moment before, and with its old place in the order."""
    queue = Queue()
    queue.admit("a", (0.0, 0.0), 0.0)
    queue.pop()
    queue.back_off("a", 5.0)
    queue.tick(5.999)
    assert [] == drained(queue)
    queue.tick(6.0)
    assert ["a"] == drained(queue)


@pytest.mark.parametrize(
    ("woken_by", "change", "part"),
    [
        (Change.POD_LEFT, Change.POD_LEFT, Part.READY),
        (Change.POD_LEFT | Change.NODE_ADDED, Change.NODE_ADDED | Change.LABELS, Part.READY),
        (Change.POD_LEFT, Change.NODE_ADDED, Part.PARKED),
        (Change.NOTHING, Change.ANY, Part.PARKED),
    ],
)
def test_only_what_may_help_wakes_a_parked_pod(woken_by: Change, change: Change, part: Part) -> None:
    """A change wakes those that named it, and leaves the others where they are."""
    queue = Queue()
    queue.admit("a", (0.0,), 0.0)
    queue.pop()
    queue.park("a", woken_by, (), 0.0)
    queue.wake(change, 5.0)
    assert part is queue.waiting["a"].part


def test_a_pod_woken_too_early_sits_out_its_back_off() -> None:
    """Wakes do not turn a pod that fits nowhere into a busy loop."""
    queue = Queue()
    queue.admit("a", (0.0,), 0.0)
    queue.pop()
    queue.park("a", Change.POD_LEFT, (), 10.0)
    assert ["a"] == queue.wake(Change.POD_LEFT, 10.5)
    assert Part.BACKING_OFF is queue.waiting["a"].part
    queue.tick(11.0)
    assert Part.READY is queue.waiting["a"].part


def test_nobody_is_parked_for_more_than_a_minute() -> None:
    """After sixty seconds a parked pod is tried again, though nothing that it named has happened."""
    queue = Queue()
    for uid, at in (("a", 0.0), ("b", 30.0)):
        queue.admit(uid, (at,), at)
        queue.pop()
        queue.park(uid, Change.NOTHING, (), at)
    queue.tick(59.9)
    assert {Part.PARKED: 2} == {part: count for part, count in queue.counts().items() if count}
    queue.tick(60.0)
    assert (Part.READY, Part.PARKED) == (queue.waiting["a"].part, queue.waiting["b"].part)


def test_a_gated_pod_is_known_and_not_tried() -> None:
    """It is neither woken nor timed out; only an open gate admits it, with the time since when it waits kept."""
    queue = Queue()
    queue.hold("a", (0.0, 1.0), 1.0)
    queue.wake(Change.ANY, 2.0)
    queue.wake_one("a", 2.0)
    queue.tick(1_000.0)
    assert [] == drained(queue)
    queue.admit("a", (0.0, 1.0), 1_001.0)
    assert (["a"], 1.0) == (drained(queue), queue.waiting["a"].since)


def test_a_forgotten_pod_does_not_come_back_from_any_part() -> None:
    """Entries left behind in heaps count for nothing, also when the same UID is admitted anew."""
    queue = Queue()
    for uid in ("ready", "backing", "parked"):
        queue.admit(uid, (0.0,), 0.0)
    queue.park("parked", Change.ANY, (), 0.0)
    queue.back_off("backing", 0.0)
    for uid in ("ready", "backing", "parked"):
        queue.forget(uid, 0.0)
    queue.tick(1_000.0)
    assert ([], None, 0) == (queue.wake(Change.ANY, 1_000.0), queue.pop(), len(queue))
    queue.admit("backing", (0.0,), 1_000.0)
    assert ["backing"] == drained(queue)


def test_what_is_left_of_an_earlier_back_off_does_not_end_a_later_one() -> None:
    """The pod was let go while it backed off, came again, and failed again: its new time counts."""
    queue = Queue()
    for at in (0.0, 0.5):
        queue.forget("a", at)
        queue.admit("a", (at,), at)
        queue.pop()
        queue.back_off("a", at)
    queue.tick(1.0)
    assert Part.BACKING_OFF is queue.waiting["a"].part
    queue.tick(1.5)
    assert Part.READY is queue.waiting["a"].part


def test_a_pod_admitted_anew_goes_by_its_new_key() -> None:
    """What is left of its former place in the order counts for nothing."""
    queue = Queue()
    queue.admit("a", (1.0,), 0.0)
    queue.hold("a", (1.0,), 0.0)
    queue.admit("b", (2.0,), 0.0)
    queue.admit("a", (3.0,), 0.0)
    assert ["b", "a"] == drained(queue)


class Standing(Struct):
    """What the model knows of one pod: no heaps, no stamps, nothing lazy."""

    part: Part
    key: tuple[float, float]
    attempts: int = 0
    due: float = 0.0
    woken_by: Change = Change.NOTHING
    parked: float = 0.0


class QueueMachine(RuleBasedStateMachine):
    """Drives a queue and a plain dictionary side by side; each pod must stand in the same part of both."""

    def __init__(self) -> None:
        super().__init__()
        self.queue, self.at = Queue(), 0.0
        self.model: dict[str, Standing] = {}

    def _some(self, data: st.DataObject, *parts: Part) -> str:
        return data.draw(st.sampled_from(sorted(uid for uid, each in self.model.items() if each.part in parts)))

    def _has(self, *parts: Part) -> bool:
        return any(each.part in parts for each in self.model.values())

    @rule(uid=st.sampled_from("abcde"), priority=st.integers(-2, 2), gated=st.booleans())
    def a_pod_comes(self, uid: str, priority: int, gated: bool) -> None:
        if uid not in self.model:
            key = (float(-priority), self.at)
            (self.queue.hold if gated else self.queue.admit)(uid, key, self.at)
            self.model[uid] = Standing(Part.GATED if gated else Part.READY, key)

    @precondition(lambda self: self._has(Part.GATED))
    @rule(data=st.data())
    def a_gate_opens(self, data: st.DataObject) -> None:
        uid = self._some(data, Part.GATED)
        self.queue.admit(uid, self.model[uid].key, self.at)
        self.model[uid].part = Part.READY

    @precondition(lambda self: self._has(Part.READY, Part.BACKING_OFF, Part.PARKED))
    @rule(data=st.data())
    def a_gate_closes(self, data: st.DataObject) -> None:
        uid = self._some(data, Part.READY, Part.BACKING_OFF, Part.PARKED)
        self.queue.hold(uid, self.model[uid].key, self.at)
        self.model[uid].part = Part.GATED

    @rule()
    def the_next_goes_out(self) -> None:
        ready = sorted((each.key, uid) for uid, each in self.model.items() if each.part is Part.READY)
        assert bool(ready) == self.queue.has_ready()
        entry = self.queue.pop()
        assert (ready[0][1] if ready else None) == (entry.uid if entry is not None else None)
        if entry is not None:
            self.model[entry.uid].part = Part.OUT
            self.model[entry.uid].attempts += 1

    @precondition(lambda self: self._has(Part.OUT))
    @rule(data=st.data(), woken_by=st.sampled_from([Change.POD_LEFT, Change.NODES, Change.NOTHING]))
    def no_node_fits(self, data: st.DataObject, woken_by: Change) -> None:
        standing = self.model[uid := self._some(data, Part.OUT)]
        self.queue.park(uid, woken_by, (), self.at)
        standing.part, standing.parked, standing.woken_by = Part.PARKED, self.at, woken_by
        standing.due = self.at + min(2.0 ** (standing.attempts - 1), 10.0)

    @precondition(lambda self: self._has(Part.OUT))
    @rule(data=st.data())
    def a_bind_fails(self, data: st.DataObject) -> None:
        standing = self.model[uid := self._some(data, Part.OUT)]
        self.queue.back_off(uid, self.at)
        standing.part, standing.due = Part.BACKING_OFF, self.at + min(2.0 ** (standing.attempts - 1), 10.0)

    @rule(change=st.sampled_from([Change.POD_LEFT, Change.NODE_ADDED, Change.LOAD, Change.ANY]))
    def something_happens(self, change: Change) -> None:
        stirred = [uid for uid, e in self.model.items() if e.part is Part.PARKED and e.woken_by & change]
        assert sorted(stirred) == sorted(self.queue.wake(change, self.at))
        for uid in stirred:
            self._stir(self.model[uid])

    @precondition(lambda self: bool(self.model))
    @rule(data=st.data())
    def a_pod_is_edited(self, data: st.DataObject) -> None:
        uid = self._some(data, *Part)
        self.queue.wake_one(uid, self.at)
        if self.model[uid].part is Part.PARKED:
            self._stir(self.model[uid])

    @precondition(lambda self: bool(self.model))
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        uid = self._some(data, *Part)
        self.queue.forget(uid, self.at)
        del self.model[uid]

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 4.0, 10.0, 30.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.at += seconds
        self.queue.tick(self.at)
        for each in self.model.values():
            if each.part is Part.BACKING_OFF and each.due <= self.at:
                each.part = Part.READY
            elif each.part is Part.PARKED and self.at - each.parked >= 60.0:
                self._stir(each)

    def _stir(self, standing: Standing) -> None:
        standing.part = Part.BACKING_OFF if standing.due > self.at else Part.READY

    @invariant()
    def each_pod_is_in_exactly_the_part_where_it_should_be(self) -> None:
        assert {u: e.part for u, e in self.model.items()} == {u: e.part for u, e in self.queue.waiting.items()}
        assert sorted(u for u, e in self.model.items() if e.part is Part.PARKED) == sorted(
            entry.uid for entry in self.queue.parked()
        )


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
TestQueueAgainstAPlainModel = QueueMachine.TestCase
