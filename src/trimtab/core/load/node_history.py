"""How one metric of the nodes went: percentiles, means and maxima of what was sampled; whether to believe it is for others.

A ring holds at most one sample in twelve seconds, an hour of them at the usual fifteen; means of five minutes are kept for
a day. Nothing is computed before it is asked for, and then once until the next sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.array_table import CowArrayTable, Floats, Index
from trimtab.core.load.time_buckets import SampleRing, TimeBuckets

SAMPLES, SPACING = 256, 12.0
BUCKET_SECONDS, BUCKETS = 300.0, 288

Sorted = tuple[NDArray[np.float32], NDArray[np.intp]]


class NodeHistory(CowArrayTable):
    """By line and row."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {"cells": np.nan, "means": np.nan, "counts": 0}

    def __init__(self, rows: int) -> None:
        self.ring, self.buckets = SampleRing(SAMPLES, SPACING), TimeBuckets(BUCKETS, BUCKET_SECONDS)
        self.cells: NDArray[np.float32] = np.full((SAMPLES, rows), np.nan, dtype=np.float32)
        self.means: NDArray[np.float32] = np.full((BUCKETS, rows), np.nan, dtype=np.float32)
        self.counts: NDArray[np.uint16] = np.zeros((BUCKETS, rows), dtype=np.uint16)
        self._cache: dict[tuple[str, float], Floats] = {}
        self._sorted: dict[float, Sorted] = {}

    def add(self, at: float, rows: Index, values: Floats) -> None:
        """One sample of each of these rows, all of about one moment."""
        self.ensure_writable()
        self.clear_cache()
        place = self.ring.index_for(at)
        if place is not None:
            line, new = place
            if new:
                self.cells[line] = np.nan
            empty = np.isnan(self.cells[line, rows])
            self.cells[line, rows[empty]] = values[empty]
        self._add_to_mean(at, rows, values)

    def _add_to_mean(self, at: float, rows: Index, values: Floats) -> None:
        place = self.buckets.index_for(at)
        if place is None:
            return
        line, new = place
        if new:
            self.means[line], self.counts[line] = np.nan, 0
        counts = self.counts[line, rows] + np.uint16(1)
        before = self.means[line, rows]
        self.means[line, rows] = np.where(counts > 1, before + (values - before) / np.maximum(counts, 1), values)
        self.counts[line, rows] = counts

    def mean(self, seconds: float) -> Floats:
        """NaN where there is no sample."""
        return self._statistics(seconds)[0]

    def deviation(self, seconds: float) -> Floats:
        """Of the samples; NaN with fewer than two."""
        return self._statistics(seconds)[1]

    def percentile(self, percent: float, seconds: float) -> Floats:
        """Between the two nearest samples by rank, as PromQL's quantile_over_time."""
        key = (f"p{percent}", seconds)
        if key not in self._cache:
            self._cache[key] = self._compute_percentile(percent, seconds)
        return self._cache[key]

    def peak(self, seconds: float) -> Floats:
        """The highest mean of five minutes."""
        key = ("peak", seconds)
        if key not in self._cache:
            lines = self.means[self.buckets.within(seconds)]
            highest = np.fmax.reduce(lines, axis=0) if len(lines) else np.full(self.size, np.nan)
            self._cache[key] = highest.astype(np.float64)
        return self._cache[key]

    def clear_cache(self) -> None:
        self._cache, self._sorted = {}, {}

    def grow(self, size: int) -> None:
        super().grow(size)
        self.clear_cache()

    def clear(self, cell: int) -> None:
        super().clear(cell)
        self.clear_cache()

    def copy(self) -> Self:
        twin = super().copy()
        twin.ring, twin.buckets = self.ring.copy(), self.buckets.copy()
        twin.clear_cache()
        return twin

    def _statistics(self, seconds: float) -> tuple[Floats, Floats]:
        if ("mean", seconds) not in self._cache:
            lines = self.cells[self.ring.within(seconds)].astype(np.float64)
            there = ~np.isnan(lines)
            counts = there.sum(axis=0)
            mean = np.where(counts > 0, lines.sum(axis=0, where=there) / np.maximum(counts, 1), np.nan)
            squares = np.square(lines - mean).sum(axis=0, where=there)
            self._cache["mean", seconds] = mean
            self._cache["deviation", seconds] = np.where(
                counts > 1, np.sqrt(squares / np.maximum(counts - 1, 1)), np.nan
            )
        return self._cache["mean", seconds], self._cache["deviation", seconds]

    def _compute_percentile(self, percent: float, seconds: float) -> Floats:
        if seconds not in self._sorted:
            lines = np.sort(self.cells[self.ring.within(seconds)].T, axis=1)  # NaN goes to the end
            self._sorted[seconds] = lines, (~np.isnan(lines)).sum(axis=1)
        lines, counts = self._sorted[seconds]
        if not lines.shape[1]:
            return np.full(len(lines), np.nan)
        rank = np.maximum(counts - 1, 0) * (percent / 100)
        below = np.floor(rank).astype(np.intp)
        above = np.minimum(below + 1, np.maximum(counts - 1, 0))
        rows = np.arange(len(lines))
        low, high = lines[rows, below].astype(np.float64), lines[rows, above]
        return np.asarray(low + (high - low) * (rank - below))
