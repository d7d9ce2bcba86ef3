"""Which numbers of a reading are believed: everything else is refused and counted by reason; keeps nothing but the brake.

| reason | what was wrong | what was held before |
|---|---|---|
| unknown | a node or pod that nobody has seen; a pod on a machine of which nobody knows what it has | |
| not a number, infinite, negative, no time | no amount, or no moment | of a node is missing, too; of a pod grows older |
| duplicate, implausible | two for one; more than there is | the same |
| future, stale | measured too far ahead or too long ago | grows older |
| earlier | measured before the node or pod was there; of a pod also over a span in which another had its name | |
| jump | nine nodes of ten went to nothing, or to all they have, in one step | stays, for three readings |
| empty, malformed | nothing at all; columns of different lengths | is missing; stays |
| unused | of pods, but neither CPU nor memory as measured at a moment (counted in `reading`) | |
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from trimtab.core.load.array_table import Bools, Floats, Index
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.readings import Reading, Unit

MAX_CAPACITY_RATIO = 1.5  # of what the machine has: bursts and rounding, but no slip of units
MAX_AMOUNT = 1e15  # of a machine that does not say what it has: a pebibyte
MIN_OF_POD_SUM = 0.01  # a node that uses less than this of what its pods do
SLACK_FACTOR, SLACK_OF_CAPACITY = 2.0, 0.1  # a pod over a shorter span may be above its node's mean, but not by more
MAX_HELD_READINGS, MIN_NODES, JUMPING_RATIO = 3, 5, 0.9
IDLE_BELOW, BUSY_FROM, NOT_FULL_BELOW, FULL_FROM = 0.01, 0.03, 0.95, 0.98


class SampleValidator:
    """What is left of one reading, by row or slot."""

    def __init__(self, reading: Reading, index: Index, rejected: Counter[str]) -> None:
        self.index = index
        self.values: Floats = np.fromiter(reading.values, dtype=np.float64, count=len(index))
        self.measured: Floats = np.fromiter(reading.measured, dtype=np.float64, count=len(index))
        self.invalid: list[Index] = []
        self._rejected = rejected

    def reject(self, bad: Bools, reason: str, *, invalid: bool = False) -> None:
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
        """Known, a number, and the only one of its name."""
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


def well_formed(reading: Reading, refused: Counter[str]) -> bool:
    refused.update(dict(reading.skipped))
    if len(reading.names) == len(reading.values) == len(reading.measured):
        return True
    refused["malformed"] += len(reading.names)
    return False


def check_node_amounts(sieve: SampleValidator, unit: Unit, capacity: Floats, of_pods: Floats | None) -> None:
    """Amounts, by what the machines have and, for the newest values, by what their pods are seen to use."""
    if unit is Unit.RAW:
        return
    has = capacity[sieve.index]
    if unit is Unit.FRACTION:
        sieve.reject((sieve.values > MAX_CAPACITY_RATIO) | (has <= 0), "implausible", invalid=True)
        sieve.values = sieve.values * capacity[sieve.index]
    else:
        sieve.reject(
            sieve.values > np.where(has > 0, MAX_CAPACITY_RATIO * has, MAX_AMOUNT), "implausible", invalid=True
        )
    if of_pods is not None:
        theirs = of_pods[sieve.index]
        tiny = (sieve.values < MIN_OF_POD_SUM * theirs) & (theirs > MIN_OF_POD_SUM * capacity[sieve.index])
        sieve.reject(tiny, "implausible", invalid=True)


def check_pod_amounts(
    sieve: SampleValidator, unit: Unit, rows: Index, since: Floats, capacity: Floats, node: Floats
) -> None:
    """Amounts, of the pod that is there now, and not above what its node has or is seen to use."""
    sieve.reject(sieve.measured < since[sieve.index], "earlier")
    at = rows[sieve.index]
    has = np.where(at >= 0, capacity[at], 0.0)
    sieve.reject(has <= 0, "unknown")
    if unit is Unit.FRACTION:
        sieve.reject(sieve.values > MAX_CAPACITY_RATIO, "implausible")
    at = rows[sieve.index]
    has, seen = capacity[at], node[at]
    if unit is Unit.FRACTION:
        sieve.values = sieve.values * has
    above = (sieve.values > has) | (sieve.values > SLACK_FACTOR * seen + SLACK_OF_CAPACITY * has)
    sieve.reject(above, "implausible")


class JumpGuard:
    """Holds back readings in which nearly all nodes jump to nothing, or to all they have; the fourth in a row counts."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], tuple[int, float]] = {}  # how many, and when the last of them was measured

    def should_hold(self, reading: Reading, before: Floats, after: Floats, newest: float) -> bool:
        """Shares of what the machines have, NaN where it is not known. A sample that is read again is no further one."""
        key = (reading.source, reading.resource)
        count, last = self.held.get(key, (0, -np.inf))
        again = newest <= last
        if not _is_jump(before, after) or (count >= MAX_HELD_READINGS and not again):
            self.held.pop(key, None)
            return False
        if not again:
            self.held[key] = count + 1, newest
        return True

    def copy(self) -> JumpGuard:
        twin = JumpGuard()
        twin.held = self.held.copy()
        return twin


def _is_jump(before: Floats, after: Floats) -> bool:
    known = int((np.isfinite(before) & np.isfinite(after)).sum())
    if known < MIN_NODES:
        return False
    down = (after < IDLE_BELOW) & (before >= BUSY_FROM)
    up = (after >= FULL_FROM) & (before < NOT_FULL_BELOW)
    return bool(max(down.sum(), up.sum()) >= JUMPING_RATIO * known)
