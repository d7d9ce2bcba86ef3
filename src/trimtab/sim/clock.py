"""The virtual clock of the simulator: a heap of callbacks."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Callback = Callable[[], None]


class VirtualClock:
    """Time that advances only by `step`; callbacks due at the same time run in the order in which they were scheduled."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._due: list[tuple[float, int, Callback]] = []
        self._sequence = 0

    def call_at(self, at: float, callback: Callback) -> None:
        """Run it at this time, or now if that has passed."""
        self._sequence += 1
        heapq.heappush(self._due, (max(at, self.now), self._sequence, callback))

    def call_later(self, seconds: float, callback: Callback) -> None:
        self.call_at(self.now + seconds, callback)

    def call_every(self, seconds: float, callback: Callback) -> None:
        """Repeatedly, for the first time after one interval; the times are multiples of it, without rounding errors."""
        begins, count = self.now, 0

        def repeat() -> None:
            nonlocal count
            count += 1
            self.call_at(begins + (count + 1) * seconds, repeat)
            callback()

        self.call_at(begins + seconds, repeat)

    def step(self, limit: float) -> bool:
        """Run the next callback due by `limit`; without one, advance to `limit` and return False."""
        if not self._due or self._due[0][0] > limit:
            self.now = max(self.now, limit)
            return False
        self.now, _, callback = heapq.heappop(self._due)
        callback()
        return True

    def run_until(self, limit: float) -> None:
        while self.step(limit):
            pass
