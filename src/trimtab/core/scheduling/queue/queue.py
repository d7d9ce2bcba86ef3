"""The scheduling queue: active, backoff, unschedulable and gated pods, as in kube-scheduler.

                  add                     pop
    (unknown) ──────────▶ active ────────────────────▶ popped: in its scheduling or binding cycle
                            ▲  ▲                          │              │
            back-off over   │  │ woken, or waited too long│ no node      │ a bind failed
                    ┌───────┘  └──────────┐               ▼              ▼
                 backoff ◀──────── unschedulable ◀────────┘           backoff
                        woken too early        (with what may wake it)

The order of the active queue is the profile's QueueSort key (priority, then time), then the UID. Back-off starts at 1 s
and doubles to 10 s with each attempt. An unschedulable pod is tried again after `max_unschedulable_wait` in any case, for
hints can be wrong. Of equivalent pods only the first is woken by a change (`unschedulable`). If it is scheduled, or leaves
the queue otherwise than by being unschedulable again, the next of them is woken.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Set
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.change import Change
from trimtab.core.scheduling.queue.unschedulable import Equivalence, Key, MayHelp, UnschedulablePods
from trimtab.core.settings import INITIAL_BACKOFF, MAX_BACKOFF, MAX_UNSCHEDULABLE_WAIT

MAX_STEPS = 40  # kept of a pod's history
MAX_FINISHED = 10_000  # pods that left the queue


class QueueState(StrEnum):
    """Where a pending pod is. The values but the last are kube-scheduler's names for its queues."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    POPPED = "out"


class QueueStep(NamedTuple):
    """A pod entered one of the queues, or left them all; the cause is a phrase, or the changes that woke it."""

    at: float
    queue: str
    cause: str | Change


class QueuedPod(Struct):
    """One pod in the queue."""

    uid: str
    key: Key
    since: float
    first_attempt_at: float = 0.0  # when it was first popped
    state: QueueState = QueueState.POPPED
    attempts: int = 0
    backoff_until: float = 0.0  # end of the back-off after the last attempt
    requeue_on: int = 0
    plugins: tuple[str, ...] = ()
    stamp: int = 0
    equivalence: Equivalence = Equivalence("", "")
    wakes_next: Hashable | None = None  # the equivalent pods to wake once this one is scheduled
    history: list[QueueStep] = []  # the first step, and the newest ones

    def note(self, at: float, queue: str, cause: str | Change) -> None:
        self.history.append(QueueStep(at, queue, cause))
        if len(self.history) > MAX_STEPS:
            del self.history[1]


