"""Decides how a decision is timed: as a whole always, split among plugins every tenth time; leaves the sums to metrics."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from trimtab.core.placing.laps import Laps

EVERY = 10


class WholeLaps(Laps):
    """Knows when the decision began; a plugin's mark costs an empty call."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = clock()

    def elapsed(self) -> float:
        """Seconds since the decision began."""
        return self._clock() - self._begun


class SplitLaps(WholeLaps):
    """Also notes every mark; one mark is the time since the one before it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._last = self._begun
        self.marks: list[tuple[str, str, float]] = []

    def mark(self, point: str, plugin: str) -> None:
        """The time since the last mark went to this plugin at this extension point."""
        now = self._clock()
        self.marks.append((point, plugin, now - self._last))
        self._last = now


class Stopwatch:
    """Hands out laps for one decision after the other; the first is split, so that a short run shows plugins, too."""

    def __init__(self, clock: Callable[[], float] = perf_counter, every: int = EVERY) -> None:
        self._clock, self._every = clock, every
        self._decisions = 0

    def laps(self) -> WholeLaps:
        """For the decision that begins now."""
        split = self._decisions % self._every == 0
        self._decisions += 1
        return SplitLaps(self._clock) if split else WholeLaps(self._clock)
