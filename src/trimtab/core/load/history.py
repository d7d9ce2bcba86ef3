"""History of measured usage: an hour of samples and a day of five-minute means per node, the last hour per pod.

Samples may arrive in any order, so that history read after the first live samples is sorted in between them.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.model.duration import HOUR
from trimtab.core.tables import ArrayTable, Bools, Floats, Index, column

Matrix = NDArray[np.float32]

SAMPLES, SPACING = 256, 12.0  # about an hour at the usual interval of 15 seconds
FIVE_MINUTES, DAY_BUCKETS = 300.0, 288
TEN_MINUTES, HOUR_BUCKETS = 600.0, 6
COUNT, MEAN, SQUARES = range(3)


class SampleRing:
    """Timestamps of the newest `size` samples that are at least `spacing` seconds apart; each keeps its line."""

    def __init__(self, size: int, spacing: float) -> None:
        self.times: Floats = np.full(size, -np.inf)
        self.spacing = spacing

    def index_for(self, at: float) -> tuple[int, bool] | None:
        """The line for this timestamp, and whether it must be cleared first; None if older than everything kept."""
        apart = np.abs(self.times - at)
        nearest = int(apart.argmin())
        if apart[nearest] < self.spacing:
            return nearest, False
        oldest = int(self.times.argmin())
        if self.times[oldest] > at:
            return None
        self.times[oldest] = at
        return oldest, True

    def within(self, seconds: float) -> Bools:
        """Lines of the last `seconds`, counted back from the newest timestamp."""
        return np.asarray((self.times > self.times.max() - seconds) & np.isfinite(self.times))

    def copy(self) -> SampleRing:
        copy = SampleRing(0, self.spacing)
        copy.times = self.times.copy()
        return copy


class TimeBuckets:
    """The newest `size` buckets of so many seconds; a bucket's line is its number modulo `size`."""

    def __init__(self, size: int, seconds: float) -> None:
        self.numbers: NDArray[np.int64] = np.full(size, -1, dtype=np.int64)
        self.seconds = seconds

    def index_for(self, at: float) -> tuple[int, bool] | None:
        """The line of this timestamp's bucket, and whether it must be cleared first; None if no longer kept."""
        number = int(at // self.seconds)
        line = number % len(self.numbers)
        if self.numbers[line] > number:
            return None
        if self.numbers[line] == number:
            return line, False
        self.numbers = self.numbers.copy()  # whoever holds the old ones keeps them
        self.numbers[line] = number
        return line, True

    def within(self, seconds: float) -> Bools:
        """Lines of the last `seconds`; the newest bucket counts as a whole."""
        return np.asarray((self.numbers > self.numbers.max() - seconds / self.seconds) & (self.numbers >= 0))

    def copy(self) -> TimeBuckets:
        copy = TimeBuckets(0, self.seconds)
        copy.numbers = self.numbers
        return copy


class NodeHistory(ArrayTable):
    """One metric by line and row. Statistics are computed on first use and cached until the next sample."""

    samples: Matrix = column(np.nan, np.float32, (SAMPLES,))
    bucket_means: Matrix = column(np.nan, np.float32, (DAY_BUCKETS,))
    bucket_counts: NDArray[np.uint16] = column(0, np.uint16, (DAY_BUCKETS,))

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.ring, self.buckets = SampleRing(SAMPLES, SPACING), TimeBuckets(DAY_BUCKETS, FIVE_MINUTES)
        self.clear_cache()

    def clear_cache(self) -> None:
        self._cache: dict[tuple[str, float], Floats] = {}
        self._sorted: dict[float, tuple[Matrix, Index]] = {}

    def add(self, at: float, rows: Index, values: Floats) -> None:
        """Add one sample for each of these rows, all taken at about the same time."""
        self.ensure_writable()
        self.clear_cache()
        place = self.ring.index_for(at)
        if place is not None:
            line, is_new = place
            if is_new:
                self.samples[line] = np.nan
            empty = np.isnan(self.samples[line, rows])
            self.samples[line, rows[empty]] = values[empty]
        self._add_to_bucket(at, rows, values)

    def _add_to_bucket(self, at: float, rows: Index, values: Floats) -> None:
        place = self.buckets.index_for(at)
        if place is None:
            return
        line, is_new = place
        if is_new:
            self.bucket_means[line], self.bucket_counts[line] = np.nan, 0
        counts = self.bucket_counts[line, rows] + np.uint16(1)
        before = self.bucket_means[line, rows]
        means = np.where(counts > 1, before + (values - before) / np.maximum(counts, 1), values)
        self.bucket_means[line, rows], self.bucket_counts[line, rows] = means, counts

    def mean(self, seconds: float) -> Floats:
        """NaN without samples."""
        return self._mean_and_deviation(seconds)[0]

    def deviation(self, seconds: float) -> Floats:
        """Standard deviation of the samples; NaN with fewer than two."""
        return self._mean_and_deviation(seconds)[1]

    def percentile(self, percent: float, seconds: float) -> Floats:
        """Interpolated between the two nearest samples, as PromQL's quantile_over_time."""
        key = (f"p{percent}", seconds)
        if key not in self._cache:
            self._cache[key] = self._compute_percentile(percent, seconds)
        return self._cache[key]

    def peak(self, seconds: float) -> Floats:
        """The highest five-minute mean."""
        key = ("peak", seconds)
        if key not in self._cache:
            lines = self.bucket_means[self.buckets.within(seconds)]
            highest = np.fmax.reduce(lines, axis=0) if len(lines) else np.full(self.size, np.nan)
            self._cache[key] = highest.astype(np.float64)
        return self._cache[key]

    def grow(self, size: int) -> None:
        super().grow(size)
        self.clear_cache()

    def clear(self, cell: int) -> None:
        super().clear(cell)
        self.clear_cache()

    def copy(self) -> Self:
        copy = self.share()
        copy.ring, copy.buckets = self.ring.copy(), self.buckets.copy()
        copy.clear_cache()
        return copy

    def _mean_and_deviation(self, seconds: float) -> tuple[Floats, Floats]:
        if ("mean", seconds) not in self._cache:
            lines = self.samples[self.ring.within(seconds)].astype(np.float64)
            present = ~np.isnan(lines)
            counts = present.sum(axis=0)
            mean = np.where(counts > 0, lines.sum(axis=0, where=present) / np.maximum(counts, 1), np.nan)
            squares = np.square(lines - mean).sum(axis=0, where=present)
            self._cache["mean", seconds] = mean
            self._cache["deviation", seconds] = np.where(
                counts > 1, np.sqrt(squares / np.maximum(counts - 1, 1)), np.nan
            )
        return self._cache["mean", seconds], self._cache["deviation", seconds]

    def _compute_percentile(self, percent: float, seconds: float) -> Floats:
        if seconds not in self._sorted:
            lines = np.sort(self.samples[self.ring.within(seconds)].T, axis=1)  # NaN sorts to the end
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


class PodHistory(ArrayTable):
    """One resource by slot: count, mean and sum of squares of the samples in six ten-minute buckets, 72 bytes a pod."""

    sums: Matrix = column(0.0, np.float32, (3, HOUR_BUCKETS))

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.buckets = TimeBuckets(HOUR_BUCKETS, TEN_MINUTES)

    def add(self, at: float, slots: Index, values: Floats) -> None:
        """Add one sample for each of these pods, all taken at about the same time (Welford's update)."""
        place = self.buckets.index_for(at)
        if place is None:
            return
        self.ensure_writable()
        line, is_new = place
        counts, means, squares = self.sums[:, line]
        if is_new:
            self.sums[:, line] = 0.0
        count, mean = counts[slots] + 1.0, means[slots]
        step = values - mean
        shifted = mean + step / count
        counts[slots], means[slots] = count, shifted
        squares[slots] += step * (values - shifted)

    def hourly(self) -> tuple[Floats, Floats, Floats]:
        """Count, mean and sum of squared deviations over the last hour by slot; buckets are merged by Chan's formula."""
        lines = np.flatnonzero(self.buckets.within(HOUR))
        counts = self.sums[COUNT, lines].astype(np.float64)
        means = self.sums[MEAN, lines].astype(np.float64)
        count = counts.sum(axis=0)
        mean = np.einsum("ls,ls->s", counts, means) / np.maximum(count, 1.0)
        means -= mean
        squares = self.sums[SQUARES, lines].sum(axis=0, dtype=np.float64)
        return count, mean, squares + np.einsum("ls,ls,ls->s", counts, means, means)

    def copy(self) -> Self:
        copy = self.share()
        copy.buckets = self.buckets.copy()
        return copy
