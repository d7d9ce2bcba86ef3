"""Decides how long to wait after the n-th failure in a row; leaves what a failure is to its user."""

from __future__ import annotations

from random import Random

FIRST = 0.8
LONGEST = 30.0
CALM = 120.0


class Backoff:
    """Doubling waits with jitter, so that many clients do not come back together; forgotten after a calm while."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._wait = FIRST
        self._last = float("-inf")

    def next(self, now: float) -> float:
        """The wait after a failure at `now`."""
        if now - self._last > CALM:
            self._wait = FIRST
        wait = self._wait * self._random.uniform(0.75, 1.0)
        self._wait = min(LONGEST, 2 * self._wait)
        self._last = now + wait
        return wait
