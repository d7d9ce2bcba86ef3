"""Decides how long to wait after the n-th failure in a row; leaves what a failure is to its user."""

from __future__ import annotations

from random import Random

INITIAL_DELAY = 0.8
MAX_DELAY = 30.0
RESET_AFTER = 120.0


class Backoff:
    """Doubling waits with jitter, so that many clients do not come back together; forgotten after a calm while."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._wait = INITIAL_DELAY
        self._last = float("-inf")

    def next(self, now: float) -> float:
        """The wait after a failure at `now`."""
        if now - self._last > RESET_AFTER:
            self._wait = INITIAL_DELAY
        wait = self._wait * self._random.uniform(0.75, 1.0)
        self._wait = min(MAX_DELAY, 2 * self._wait)
        self._last = now + wait
        return wait
