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
from collections.abc import Hashable, Iterator, Set
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.change import Change
from trimtab.core.scheduling.queue.unschedulable import Equivalence, Key, MayHelp, UnschedulablePods


class QueueState(StrEnum):
    """Where a waiting pod is; the values are kube-scheduler's names for its queues."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    POPPED = "out"


class QueuedPod(Struct):
    """One pod's standing in the queue."""

    uid: str
    key: Key
    since: float
    first_attempt_at: float = 0.0  # when it was first taken out to be decided
    state: QueueState = QueueState.POPPED
    attempts: int = 0
    backoff_until: float = 0.0  # end of the back-off after the last attempt
    requeue_on: int = 0
    plugins: tuple[str, ...] = ()
    stamp: int = 0
    equivalence: Equivalence = Equivalence("", "")
    wakes_next: Hashable | None = None  # those alike who wait to hear what becomes of this one


class SchedulingQueue:
    """Heaps with lazy removal: an entry counts only while its stamp is the pod's newest."""

    def __init__(self, initial: float = 1.0, longest: float = 10.0, timeout: float = 60.0) -> None:
        self.initial_backoff, self.max_backoff, self.max_unschedulable_wait = initial, longest, timeout
        self.pods: dict[str, QueuedPod] = {}
        self._active: list[tuple[Key, str, int]] = []
        self._backoff: list[tuple[float, str, int]] = []
        self._unschedulable = UnschedulablePods()
        self._stamps = 0

    def __len__(self) -> int:
        return len(self.pods)

    def add(self, uid: str, key: Key, at: float) -> None:
        """A pod that is new to the queue, or whose gate has opened."""
        entry = self.pods.get(uid)
        if entry is None:
            entry = self.pods[uid] = QueuedPod(uid, key, at)
        self._leave(entry)
        self._wake_next(entry, at)
        entry.key = key
        self._to_active(entry)

    def gate(self, uid: str, key: Key, at: float) -> None:
        """A gated pod: known, and not tried."""
        entry = self.pods.setdefault(uid, QueuedPod(uid, key, at))
        self._leave(entry)
        self._wake_next(entry, at)
        entry.state = QueueState.GATED

    def pop(self) -> QueuedPod | None:
        """Take the next pod out to be decided; counts as an attempt."""
        while self._active:
            _, uid, stamp = heapq.heappop(self._active)
            entry = self.pods.get(uid)
            if entry is not None and entry.stamp == stamp and entry.state is QueueState.ACTIVE:
                entry.state = QueueState.POPPED
                entry.attempts += 1
                return entry
        return None

    def take(self, uid: str, at: float) -> None:
        """Take this pod out, wherever it stands, to be decided together with another; counts as an attempt."""
        entry = self.pods[uid]
        self._leave(entry)
        self._wake_next(entry, at)
        entry.attempts += 1
        if entry.attempts == 1:
            entry.first_attempt_at = at

    def add_unschedulable(
        self,
        uid: str,
        woken_by: Change,
        plugins: tuple[str, ...],
        at: float,
        kind: Equivalence | None = None,
        rest: float = 0.0,
    ) -> None:
        """No node will do for now, nor for others of its kind (None: it is the only one); `rest` lengthens its back-off."""
        entry = self.pods[uid]
        self._leave(entry)
        entry.equivalence = kind or Equivalence(uid, uid)
        entry.requeue_on, entry.plugins = int(woken_by), plugins
        if entry.wakes_next == entry.equivalence.pods:
            entry.wakes_next = None  # they would all be refused alike
        self._wake_next(entry, at)
        entry.backoff_until = at + max(self.backoff_of(entry.attempts), rest)
        self._stamp(entry, QueueState.UNSCHEDULABLE)
        self._unschedulable.add(entry, plugins, at)

    def add_backoff(self, uid: str, at: float, until: float = 0.0) -> None:
        """A try failed for no fault of the pod's: again, but not at once, and not before `until`."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._leave(entry)
            self._wake_next(entry, at)
            entry.backoff_until = max(at + self.backoff_of(entry.attempts), until)
            self._to_backoff(entry)

    def backoff_of(self, attempts: int) -> float:
        return min(self.initial_backoff * 2.0 ** min(max(attempts - 1, 0), 32), self.max_backoff)

    def wake(
        self, change: Change, at: float, helps: MayHelp = lambda uid, plugins: True, pods: Set[str] | None = None
    ) -> list[str]:
        """Something happened that may help those who are parked for want of it, or those of these pods; who stirred."""
        if pods is None:
            woken = self._unschedulable.wake_candidates(int(change), at, helps)
        else:
            some = [self.pods[uid] for uid in sorted(pods) if uid in self.pods]
            woken = self._unschedulable.wake_candidates_of(
                [each for each in some if each.state is QueueState.UNSCHEDULABLE], int(change), at, helps
            )
        for uid in woken:
            self._wake_leader(self.pods[uid], at)
        return woken

    def wake_all(self, at: float) -> None:
        """Nothing is as it was."""
        for uid in list(self._unschedulable.since):
            self._requeue(self.pods[uid], at)

    def wake_equivalent(self, alike: Hashable, at: float) -> None:
        """Something happened that concerns this group alone."""
        uid = self._unschedulable.first(alike, at)
        if uid is not None:
            self._wake_leader(self.pods[uid], at)

    def wake_one(self, uid: str, at: float) -> None:
        """The pod itself was edited; it is no longer like those whom it led."""
        entry = self.pods.get(uid)
        if entry is not None and entry.state is QueueState.UNSCHEDULABLE:
            self._requeue(entry, at)
        elif entry is not None:
            self._wake_next(entry, at)

    def scheduled(self, uid: str, at: float) -> None:
        """The pod has a node: what helped it may help the next of its kind."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._wake_next(entry, at)

    def rekey(self, uid: str, key: Key) -> None:
        """The pod's place in the order is another one now."""
        entry = self.pods.get(uid)
        if entry is None or entry.key == key:
            return
        entry.key = key
        if entry.state is QueueState.ACTIVE:
            self._to_active(entry)
        elif entry.state is QueueState.UNSCHEDULABLE:
            self._stamp(entry, QueueState.UNSCHEDULABLE)
            self._unschedulable.rekey(entry)

    def tick(self, at: float) -> None:
        """Time has passed: back-offs end, and nobody is parked for ever."""
        while self._backoff and self._backoff[0][0] <= at:
            _, uid, stamp = heapq.heappop(self._backoff)
            entry = self.pods.get(uid)
            if entry is not None and entry.stamp == stamp and entry.state is QueueState.BACKOFF:
                self._to_active(entry)
        for uid in list(self._unschedulable.overdue(at - self.max_unschedulable_wait)):
            self._requeue(self.pods[uid], at)

    def delete(self, uid: str, at: float) -> QueuedPod | None:
        """The pod is bound, gone, or no longer ours."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._leave(entry)
            del self.pods[uid]
            self._wake_next(entry, at)
        return entry

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
        twin = SchedulingQueue(self.initial_backoff, self.max_backoff, self.max_unschedulable_wait)
        twin.pods = {uid: replace(entry) for uid, entry in self.pods.items()}
        twin._active, twin._backoff, twin._stamps = self._active.copy(), self._backoff.copy(), self._stamps
        twin._unschedulable = self._unschedulable.copy()
        return twin

    def _requeue(self, entry: QueuedPod, at: float) -> None:
        self._leave(entry)
        if entry.backoff_until > at:
            self._to_backoff(entry)
        else:
            self._to_active(entry)

    def _to_active(self, entry: QueuedPod) -> None:
        self._stamp(entry, QueueState.ACTIVE)
        heapq.heappush(self._active, (entry.key, entry.uid, entry.stamp))

    def _to_backoff(self, entry: QueuedPod) -> None:
        self._stamp(entry, QueueState.BACKOFF)
        heapq.heappush(self._backoff, (entry.backoff_until, entry.uid, entry.stamp))

    def _stamp(self, entry: QueuedPod, part: QueueState) -> None:
        self._stamps += 1
        entry.stamp, entry.state = self._stamps, part

    def _wake_leader(self, entry: QueuedPod, at: float) -> None:
        self._requeue(entry, at)
        entry.wakes_next = entry.equivalence.pods

    def _wake_next(self, entry: QueuedPod, at: float) -> None:
        leads, entry.wakes_next = entry.wakes_next, None
        if leads is not None:
            self.wake_equivalent(leads, at)

    def _leave(self, entry: QueuedPod) -> None:
        if entry.state is QueueState.UNSCHEDULABLE:
            self._unschedulable.remove(entry)
        entry.state = QueueState.POPPED
