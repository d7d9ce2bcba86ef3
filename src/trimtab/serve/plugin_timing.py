"""Decides how a decision is timed: as a whole always, split among plugins every tenth time; leaves the sums to metrics."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from trimtab.core.framework.timing import PluginTimer

EVERY = 10


class DecisionTimer(PluginTimer):
    """Knows when the decision began; a plugin's mark costs an empty call."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()

    def elapsed(self) -> float:
        """Seconds since the decision began."""
        return self._clock() - self._started


class SplitTimer(DecisionTimer):
    """Also notes every mark; one mark is the time since the one before it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._last = self._started
        self.durations: list[tuple[str, str, float]] = []

    def record(self, point: str, plugin: str) -> None:
        """The time since the last mark went to this plugin at this extension point."""
        now = self._clock()
        self.durations.append((point, plugin, now - self._last))
        self._last = now


class TimerSampler:
    """Hands out laps for one decision after the other; the first is split, so that a short run shows plugins, too."""

    def __init__(self, clock: Callable[[], float] = perf_counter, every: int = EVERY) -> None:
        self._clock, self._every = clock, every
        self._decisions = 0

    def start(self) -> DecisionTimer:
        """For the decision that begins now."""
        split = self._decisions % self._every == 0
        self._decisions += 1
        return SplitTimer(self._clock) if split else DecisionTimer(self._clock)
