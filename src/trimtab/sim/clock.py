"""A clock that stands still until told to go on; says what is due when, and leaves what happens to whoever asked."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Act = Callable[[], None]


class Clock:
    """A heap of (time, order, act): what is due at the same time happens in the order in which it was asked for."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._due: list[tuple[float, int, Act]] = []
        self._asked = 0

    def after(self, seconds: float, act: Act) -> None:
        self._asked += 1
        heapq.heappush(self._due, (self.now + seconds, self._asked, act))

    def every(self, seconds: float, act: Act) -> None:
        """Again and again; the first time after one such span."""

        def again() -> None:
            act()
            self.after(seconds, again)

        self.after(seconds, again)

    def step(self, limit: float) -> bool:
        """Do the next thing that is due by `limit`; False when there is none, and then it is `limit`."""
        if not self._due or self._due[0][0] > limit:
            self.now = max(self.now, limit)
            return False
        self.now, _, act = heapq.heappop(self._due)
        act()
        return True
