"""A clock that stands still until told to go on; says what is due when, and leaves what happens to whoever asked."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Callback = Callable[[], None]


class VirtualClock:
    """A heap of (time, order, act): what is due at the same time happens in the order in which it was asked for."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._due: list[tuple[float, int, Callback]] = []
        self._sequence = 0

    def call_later(self, seconds: float, callback: Callback) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (self.now + seconds, self._sequence, callback))

    def call_every(self, seconds: float, callback: Callback) -> None:
        """Again and again; the first time after one such span."""

        def again() -> None:
            callback()
            self.call_later(seconds, again)

        self.call_later(seconds, again)

    def step(self, limit: float) -> bool:
        """Do the next thing that is due by `limit`; False when there is none, and then it is `limit`."""
        if not self._due or self._due[0][0] > limit:
            self.now = max(self.now, limit)
            return False
        self.now, _, callback = heapq.heappop(self._due)
        callback()
        return True
