"""Snapshots of pods' usage, all taken at the same times: what peaks together is seen to peak together.

| lines | hold |
|---|---|
| recent | means of the last six five-minute buckets |
| hourly | the first of these means in each hour, over a week |

They are kept only for a rescheduler. A pod that was moved, or replaced for another reason, is no stranger to it: the
snapshots of its predecessor, and of its siblings, stand in for those that it does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.estimates import WorkloadKey
from trimtab.core.load.history import FIVE_MINUTES, Matrix, TimeBuckets
from trimtab.core.model.duration import HOUR
from trimtab.core.model.steps import Steps, finish
from trimtab.core.tables import ArrayTable, Bools, Floats, Index, SharedMatrix, column

Numbers = NDArray[np.int64]

RECENT, HOURLY = 6, 168
BUCKETS_PER_HOUR = int(HOUR / FIVE_MINUTES)
MAX_DEPARTED = 20_000
CELLS_AT_ONCE, DEPARTED_AT_ONCE = 1 << 19, 500  # in one step


class Workloads(NamedTuple):
    """The workload of each pod, by slot, -1 for a pod without an owner; and the workloads by key."""

    by_slot: Index
    numbers: Mapping[WorkloadKey, int]


class SnapshotTimes(NamedTuple):
    """The numbers of five-minute buckets and of hours at which snapshots were taken, newest first."""

    recent: Numbers
    hourly: Numbers

    def __len__(self) -> int:
        return len(self.recent) + len(self.hourly)


def common_times(of_resources: Iterable[PodSnapshots]) -> SnapshotTimes:
    """All times at which any of these resources was measured, as far as they are kept."""
    buckets, hours = zip(*((each.buckets, each.hours) for each in of_resources), strict=True)
    return SnapshotTimes(_newest_first(buckets, RECENT), _newest_first(hours, HOURLY))


def _newest_first(buckets: Sequence[TimeBuckets], count: int) -> Numbers:
    """The newest bucket need not be full."""
    numbers = np.unique(np.concatenate([each.numbers for each in buckets]))[::-1]
    return np.asarray(numbers[(numbers >= 0) & (numbers > numbers[0] - count)])


class Departed(NamedTuple):
    """What a pod that left had used, with the numbers of buckets and hours by line, as they were then."""

    recent: Matrix
    hourly: Matrix
    buckets: Numbers
    hours: Numbers

    def at(self, times: SnapshotTimes) -> Matrix:
        """NaN where it was not measured."""
        return np.concatenate(
            [_lines(self.buckets, times.recent, self.recent), _lines(self.hours, times.hourly, self.hourly)]
        )


class PodSnapshots(ArrayTable):
    """One resource by line and slot; NaN where the pod was not measured."""

    recent: Matrix = column(np.nan, np.float32, (RECENT,))
    counts: NDArray[np.uint16] = column(0, np.uint16, (RECENT,))

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.hourly = SharedMatrix(HOURLY, slots)  # many megabytes, so a plan must not make others copy all of it
        self.buckets, self.hours = TimeBuckets(RECENT, FIVE_MINUTES), TimeBuckets(HOURLY, HOUR)
        self.departed: dict[WorkloadKey, Departed] = {}  # the last pod that left, by workload

    def remove_pod(self, slot: int, key: WorkloadKey | None) -> None:
        """The key is that of its workload."""
        if key is not None and not np.isnan(self.recent[:, slot]).all():
            self.departed.pop(key, None)
            recent, hourly = self.recent[:, slot].copy(), self.hourly.column(slot)
            self.departed[key] = Departed(recent, hourly, self.buckets.numbers, self.hours.numbers)
            if len(self.departed) > MAX_DEPARTED:
                del self.departed[next(iter(self.departed))]
        self.clear(slot)
        self.hourly.write_column(slot, np.full(HOURLY, np.nan, dtype=np.float32))

    def grow(self, size: int) -> None:
        super().grow(size)
        self.hourly.grow(size)

    def copy_pod(self, source: int, target: int) -> None:
        """A pod that will use what another one has used."""
        self.ensure_writable()
        for name in self.COLUMNS:
            cells = getattr(self, name)
            cells[..., target] = cells[..., source]
        self.hourly.write_column(target, self.hourly.column(source))

    def add(self, at: float, slots: Index, values: Floats) -> None:
        """Add one sample for each of these pods, all taken at about the same time."""
        place = self.buckets.index_for(at)
        hour = self.hours.index_for(at)
        if place is not None:
            self._add_recent(place, slots, values)
        if hour is not None:
            line, is_new = hour
            if is_new:
                self.hourly.clear_line(line)
            if int(at // FIVE_MINUTES) % BUCKETS_PER_HOUR == 0:
                self.hourly.write(line, slots, values if place is None else self.recent[place[0], slots])

    def _add_recent(self, place: tuple[int, bool], slots: Index, values: Floats) -> None:
        line, is_new = place
        self.ensure_writable()
        if is_new:
            self.recent[line], self.counts[line] = np.nan, 0
        counts = self.counts[line, slots] + np.uint16(1)
        before = self.recent[line, slots]
        self.recent[line, slots] = np.where(counts > 1, before + (values - before) / np.maximum(counts, 1), values)
        self.counts[line, slots] = counts

    def filled(self, times: SnapshotTimes, slots: Index, instead: Floats, workloads: Workloads) -> Matrix:
        """By slot and snapshot, recent ones first, without gaps: `fill` at once."""
        return np.ascontiguousarray(finish(self.fill(times, slots, instead, workloads)).T)

    def fill(self, times: SnapshotTimes, slots: Index, instead: Floats, workloads: Workloads) -> Steps[Matrix]:
        """By snapshot and slot, recent ones first; gaps are filled, some lines in each step.

        With the mean at that time of siblings among these slots and of the pod that left last; else with the pod's own
        mean; else with what is given `instead` by slot.
        """
        filled: Matrix = np.empty((len(times), len(slots)), dtype=np.float32)
        siblings: Siblings | None = None
        sums, counts = np.zeros(len(slots), dtype=np.float32), np.zeros(len(slots), dtype=np.int32)
        gaps: list[slice] = []  # parts with some that no sibling fills
        for part in parts_of(len(times), len(slots)):
            lines = filled[part]
            self._copy_lines(times, part, slots, lines)
            missing = np.isnan(lines)
            if missing.any():
                if siblings is None:
                    siblings = yield from self._siblings(times, slots, workloads)
                if siblings.fill(lines, missing, part):
                    missing = np.isnan(lines)
            if missing.any():
                gaps.append(part)
                lines = np.where(missing, np.float32(0.0), lines)
            sums += lines.sum(axis=0)
            counts += len(lines) - missing.sum(axis=0, dtype=np.int32)
            yield
        own = np.where(counts > 0, sums / np.maximum(counts, 1), instead).astype(np.float32)
        for part in gaps:
            np.copyto(filled[part], own, where=np.isnan(filled[part]))
            yield
        return filled

    def _copy_lines(self, times: SnapshotTimes, part: slice, slots: Index, lines: Matrix) -> None:
        """A part of the lines of these times; `take` is several times as fast as to index lines and slots at once."""
        recent = len(times.recent)
        for number, line in zip(range(part.start, part.stop), lines, strict=True):
            is_recent = number < recent
            kept = self.buckets.numbers if is_recent else self.hours.numbers
            wanted = times.recent[number] if is_recent else times.hourly[number - recent]
            at = int(wanted % len(kept))
            if kept[at] == wanted:
                source = self.recent[at] if is_recent else self.hourly.line(at)
                source.take(slots, out=line, mode="clip")
            else:
                line[:] = np.nan

    def _siblings(self, times: SnapshotTimes, slots: Index, workloads: Workloads) -> Steps[Siblings]:
        workload = workloads.by_slot[slots]
        here, left = set(workload.tolist()), dict[int, Matrix]()
        yield
        for key, departed in self.departed.items():
            number = workloads.numbers.get(key)
            if number is not None and number in here:
                left[number] = departed.at(times)
                if not len(left) % DEPARTED_AT_ONCE:
                    yield
        yield
        return Siblings(workload, left)

    def has_any(self, times: SnapshotTimes, slot: int) -> bool:
        """Whether the pod itself was measured at one of these times."""
        lines: Matrix = np.empty((len(times), 1), dtype=np.float32)
        self._copy_lines(times, slice(0, len(times)), np.array([slot]), lines)
        return not np.isnan(lines).all()

    def means(self, slots: Index) -> Floats:
        """Of all that is kept of these pods; NaN for those that were never measured."""
        hourly = [self.hourly.line(number)[None, slots] for number in range(HOURLY)]
        return _means(np.concatenate([self.recent[:, slots], *hourly]).T).astype(np.float64)

    def departed_mean(self, key: WorkloadKey | None) -> float:
        """The same of the last pod of this workload that left."""
        found = None if key is None else self.departed.get(key)
        if found is None:
            return np.nan
        kept = SnapshotTimes(*(each.numbers[each.numbers >= 0] for each in (self.buckets, self.hours)))
        return float(_means(found.at(kept)[None, :])[0])

    def copy(self) -> Self:
        copy = self.share()
        copy.hourly = self.hourly.copy()
        copy.buckets, copy.hours = self.buckets.copy(), self.hours.copy()
        copy.departed = self.departed.copy()
        return copy

    def reordered(self, cells: Index) -> Self:
        copy = super().reordered(cells)
        copy.hourly = self.hourly.reordered(cells)
        return copy


class Siblings:
    """The workload of each of some pods, -1 for none, and the snapshots of the last pod that left some of the workloads."""

    def __init__(self, workload: Index, left: Mapping[int, Matrix]) -> None:
        alone = workload < 0
        workload = np.where(alone, workload.max(initial=0) + np.cumsum(alone), workload)
        self._order = np.argsort(workload, kind="stable")
        ordered = workload[self._order]
        self._starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        self._sizes = np.diff(self._starts, append=len(workload))
        self._number = np.repeat(np.arange(len(self._sizes)), self._sizes)  # of its workload, in this order
        self._is_next = self._number[1:] == self._number[:-1]  # of the same workload
        numbers = np.array(list(left), dtype=np.intp)
        self._left_workloads = np.searchsorted(ordered[self._starts], numbers)
        self._left: Matrix = np.array(list(left.values()), dtype=np.float32)  # by workload that was left, and snapshot

    def fill(self, lines: Matrix, missing: Bools, part: slice) -> bool:
        """Fill gaps with the mean of the pod's workload in that line, where any pod of it was measured; False if none was.

        The lines, by pod, are a part of all. Workloads of which all pods or none were measured cost next to nothing.
        """
        helped = self._helped(missing)
        if not helped.any():
            return False
        pods, sizes = self._order[helped[self._number]], self._sizes[helped]
        gaps, known = missing.take(pods, axis=1), lines.take(pods, axis=1)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        sums = np.add.reduceat(np.where(gaps, np.float32(0.0), known), starts, axis=1)
        counts = np.add.reduceat(~gaps, starts, axis=1, dtype=np.float32)
        if len(self._left_workloads):
            left, columns = self._left[:, part].T, np.searchsorted(np.flatnonzero(helped), self._left_workloads)
            sums[:, columns] += np.nan_to_num(left)
            counts[:, columns] += ~np.isnan(left)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums / counts
        for line, gap, mean in zip(lines, gaps, np.repeat(means, sizes, axis=1), strict=True):
            line[pods[gap]] = mean[gap]
        return True

    def _helped(self, missing: Bools) -> Bools:
        """By workload: whether some of its pods were measured and some were not, or a pod left it."""
        ordered = missing.take(self._order, axis=1)
        differs = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0) & self._is_next
        helped = np.zeros(len(self._sizes), dtype=np.bool_)
        helped[self._number[1:][differs]] = True
        helped[self._left_workloads] = True
        return helped


def parts_of(lines: int, cells: int) -> Iterator[slice]:
    """Of so many lines of so many cells each: those that one step may take."""
    at_once = max(CELLS_AT_ONCE // max(cells, 1), 1)
    return (slice(at, min(at + at_once, lines)) for at in range(0, lines, at_once))


def _lines(kept: Numbers, wanted: Numbers, lines: Matrix) -> Matrix:
    """Those of the wanted numbers; NaN where another one is kept in their place."""
    at = wanted % len(kept)
    found = lines[at]
    found[kept[at] != wanted] = np.nan
    return found


def _means(lines: Matrix) -> Matrix:
    known = ~np.isnan(lines)
    counts = known.sum(axis=1)
    sums = np.where(known, lines, 0.0).sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)
