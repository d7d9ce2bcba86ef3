"""Validation of samples: rejects what cannot be true and counts rejections by reason.

| reason | what was wrong | what happens to the value held before |
|---|---|---|
| unknown | an unknown node or pod; a pod on a node whose capacity is unknown | |
| not a number, infinite, negative, no time | not an amount, or no timestamp | a node's is dropped, too; a pod's ages |
| duplicate, implausible | two values for one name; more than there is | the same |
| future, stale | sampled too far in the future, or too long ago | ages |
| earlier | sampled before the node or pod was there; for a pod, a window in which another pod had its name | |
| jump | nine nodes of ten went to nothing, or to all of their capacity, in one step | stays, for three readings |
| empty, malformed | no series at all; columns of different lengths | ages |
| unused | of pods, but neither CPU nor memory usage nor a limited resource (counted in `ingest`) | |
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.readings import Reading, Unit
from trimtab.core.tables import Bools, Floats, Index

MAX_CAPACITY_RATIO = 1.5  # allows for bursts and rounding, but not for a wrong unit
MAX_AMOUNT = 1e15  # where the capacity is unknown: a pebibyte
MIN_OF_POD_SUM = 0.01  # a node that uses less than this fraction of what its pods do is implausible
SLACK_FACTOR, SLACK_OF_CAPACITY = 2.0, 0.1  # how far a pod, over a shorter window, may be above its node's mean
MAX_HELD_READINGS, MIN_NODES, JUMPING_RATIO = 3, 5, 0.9
IDLE_BELOW, BUSY_FROM, NOT_FULL_BELOW, FULL_FROM = 0.01, 0.03, 0.95, 0.98


class SampleValidator:
    """The samples of one reading that are still valid, by row or slot."""

    def __init__(self, reading: Reading, index: Index, rejected: Counter[str]) -> None:
        self.index = index
        self.values: Floats = np.fromiter(reading.values, dtype=np.float64, count=len(index))
        self.measured: Floats = np.fromiter(reading.measured, dtype=np.float64, count=len(index))
        self.invalid: list[Index] = []
        self._rejected = rejected

    def reject(self, bad: Bools, reason: str, *, invalid: bool = False) -> None:
        """Drop and count these samples; `invalid` ones are listed, because they void the value held before."""
        if not bad.any():
            return
        self._rejected[reason] += int(bad.sum())
        if invalid:
            self.invalid.append(self.index[bad])
        self.keep(~bad)

    def keep(self, good: Bools) -> None:
        if not good.all():
            self.index, self.values, self.measured = self.index[good], self.values[good], self.measured[good]

    def drop_invalid(self, unit: Unit) -> None:
        """Unknown names, values that are not amounts, and duplicates."""
        self.reject(self.index < 0, "unknown")
        self.reject(np.isnan(self.values), "not a number", invalid=True)
        self.reject(np.isinf(self.values), "infinite", invalid=True)
        self.reject(~np.isfinite(self.measured), "no time", invalid=True)
        if unit is not Unit.RAW:
            self.reject(self.values < 0, "negative", invalid=True)
        if len(self.index):
            self.reject(np.bincount(self.index)[self.index] > 1, "duplicate", invalid=True)

    def drop_untimely(self, now: float, settings: LoadSettings) -> None:
        self.reject(self.measured > now + settings.fresh, "future")
        self.reject(self.measured < now - settings.stale, "stale")

    @property
    def newest(self) -> float:
        return float(self.measured.max(initial=-np.inf))


def well_formed(reading: Reading, rejected: Counter[str]) -> bool:
    rejected.update(dict(reading.skipped))
    if len(reading.names) == len(reading.values) == len(reading.measured):
        return True
    rejected["malformed"] += len(reading.names)
    return False


def check_node_amounts(samples: SampleValidator, unit: Unit, capacity: Floats, pod_measured: Floats | None) -> None:
    """Reject amounts above the node's capacity and, for current usage, far below what its pods were measured to use."""
    if unit is Unit.RAW:
        return
    available = capacity[samples.index]
    if unit is Unit.FRACTION:
        bad = (samples.values > MAX_CAPACITY_RATIO) | (available <= 0)
        samples.reject(bad, "implausible", invalid=True)
        samples.values = samples.values * capacity[samples.index]
    else:
        limit = np.where(available > 0, MAX_CAPACITY_RATIO * available, MAX_AMOUNT)
        samples.reject(samples.values > limit, "implausible", invalid=True)
    if pod_measured is not None:
        by_pods = pod_measured[samples.index]
        too_low = samples.values < MIN_OF_POD_SUM * by_pods
        samples.reject(too_low & (by_pods > MIN_OF_POD_SUM * capacity[samples.index]), "implausible", invalid=True)


def check_pod_amounts(
    samples: SampleValidator, unit: Unit, rows: Index, since: Floats, capacity: Floats, node_usage: Floats
) -> None:
    """Reject samples from before the pod ran, and amounts above its node's capacity or far above its node's usage."""
    samples.reject(samples.measured < since[samples.index], "earlier")
    row = rows[samples.index]
    available = np.where(row >= 0, capacity[row], 0.0)
    samples.reject(available <= 0, "unknown")
    if unit is Unit.FRACTION:
        samples.reject(samples.values > MAX_CAPACITY_RATIO, "implausible")
    row = rows[samples.index]
    available, usage = capacity[row], node_usage[row]
    if unit is Unit.FRACTION:
        samples.values = samples.values * available
    above_node = samples.values > SLACK_FACTOR * usage + SLACK_OF_CAPACITY * available
    samples.reject((samples.values > available) | above_node, "implausible")


class JumpGuard:
    """Holds back readings in which nearly all nodes jump to idle or to full; the fourth one in a row is accepted."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], tuple[int, float]] = {}  # how many, and when the last of them was sampled

    def should_hold(self, reading: Reading, before: Floats, after: Floats, newest: float) -> bool:
        """By utilisation before and after, NaN where unknown. The same samples read again do not count as another one."""
        key = (reading.source, reading.resource)
        count, last = self.held.get(key, (0, -np.inf))
        is_repeated = newest <= last
        if not _is_jump(before, after) or (count >= MAX_HELD_READINGS and not is_repeated):
            self.held.pop(key, None)
            return False
        if not is_repeated:
            self.held[key] = count + 1, newest
        return True

    def is_holding(self, since: float) -> bool:
        """Whether a reading sampled after this time is held back."""
        return any(last > since for _, last in self.held.values())

    def copy(self) -> JumpGuard:
        copy = JumpGuard()
        copy.held = self.held.copy()
        return copy


def _is_jump(before: Floats, after: Floats) -> bool:
    known = int((np.isfinite(before) & np.isfinite(after)).sum())
    if known < MIN_NODES:
        return False
    down = (after < IDLE_BELOW) & (before >= BUSY_FROM)
    up = (after >= FULL_FROM) & (before < NOT_FULL_BELOW)
    return bool(max(down.sum(), up.sum()) >= JUMPING_RATIO * known)
