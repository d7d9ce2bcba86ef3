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
from trimtab.core.scheduling.queue.unschedulable import Helps, Key, Kind, Parked


class Part(StrEnum):
    """Where a waiting pod is; the values are kube-scheduler's names for its queues."""

    READY = "active"
    BACKING_OFF = "backoff"
    PARKED = "unschedulable"
    GATED = "gated"
    OUT = "out"


class Waiting(Struct):
    """One pod's standing in the queue."""

    uid: str
    key: Key
    since: float
    tried: float = 0.0  # when it was first taken out to be decided
    part: Part = Part.OUT
    attempts: int = 0
    not_before: float = 0.0  # end of the back-off after the last attempt
    woken_by: int = 0
    plugins: tuple[str, ...] = ()
    stamp: int = 0
    kind: Kind = Kind("", "")
    leads: Hashable | None = None  # those alike who wait to hear what becomes of this one


class Queue:
    """Heaps with lazy removal: an entry counts only while its stamp is the pod's newest."""

    def __init__(self, initial: float = 1.0, longest: float = 10.0, patience: float = 60.0) -> None:
        self.initial, self.longest, self.patience = initial, longest, patience
        self.waiting: dict[str, Waiting] = {}
        self._ready: list[tuple[Key, str, int]] = []
        self._backing: list[tuple[float, str, int]] = []
        self._parked = Parked()
        self._stamps = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def admit(self, uid: str, key: Key, at: float) -> None:
        """A pod that is new to the queue, or whose gate has opened."""
        entry = self.waiting.get(uid)
        if entry is None:
            entry = self.waiting[uid] = Waiting(uid, key, at)
        self._leave(entry)
        self._lead_on(entry, at)
        entry.key = key
        self._to_ready(entry)

    def hold(self, uid: str, key: Key, at: float) -> None:
        """A gated pod: known, and not tried."""
        entry = self.waiting.setdefault(uid, Waiting(uid, key, at))
        self._leave(entry)
        self._lead_on(entry, at)
        entry.part = Part.GATED

    def pop(self) -> Waiting | None:
        """Take the next pod out to be decided; counts as an attempt."""
        while self._ready:
            _, uid, stamp = heapq.heappop(self._ready)
            entry = self.waiting.get(uid)
            if entry is not None and entry.stamp == stamp and entry.part is Part.READY:
                entry.part = Part.OUT
                entry.attempts += 1
                return entry
        return None

    def take(self, uid: str, at: float) -> None:
        """Take this pod out, wherever it stands, to be decided together with another; counts as an attempt."""
        entry = self.waiting[uid]
        self._leave(entry)
        self._lead_on(entry, at)
        entry.attempts += 1
        if entry.attempts == 1:
            entry.tried = at

    def park(
        self,
        uid: str,
        woken_by: Change,
        plugins: tuple[str, ...],
        at: float,
        kind: Kind | None = None,
        rest: float = 0.0,
    ) -> None:
        """No node will do for now, nor for others of its kind (None: it is the only one); `rest` lengthens its back-off."""
        entry = self.waiting[uid]
        self._leave(entry)
        entry.kind = kind or Kind(uid, uid)
        entry.woken_by, entry.plugins = int(woken_by), plugins
        if entry.leads == entry.kind.alike:
            entry.leads = None  # they would all be refused alike
        self._lead_on(entry, at)
        entry.not_before = at + max(self.back_off_of(entry.attempts), rest)
        self._stamp(entry, Part.PARKED)
        self._parked.add(entry, plugins, at)

    def back_off(self, uid: str, at: float, until: float = 0.0) -> None:
        """A try failed for no fault of the pod's: again, but not at once, and not before `until`."""
        entry = self.waiting.get(uid)
        if entry is not None:
            self._leave(entry)
            self._lead_on(entry, at)
            entry.not_before = max(at + self.back_off_of(entry.attempts), until)
            self._to_backing(entry)

    def back_off_of(self, attempts: int) -> float:
        return min(self.initial * 2.0 ** min(max(attempts - 1, 0), 32), self.longest)

    def wake(
        self, change: Change, at: float, helps: Helps = lambda uid, plugins: True, pods: Set[str] | None = None
    ) -> list[str]:
        """Something happened that may help those who are parked for want of it, or those of these pods; who stirred."""
        if pods is None:
            woken = self._parked.firsts(int(change), at, helps)
        else:
            some = [self.waiting[uid] for uid in sorted(pods) if uid in self.waiting]
            woken = self._parked.firsts_of([each for each in some if each.part is Part.PARKED], int(change), at, helps)
        for uid in woken:
            self._lead(self.waiting[uid], at)
        return woken

    def wake_all(self, at: float) -> None:
        """Nothing is as it was."""
        for uid in list(self._parked.since):
            self._stir(self.waiting[uid], at)

    def wake_alike(self, alike: Hashable, at: float) -> None:
        """Something happened that concerns this group alone."""
        uid = self._parked.first(alike, at)
        if uid is not None:
            self._lead(self.waiting[uid], at)

    def wake_one(self, uid: str, at: float) -> None:
        """The pod itself was edited; it is no longer like those whom it led."""
        entry = self.waiting.get(uid)
        if entry is not None and entry.part is Part.PARKED:
            self._stir(entry, at)
        elif entry is not None:
            self._lead_on(entry, at)

    def placed(self, uid: str, at: float) -> None:
        """The pod has a node: what helped it may help the next of its kind."""
        entry = self.waiting.get(uid)
        if entry is not None:
            self._lead_on(entry, at)

    def rekey(self, uid: str, key: Key) -> None:
        """The pod's place in the order is another one now."""
        entry = self.waiting.get(uid)
        if entry is None or entry.key == key:
            return
        entry.key = key
        if entry.part is Part.READY:
            self._to_ready(entry)
        elif entry.part is Part.PARKED:
            self._stamp(entry, Part.PARKED)
            self._parked.rekey(entry)

    def tick(self, at: float) -> None:
        """Time has passed: back-offs end, and nobody is parked for ever."""
        while self._backing and self._backing[0][0] <= at:
            _, uid, stamp = heapq.heappop(self._backing)
            entry = self.waiting.get(uid)
            if entry is not None and entry.stamp == stamp and entry.part is Part.BACKING_OFF:
                self._to_ready(entry)
        for uid in list(self._parked.late(at - self.patience)):
            self._stir(self.waiting[uid], at)

    def forget(self, uid: str, at: float) -> Waiting | None:
        """The pod is bound, gone, or no longer ours."""
        entry = self.waiting.get(uid)
        if entry is not None:
            self._leave(entry)
            del self.waiting[uid]
            self._lead_on(entry, at)
        return entry

    def counts(self) -> dict[Part, int]:
        counts = dict.fromkeys(Part, 0)
        for entry in self.waiting.values():
            counts[entry.part] += 1
        return counts

    def has_ready(self) -> bool:
        while self._ready:
            _, uid, stamp = self._ready[0]
            entry = self.waiting.get(uid)
            if entry is not None and entry.stamp == stamp and entry.part is Part.READY:
                return True
            heapq.heappop(self._ready)
        return False

    def parked(self) -> Iterator[Waiting]:
        return (entry for entry in self.waiting.values() if entry.part is Part.PARKED)

    def copy(self) -> Queue:
        twin = Queue(self.initial, self.longest, self.patience)
        twin.waiting = {uid: replace(entry) for uid, entry in self.waiting.items()}
        twin._ready, twin._backing, twin._stamps = self._ready.copy(), self._backing.copy(), self._stamps
        twin._parked = self._parked.copy()
        return twin

    def _stir(self, entry: Waiting, at: float) -> None:
        self._leave(entry)
        if entry.not_before > at:
            self._to_backing(entry)
        else:
            self._to_ready(entry)

    def _to_ready(self, entry: Waiting) -> None:
        self._stamp(entry, Part.READY)
        heapq.heappush(self._ready, (entry.key, entry.uid, entry.stamp))

    def _to_backing(self, entry: Waiting) -> None:
        self._stamp(entry, Part.BACKING_OFF)
        heapq.heappush(self._backing, (entry.not_before, entry.uid, entry.stamp))

    def _stamp(self, entry: Waiting, part: Part) -> None:
        self._stamps += 1
        entry.stamp, entry.part = self._stamps, part

    def _lead(self, entry: Waiting, at: float) -> None:
        self._stir(entry, at)
        entry.leads = entry.kind.alike

    def _lead_on(self, entry: Waiting, at: float) -> None:
        leads, entry.leads = entry.leads, None
        if leads is not None:
            self.wake_alike(leads, at)

    def _leave(self, entry: Waiting) -> None:
        if entry.part is Part.PARKED:
            self._parked.remove(entry)
        entry.part = Part.OUT
