"""Which line of a small table a moment belongs to: the newest moments, or numbered spans of time; cells are for others.

Moments may come in any order, so that history read late finds its place between what was read before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.array_table import Bools, Floats


class SampleRing:
    """The newest `lines` moments that are at least `spacing` seconds apart."""

    def __init__(self, lines: int, spacing: float) -> None:
        self.times: Floats = np.full(lines, -np.inf)
        self.spacing = spacing

    def index_for(self, at: float) -> tuple[int, bool] | None:
        """Its line, and whether that is to be emptied first; None for what is older than all that is kept."""
        apart = np.abs(self.times - at)
        near = int(apart.argmin())
        if apart[near] < self.spacing:
            return near, False
        oldest = int(self.times.argmin())
        if self.times[oldest] > at:
            return None
        self.times[oldest] = at
        return oldest, True

    def within(self, seconds: float) -> Bools:
        """Lines of the last `seconds`, counted back from the newest moment."""
        return np.asarray((self.times > self.times.max() - seconds) & np.isfinite(self.times))

    def copy(self) -> SampleRing:
        twin = SampleRing(0, self.spacing)
        twin.times = self.times.copy()
        return twin


class TimeBuckets:
    """The newest `lines` spans of so many seconds, each at the line of its number; `begun` is when its first moment was."""

    def __init__(self, lines: int, seconds: float) -> None:
        self.numbers: NDArray[np.int64] = np.full(lines, -1, dtype=np.int64)
        self.started_at: Floats = np.full(lines, -np.inf)
        self.seconds = seconds

    def index_for(self, at: float) -> tuple[int, bool] | None:
        """Its line, and whether that is to be emptied first; None for what is older than all that is kept."""
        number = int(at // self.seconds)
        line = number % len(self.numbers)
        if self.numbers[line] > number:
            return None
        if self.numbers[line] == number:
            return line, False
        self.numbers[line], self.started_at[line] = number, at
        return line, True

    def within(self, seconds: float) -> Bools:
        """Lines of the last `seconds`, the newest span included, however much of it has passed."""
        return np.asarray((self.numbers > self.numbers.max() - seconds / self.seconds) & (self.numbers >= 0))

    def copy(self) -> TimeBuckets:
        twin = TimeBuckets(0, self.seconds)
        twin.numbers, twin.started_at = self.numbers.copy(), self.started_at.copy()
        return twin