class SchedulingQueue:
    """Heaps with lazy removal: an entry counts only while its stamp is the pod's newest."""

    def __init__(
        self,
        initial_backoff: float = INITIAL_BACKOFF,
        max_backoff: float = MAX_BACKOFF,
        max_unschedulable_wait: float = MAX_UNSCHEDULABLE_WAIT,
    ) -> None:
        self.initial_backoff, self.max_backoff = initial_backoff, max_backoff
        self.max_unschedulable_wait = max_unschedulable_wait
        self.pods: dict[str, QueuedPod] = {}
        self._active: list[tuple[Key, str, int]] = []
        self._backoff: list[tuple[float, str, int]] = []
        self._unschedulable = UnschedulablePods()
        self._stamps = 0
        self.finished: OrderedDict[str, QueuedPod] = OrderedDict()  # the newest that left the queue, for explanations

    def __len__(self) -> int:
        return len(self.pods)

    def add(self, uid: str, key: Key, now: float) -> None:
        """Add a pod that is new to the queue, or whose gates were removed."""
        entry, cause = self.pods.get(uid), "the gates were removed"
        if entry is None:
            entry, cause = QueuedPod(uid, key, now), "the pod was seen"
            self.pods[uid] = entry
        self._leave(entry)
        self._wake_next(entry, now)
        entry.key = key
        self._to_active(entry)
        entry.note(now, QueueState.ACTIVE, cause)

    def gate(self, uid: str, key: Key, now: float, cause: str = "") -> None:
        """Add a gated pod, which is not attempted."""
        entry = self.pods.setdefault(uid, QueuedPod(uid, key, now))
        if entry.state is not QueueState.GATED:
            entry.note(now, QueueState.GATED, cause)
        self._leave(entry)
        self._wake_next(entry, now)
        entry.state = QueueState.GATED

    def pop(self) -> QueuedPod | None:
        """Pop the next pod; counts as an attempt."""
        while self._active:
            _, uid, stamp = heapq.heappop(self._active)
            entry = self.pods.get(uid)
            if entry is not None and entry.stamp == stamp and entry.state is QueueState.ACTIVE:
                entry.state = QueueState.POPPED
                entry.attempts += 1
                return entry
        return None

    def take(self, uid: str, now: float) -> None:
        """Pop this pod, whatever its state, to be scheduled together with another; counts as an attempt."""
        entry = self.pods[uid]
        self._leave(entry)
        self._wake_next(entry, now)
        entry.attempts += 1
        if entry.attempts == 1:
            entry.first_attempt_at = now

    def add_unschedulable(
        self,
        uid: str,
        requeue_on: Change,
        plugins: tuple[str, ...],
        now: float,
        equivalence: Equivalence | None = None,
        backoff: float = 0.0,
    ) -> None:
        """No node is feasible for it, nor for equivalent pods (None: it is unique); it backs off for at least `backoff`."""
        entry = self.pods[uid]
        self._leave(entry)
        entry.equivalence = equivalence or Equivalence(uid, uid)
        entry.requeue_on, entry.plugins = int(requeue_on), plugins
        if entry.wakes_next == entry.equivalence.pods:
            entry.wakes_next = None  # they would all be rejected alike
        self._wake_next(entry, now)
        entry.backoff_until = now + max(self.backoff_of(entry.attempts), backoff)
        self._stamp(entry, QueueState.UNSCHEDULABLE)
        self._unschedulable.add(entry, plugins, now)
        by = f", rejected by {', '.join(plugins)}" if plugins else ""
        entry.note(now, QueueState.UNSCHEDULABLE, f"attempt {entry.attempts} failed{by}")

    def add_backoff(self, uid: str, now: float, until: float = 0.0) -> None:
        """An attempt failed for another reason than the nodes: try again after a back-off, not before `until`."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._leave(entry)
            self._wake_next(entry, now)
            entry.backoff_until = max(now + self.backoff_of(entry.attempts), until)
            self._to_backoff(entry)
            seconds = entry.backoff_until - now
            entry.note(now, QueueState.BACKOFF, f"attempt {entry.attempts} failed, back-off of {seconds:.1f} s")

    def backoff_of(self, attempts: int) -> float:
        return min(self.initial_backoff * 2.0 ** min(max(attempts - 1, 0), 32), self.max_backoff)

    def wake(
        self, change: Change, now: float, may_help: MayHelp = lambda uid, plugins: True, pods: Set[str] | None = None
    ) -> list[str]:
        """Requeue the unschedulable pods (of these, if any are named) that the change may help; returns their UIDs."""
        if pods is None:
            woken = self._unschedulable.wake_candidates(int(change), now, may_help)
        else:
            named = [self.pods[uid] for uid in sorted(pods) if uid in self.pods]
            woken = self._unschedulable.wake_candidates_of(
                [each for each in named if each.state is QueueState.UNSCHEDULABLE], int(change), now, may_help
            )
        for uid in woken:
            self._wake_leader(self.pods[uid], now, change)
        return woken

    def wake_all(self, now: float) -> None:
        """Requeue every unschedulable pod: the settings, or what can be read, changed."""
        for uid in list(self._unschedulable.since):
            self._requeue(self.pods[uid], now, "settings or permissions changed")

    def wake_equivalent(self, equivalents: Hashable, now: float) -> None:
        """Requeue the first of these equivalent pods."""
        uid = self._unschedulable.first(equivalents, now)
        if uid is not None:
            self._wake_leader(self.pods[uid], now, "an equivalent pod was scheduled, or its group changed")

    def wake_one(self, uid: str, now: float) -> None:
        """Requeue this pod: it was updated, or its nomination is void."""
        entry = self.pods.get(uid)
        if entry is not None and entry.state is QueueState.UNSCHEDULABLE:
            self._requeue(entry, now, "the pod was updated, or lost its nomination")
        elif entry is not None:
            self._wake_next(entry, now)

    def scheduled(self, uid: str, now: float) -> None:
        """The pod has a node: what helped it may help the next equivalent one."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._wake_next(entry, now)

    def rekey(self, uid: str, key: Key) -> None:
        """Change the pod's sort key."""
        entry = self.pods.get(uid)
        if entry is None or entry.key == key:
            return
        entry.key = key
        if entry.state is QueueState.ACTIVE:
            self._to_active(entry)
        elif entry.state is QueueState.UNSCHEDULABLE:
            self._stamp(entry, QueueState.UNSCHEDULABLE)
            self._unschedulable.rekey(entry)

    def tick(self, now: float) -> None:
        """Time has passed: back-offs end, and no pod stays unschedulable for ever."""
        while self._backoff and self._backoff[0][0] <= now:
            _, uid, stamp = heapq.heappop(self._backoff)
            entry = self.pods.get(uid)
            if entry is not None and entry.stamp == stamp and entry.state is QueueState.BACKOFF:
                self._to_active(entry)
                entry.note(now, QueueState.ACTIVE, "the back-off is over")
        for uid in list(self._unschedulable.overdue(now - self.max_unschedulable_wait)):
            self._requeue(self.pods[uid], now, f"{self.max_unschedulable_wait:g} s have passed")

    def delete(self, uid: str, now: float) -> QueuedPod | None:
        """Remove a pod that is bound, deleted, or names another scheduler."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._leave(entry)
            del self.pods[uid]
            self._wake_next(entry, now)
            self._remember(entry, now)
        return entry

    def _remember(self, entry: QueuedPod, now: float) -> None:
        entry.note(now, QueueState.POPPED, "the pod left the queue")
        self.finished.pop(entry.uid, None)
        self.finished[entry.uid] = entry
        if len(self.finished) > MAX_FINISHED:
            self.finished.popitem(last=False)

    def counts(self) -> dict[QueueState, int]:
        counts = dict.fromkeys(QueueState, 0)
        for entry in self.pods.values():
            counts[entry.state] += 1
        return counts

    def has_active(self) -> bool:
        while self._active:
            _, uid, stamp = self._active[0]
            entry = self.pods.get(uid)
            if entry is not None and entry.stamp == stamp and entry.state is QueueState.ACTIVE:
                return True
            heapq.heappop(self._active)
        return False

    def unschedulable(self) -> Iterator[QueuedPod]:
        return (entry for entry in self.pods.values() if entry.state is QueueState.UNSCHEDULABLE)

    def copy(self) -> SchedulingQueue:
        copied = SchedulingQueue(self.initial_backoff, self.max_backoff, self.max_unschedulable_wait)
        copied.pods = {uid: replace(entry, history=entry.history.copy()) for uid, entry in self.pods.items()}
        copied._active, copied._backoff, copied._stamps = self._active.copy(), self._backoff.copy(), self._stamps
        copied._unschedulable = self._unschedulable.copy()
        return copied

    def _requeue(self, entry: QueuedPod, now: float, cause: str | Change) -> None:
        self._leave(entry)
        if entry.backoff_until > now:
            self._to_backoff(entry)
        else:
            self._to_active(entry)
        entry.note(now, entry.state, cause)

    def _to_active(self, entry: QueuedPod) -> None:
        self._stamp(entry, QueueState.ACTIVE)
        heapq.heappush(self._active, (entry.key, entry.uid, entry.stamp))

    def _to_backoff(self, entry: QueuedPod) -> None:
        self._stamp(entry, QueueState.BACKOFF)
        heapq.heappush(self._backoff, (entry.backoff_until, entry.uid, entry.stamp))

    def _stamp(self, entry: QueuedPod, state: QueueState) -> None:
        self._stamps += 1
        entry.stamp, entry.state = self._stamps, state

    def _wake_leader(self, entry: QueuedPod, now: float, cause: str | Change) -> None:
        self._requeue(entry, now, cause)
        entry.wakes_next = entry.equivalence.pods

    def _wake_next(self, entry: QueuedPod, now: float) -> None:
        equivalents, entry.wakes_next = entry.wakes_next, None
        if equivalents is not None:
            self.wake_equivalent(equivalents, now)

    def _leave(self, entry: QueuedPod) -> None:
        if entry.state is QueueState.UNSCHEDULABLE:
            self._unschedulable.remove(entry)
        entry.state = QueueState.POPPED
