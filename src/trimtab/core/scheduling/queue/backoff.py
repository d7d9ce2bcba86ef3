"""The back-off queue: pods that wait until a failed attempt is some time ago, unless nothing else is to be done.

After an attempt that found no node a pod may be popped before its time when the active queue is empty (kube-scheduler's
SchedulerPopFromBackoffQ): first those whose back-off ends first, in whole seconds, and among these in the queue's order.
Not so after an error, nor where a plugin asked for a back-off: these sit it out. No pod is attempted twice at one instant, so
pods that wake each other cannot keep a turn from ending.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from math import floor

from trimtab.core.scheduling.queue.unschedulable import Key

Counts = Callable[[str, int], bool]  # whether the pod with this UID still backs off, with this stamp
Place = tuple[int, Key, str, int]
MAX_COMPLETED = 200  # entries that are looked at in one call; the next of them half a second or a turn later


class BackoffQueue:
    """Heaps with lazy removal, by the end of the back-off and by the order in which pods may be popped before it."""

    def __init__(self) -> None:
        self._by_end: list[tuple[float, str, int]] = []
        self._poppable: list[Place] = []
        self._just_attempted: list[Place] = []  # poppable once time has passed
        self._now = 0.0

    def add(self, uid: str, stamp: int, until: float) -> None:
        """A pod that backs off until then in any case."""
        heapq.heappush(self._by_end, (until, uid, stamp))

    def add_poppable(self, uid: str, stamp: int, key: Key, until: float, attempted_at: float, now: float) -> None:
        """A pod that may be popped earlier."""
        self.add(uid, stamp, until)
        place = (floor(until), key, uid, stamp)
        if attempted_at < now:
            heapq.heappush(self._poppable, place)
        else:
            self._just_attempted.append(place)

    def completed(self, now: float, counts: Counts) -> Iterator[str]:
        """Remove pods whose back-off is over, some of them if there are very many; call this whenever time has passed."""
        if now > self._now:
            self._now = now
            for place in self._just_attempted:
                heapq.heappush(self._poppable, place)
            self._just_attempted = []
        for _ in range(MAX_COMPLETED):
            if not self._by_end or self._by_end[0][0] > now:
                break
            _, uid, stamp = heapq.heappop(self._by_end)
            if counts(uid, stamp):
                yield uid
        self.first(counts)  # forgets what was left of those whose back-off is over

    def first(self, counts: Counts) -> str | None:
        """The pod to be popped next, before its time; None if there is none."""
        while self._poppable:
            _, _, uid, stamp = self._poppable[0]
            if counts(uid, stamp):
                return uid
            heapq.heappop(self._poppable)
        return None

    def copy(self) -> BackoffQueue:
        copied = BackoffQueue()
        copied._by_end, copied._poppable = self._by_end.copy(), self._poppable.copy()
        copied._just_attempted, copied._now = self._just_attempted.copy(), self._now
        return copied
