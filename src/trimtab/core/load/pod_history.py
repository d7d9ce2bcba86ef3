"""How each pod went, one resource in one float32 matrix: last samples, hourly snapshots, the last hour in sums.

    lines 0..5      the last six samples         column s of every line belongs to the pod in slot s, and one line is
    lines 6..173    a snapshot an hour, a week   one moment for all pods: what peaks together stays together.
    lines 174..191  count, mean and squares of six spans of ten minutes, joined to the last hour's mean and variance

That is 768 bytes a pod, 38.4 MB at 50,000. Who decides on moves reads `samples` and `snapshots`; NaN is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.array_table import CowArrayTable, Floats, Index
from trimtab.core.load.time_buckets import SampleRing, TimeBuckets

SAMPLES, SNAPSHOTS, BUCKETS = 6, 168, 6
FIRST, COUNT, MEAN, SQUARES = (
    SAMPLES,
    SAMPLES + SNAPSHOTS,
    SAMPLES + SNAPSHOTS + BUCKETS,
    SAMPLES + SNAPSHOTS + 2 * BUCKETS,
)
LINES = SQUARES + BUCKETS
SPACING, HOUR, TEN_MINUTES = 12.0, 3600.0, 600.0
MAX_RELEASED = 1024  # slots that wait to be emptied together
CHUNK = 2048  # slots are handed out lowest first: growing by half or double would waste what the matrix is to save

Matrix = NDArray[np.float32]


class PodHistory(CowArrayTable):
    """By line and slot."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {"cells": np.nan}

    def __init__(self, slots: int = 0) -> None:
        self.ring, self.hours, self.buckets = (
            SampleRing(SAMPLES, SPACING),
            TimeBuckets(SNAPSHOTS, HOUR),
            TimeBuckets(BUCKETS, TEN_MINUTES),
        )
        self.cells: Matrix = np.full((LINES, slots), np.nan, dtype=np.float32)
        self.cells[COUNT:] = 0.0
        self._released: list[int] = []

    def reserve(self, slot: int) -> None:
        if slot >= self.size:
            before = self.size
            self.grow((slot // CHUNK + 1) * CHUNK)
            self.cells[COUNT:, before:] = 0.0

    def release(self, slot: int) -> None:
        """Somebody else's from now on. Emptied with others later: the cells of a slot lie far apart."""
        if slot < self.size:
            self._released.append(slot)
            if len(self._released) == MAX_RELEASED:
                self._clear_released()

    def add(self, at: float, slots: Index, values: Floats, corrected: Floats) -> None:
        """One sample of each of these pods, all of about one moment. Sums take what is `corrected` for young pods."""
        self.ensure_writable()
        self._clear_released()
        self._keep(self.ring.index_for(at), 0, slots, values)
        hour = self.hours.index_for(at)
        if (
            hour is not None and abs(at - self.hours.started_at[hour[0]]) < SPACING
        ):  # a snapshot is one moment of its hour
            self._keep(hour, FIRST, slots, values)
        self._add_to_bucket(at, slots, corrected)

    def _keep(self, place: tuple[int, bool] | None, first: int, slots: Index, values: Floats) -> None:
        if place is None:
            return
        cells = self.cells[first + place[0]]
        if place[1]:
            cells[:] = np.nan
            cells[slots] = values
        else:
            empty = np.isnan(cells[slots])
            cells[slots[empty]] = values[empty]

    def _add_to_bucket(self, at: float, slots: Index, values: Floats) -> None:
        place = self.buckets.index_for(at)
        if place is None:
            return
        line, new = place
        counts, means, squares = self.cells[COUNT + line], self.cells[MEAN + line], self.cells[SQUARES + line]
        if new:
            counts[:] = means[:] = squares[:] = 0.0
        count, mean = counts[slots] + 1.0, means[slots]
        step = values - mean
        shifted = mean + step / count
        counts[slots], means[slots] = count, shifted
        squares[slots] += step * (values - shifted)

    def hourly(self) -> tuple[Floats, Floats, Floats]:
        """Count, mean and sum of squares about it over the last hour, by slot; Chan's way of joining parts."""
        self._clear_released()
        lines = np.flatnonzero(self.buckets.within(BUCKETS * TEN_MINUTES))
        counts = self.cells[COUNT + lines].astype(np.float64)
        means = self.cells[MEAN + lines].astype(np.float64)
        count = counts.sum(axis=0)
        mean = np.einsum("ls,ls->s", counts, means) / np.maximum(count, 1.0)
        means -= mean
        squares = self.cells[SQUARES + lines].sum(axis=0, dtype=np.float64) + np.einsum(
            "ls,ls,ls->s", counts, means, means
        )
        return count, mean, squares

    def samples(self, slots: Index) -> tuple[Floats, Matrix]:
        """When (-inf: never), and what these pods used then: the last six samples, newest first."""
        self._clear_released()
        order = np.argsort(-self.ring.times)
        return self.ring.times[order], self.cells[np.ix_(order, slots)]

    def snapshots(self) -> tuple[Floats, Matrix]:
        """When each hour's snapshot was made (-inf: never), and all of them by slot."""
        self._clear_released()
        return self.hours.started_at, self.cells[FIRST:COUNT]

    def reordered(self, cells: Index) -> Self:
        self.reserve(int(cells.max(initial=-1)))
        self._clear_released()
        return super().reordered(cells)

    def copy(self) -> Self:
        twin = super().copy()
        twin.ring, twin.hours, twin.buckets = self.ring.copy(), self.hours.copy(), self.buckets.copy()
        twin._released = self._released.copy()
        return twin

    def _clear_released(self) -> None:
        if self._released:
            self.ensure_writable()
            slots = np.unique(np.array(self._released, dtype=np.intp))
            self.cells[:COUNT, slots] = np.nan
            self.cells[COUNT:, slots] = 0.0
            self._released = []
