"""Snapshots of pods' usage, all taken at the same times: what peaks together is seen to peak together.

| lines | hold |
|---|---|
| recent | means of the last six five-minute buckets |
| hourly | the first of these means in each hour, over a week |

They are kept only for a rescheduler. A pod that was moved, or replaced for another reason, is no stranger to it: the
snapshots of its predecessor, and of its siblings, stand in for those that it does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.estimates import WorkloadKey, workload_key
from trimtab.core.load.history import FIVE_MINUTES, Matrix, TimeBuckets
from trimtab.core.model.duration import HOUR
from trimtab.core.model.pod import Pod
from trimtab.core.tables import ArrayTable, Floats, Index, column

Numbers = NDArray[np.int64]

RECENT, HOURLY = 6, 168
BUCKETS_PER_HOUR = int(HOUR / FIVE_MINUTES)
MAX_DEPARTED = 20_000


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


class PodSnapshots(ArrayTable):
    """One resource by line and slot; NaN where the pod was not measured."""

    recent: Matrix = column(np.nan, np.float32, (RECENT,))
    counts: NDArray[np.uint16] = column(0, np.uint16, (RECENT,))
    hourly: Matrix = column(np.nan, np.float32, (HOURLY,))

    def __init__(self, slots: int, keys: Mapping[int, WorkloadKey] | None = None) -> None:
        super().__init__(slots)
        self.buckets, self.hours = TimeBuckets(RECENT, FIVE_MINUTES), TimeBuckets(HOURLY, HOUR)
        self.keys: dict[int, WorkloadKey] = dict(keys or {})  # by slot
        self.departed: dict[WorkloadKey, tuple[Matrix, Matrix]] = {}  # of the last pod that left, by workload

    def add_pod(self, slot: int, pod: Pod) -> None:
        key = workload_key(pod)
        if key is not None:
            self.keys[slot] = key

    def remove_pod(self, slot: int) -> None:
        key = self.keys.pop(slot, None)
        if key is not None and not np.isnan(self.recent[:, slot]).all():
            self.departed.pop(key, None)
            self.departed[key] = self.recent[:, slot].copy(), self.hourly[:, slot].copy()
            if len(self.departed) > MAX_DEPARTED:
                del self.departed[next(iter(self.departed))]
        self.clear(slot)

    def copy_pod(self, source: int, target: int) -> None:
        """A pod that will use what another one has used."""
        self.ensure_writable()
        for name in self.COLUMNS:
            cells = getattr(self, name)
            cells[..., target] = cells[..., source]

    def add(self, at: float, slots: Index, values: Floats) -> None:
        """Add one sample for each of these pods, all taken at about the same time."""
        place = self.buckets.index_for(at)
        hour = self.hours.index_for(at)
        if place is not None:
            self._add_recent(place, slots, values)
        if hour is not None:
            line, is_new = hour
            self.ensure_writable()
            if is_new:
                self._clear_hour(line)
            if int(at // FIVE_MINUTES) % BUCKETS_PER_HOUR == 0:
                self.hourly[line, slots] = values if place is None else self.recent[place[0], slots]

    def _add_recent(self, place: tuple[int, bool], slots: Index, values: Floats) -> None:
        line, is_new = place
        self.ensure_writable()
        if is_new:
            self.recent[line], self.counts[line] = np.nan, 0
            for recent, _ in self.departed.values():
                recent[line] = np.nan
        counts = self.counts[line, slots] + np.uint16(1)
        before = self.recent[line, slots]
        self.recent[line, slots] = np.where(counts > 1, before + (values - before) / np.maximum(counts, 1), values)
        self.counts[line, slots] = counts

    def _clear_hour(self, line: int) -> None:
        self.hourly[line] = np.nan
        for _, hourly in self.departed.values():
            hourly[line] = np.nan

    def filled(self, times: SnapshotTimes, slots: Index, instead: Floats) -> Matrix:
        """By slot and snapshot, recent ones first; gaps are filled.

        With the mean at that time of siblings among these slots and of the pod that left last; else with the pod's own
        mean; else with what is given `instead` by slot.
        """
        lines = np.take(self._at(times, self.recent, self.hourly), slots, axis=1).T
        gaps = np.isnan(lines)
        if gaps.any():
            siblings = self._of_siblings(times, slots, lines)
            lines = np.where(gaps, siblings, lines)
            lines = np.where(np.isnan(lines), _means(lines)[:, None], lines)
            lines = np.where(np.isnan(lines), instead.astype(np.float32)[:, None], lines)
        return np.ascontiguousarray(lines)

    def has_any(self, times: SnapshotTimes, slot: int) -> bool:
        """Whether the pod itself was measured at one of these times."""
        return not np.isnan(self._at(times, self.recent[:, slot], self.hourly[:, slot])).all()

    def means(self, slots: Index) -> Floats:
        """Of all that is kept of these pods; NaN for those that were never measured."""
        return _means(np.concatenate([self.recent[:, slots], self.hourly[:, slots]]).T).astype(np.float64)

    def departed_mean(self, slot: int) -> float:
        """The same of the last pod of its workload that left."""
        found = self.departed.get(self.keys.get(slot, ("", str(slot), "")))
        return np.nan if found is None else float(_means(np.concatenate(found)[None, :])[0])

    def _at(self, times: SnapshotTimes, recent: Matrix, hourly: Matrix) -> Matrix:
        """The lines of these times; NaN for those that are not kept."""
        return np.concatenate([_lines(self.buckets, times.recent, recent), _lines(self.hours, times.hourly, hourly)])

    def _of_siblings(self, times: SnapshotTimes, slots: Index, lines: Matrix) -> Matrix:
        """The mean of each pod's workload by snapshot, NaN where no pod of it was measured."""
        numbers: dict[WorkloadKey, int] = {}
        keys = (self.keys.get(slot, ("", str(slot), "")) for slot in slots.tolist())
        workload = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
        sums, counts = np.zeros((2, len(numbers), lines.shape[1]), dtype=np.float32)
        known = ~np.isnan(lines)
        np.add.at(sums, workload, np.where(known, lines, 0.0))
        np.add.at(counts, workload, known)
        for key, number in numbers.items():
            departed = self.departed.get(key)
            if departed is not None:
                line = self._at(times, *departed)
                there = ~np.isnan(line)
                sums[number, there] += line[there]
                counts[number, there] += 1
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((sums / counts)[workload])

    def copy(self) -> Self:
        copy = self.share()
        copy.buckets, copy.hours = self.buckets.copy(), self.hours.copy()
        copy.keys = self.keys.copy()
        copy.departed = {key: (recent.copy(), hourly.copy()) for key, (recent, hourly) in self.departed.items()}
        return copy


def _lines(buckets: TimeBuckets, numbers: Numbers, lines: Matrix) -> Matrix:
    found = lines[numbers % len(buckets.numbers)]
    found[buckets.numbers[numbers % len(buckets.numbers)] != numbers] = np.nan
    return found


def _means(lines: Matrix) -> Matrix:
    known = ~np.isnan(lines)
    counts = known.sum(axis=1)
    sums = np.where(known, lines, 0.0).sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)
