"""What each pod counts for in one resource, and the sums by row: shown in the node's sample, still to come, gone already.

A pod is *shown* in the newest sample of its node in part or in full:

| the pod | is shown with |
|---|---|
| has a sample of its own, `t` after its start, over a window `w` | that sample, which is t/w of it all (at most 1) |
| has none, though others on the node have | nothing, until that lasts longer than samples are believed |
| has none, nor has any other | t/w of its estimate, by time and window of the node's sample |
| stands on a node without a sample that is believed | nothing |

What is not shown is *pending*. A pod on its way out is taken off with what is shown of it; so is one that has gone, as long
as the window of a sample reaches back to it. `one` and `all` say the same for one pod and for every pod; a law holds them
together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

import numpy as np

from trimtab.core.load.aligned import Aligned, Bools, Floats, Index, sums
from trimtab.core.load.nodes.meter import Meter
from trimtab.core.load.pods.departed import Departed
from trimtab.core.load.pods.profiles import Profiles
from trimtab.core.load.pods.standing import Standing

TINY = 1e-9
SMOOTHED = 0.2  # weight of the newest sample in what a node uses beside its pods

Counted = tuple[float, float, float, float, float]
NOTHING: Counted = (0.0, 0.0, 0.0, 0.0, 0.0)


class Shares(Aligned):
    """By slot. What is known of the pod: asked, estimated, sampled, usual. And what it counts for: `counted`.

    Lines of `counted`: level and spread (mean and variance of what it uses), unsure (variance of what is not shown),
    net (what is pending, negative for who leaves), shown.
    """

    BLANKS: ClassVar[Mapping[str, float]] = {
        "request": 0.0, "limit": 0.0, "estimate": 0.0, "deviation": 0.0, "sample": np.nan, "sampled": np.nan,
        "window": 0.0, "source": -1, "learnt": False, "usual": np.nan, "varies": np.nan, "counted": 0.0,
    }  # fmt: skip

    def __init__(self, slots: int) -> None:
        self.request: Floats = np.zeros(slots)
        self.limit: Floats = np.zeros(slots)
        self.estimate: Floats = np.zeros(slots)
        self.deviation: Floats = np.zeros(slots)
        self.sample: Floats = np.full(slots, np.nan)
        self.sampled: Floats = np.full(slots, np.nan)
        self.window: Floats = np.zeros(slots)
        self.source: Index = np.full(slots, -1, dtype=np.intp)
        self.learnt: Bools = np.zeros(slots, dtype=np.bool_)
        self.usual: Floats = np.full(slots, np.nan)
        self.varies: Floats = np.full(slots, np.nan)
        self.counted: Floats = np.zeros((5, slots))


class Totals(Aligned):
    """By row: sums of level, spread, unsure and net; what pods `claim` by own samples; what the node uses `beside` them,
    as of the sample that was `weighed`; and whether it is `fed`, which is to say that its pods are measured."""

    BLANKS: ClassVar[Mapping[str, float]] = {
        "sums": 0.0,
        "claimed": 0.0,
        "beside": np.nan,
        "weighed": np.nan,
        "fed": False,
    }

    def __init__(self, rows: int) -> None:
        self.sums: Floats = np.zeros((4, rows))
        self.claimed: Floats = np.zeros(rows)
        self.beside: Floats = np.full(rows, np.nan)
        self.weighed: Floats = np.full(rows, np.nan)
        self.fed: Bools = np.zeros(rows, dtype=np.bool_)


class Account:
    """One resource. `number` is its place in what `Departed` keeps."""

    def __init__(self, number: int, rows: int, slots: int) -> None:
        self.number = number
        self.shares, self.totals = Shares(slots), Totals(rows)
        self.meter = Meter(rows)
        self.profiles: Profiles | None = None
        self.judged, self.patience = -np.inf, 0.0
        self.failed: frozenset[int] = frozenset()

    # --- one pod

    def came(self, slot: int, standing: Standing, asked: tuple[float, float], estimated: tuple[float, float]) -> None:
        shares, row = self.shares, standing.row.item(slot)
        shares.request[slot], shares.limit[slot] = asked
        shares.estimate[slot], shares.deviation[slot] = estimated
        shares.counted[:, slot] = counted = self.one(slot, standing)
        if row >= 0:
            self.totals.sums[:, row] += counted[:4]

    def resized(self, slot: int, asked: tuple[float, float], estimated: tuple[float, float]) -> None:
        """Asks for another amount now; what was measured of it stays true. Its row is then to be summed."""
        self.shares.request[slot], self.shares.limit[slot] = asked
        self.shares.estimate[slot], self.shares.deviation[slot] = estimated

    def left(self, slot: int) -> float:
        """Returns what samples show of it, which from now on is not its node's any more. Its row is then to be summed."""
        shown = self.shares.counted.item(4, slot)
        self.shares.clear(slot)
        if self.profiles is not None:
            self.profiles.vacate(slot)
        return shown

    def sum_row(self, row: int, slots: Index, departed: Departed) -> None:
        """One row anew from the pods that stand there: what is taken off a sum in floats would leave its rounding behind."""
        self.totals.sums[:, row] = self.shares.counted[:4, slots].sum(axis=1)
        measured, window = self.meter.measured.item(row), self.meter.window.item(row)
        if self.meter.trust.item(row):
            self.totals.sums[3, row] -= departed.shown_in(row, self.number, measured, window)

    def one(self, slot: int, standing: Standing) -> Counted:
        """What one pod counts for."""
        shares, row, since = self.shares, standing.row.item(slot), standing.since.item(slot)
        estimate, deviation, usual = shares.estimate.item(slot), shares.deviation.item(slot), shares.usual.item(slot)
        level, spread = (usual, shares.varies.item(slot)) if usual == usual else (estimate, deviation**2)
        if row < 0 or not self.meter.trust.item(row):
            share, shown, lack, unsure = 0.0, 0.0, level, spread
        else:
            age = self.meter.measured.item(row) - since
            if shares.sampled.item(slot) > self.judged - self.patience and shares.source.item(slot) not in self.failed:
                share = _part(shares.sampled.item(slot) - since, shares.window.item(slot))
                shown = shares.sample.item(slot)
            else:
                waits = self.totals.fed.item(row) and age <= self.patience
                share = 0.0 if waits else _part(age, self.meter.window.item(row))
                shown = share * estimate
            lack, unsure = (1.0 - share) * estimate, ((1.0 - share) * deviation) ** 2
        if self.judged - standing.leaving.item(slot) <= self.patience:
            return 0.0, 0.0, 0.0, -shown, shown
        return level, spread, unsure, lack, shown

    # --- all pods

    def recount(self, standing: Standing, departed: Departed) -> None:
        """From what is known of each pod; how far it is to be believed is as of `judged`."""
        slots = np.flatnonzero(standing.taken)
        self._feed(slots, standing)
        self.shares.counted[:, slots] = self.all(slots, standing)
        self.totals.sums = self.summed(slots, standing, departed)

    def weigh(self, standing: Standing, departed: Departed) -> None:
        """What nodes use beside their pods, by samples that have not been weighed yet; after `recount`."""
        totals, meter = self.totals, self.meter
        slots = np.flatnonzero(standing.taken & (standing.row >= 0))
        rows = standing.row[slots]
        shown = sums(rows, self.shares.counted[4, slots], len(totals.beside))
        shown += departed.shown(self.number, *self._seen())
        rest = np.maximum(meter.believed - shown, 0.0)
        new = ~np.isnan(rest) & (meter.measured != totals.weighed)
        totals.weighed[new] = meter.measured[new]
        held = np.where(np.isnan(totals.beside), rest, totals.beside)
        totals.beside = np.where(totals.fed, np.where(new, held + SMOOTHED * (rest - held), totals.beside), np.nan)

    def all(self, slots: Index, standing: Standing) -> Floats:
        """What these pods count for, five lines; `one` for many."""
        shares, rows, since = self.shares, standing.row[slots], standing.since[slots]
        estimate, deviation = shares.estimate[slots], shares.deviation[slots]
        seen = ~np.isnan(shares.usual[slots])
        level = np.where(seen, shares.usual[slots], estimate)
        spread = np.where(seen, shares.varies[slots], deviation**2)
        measured, window, fed = self._at(rows)
        own, age = self._own(slots), measured - since
        by_node = np.where(fed & (age <= self.patience), 0.0, parts(age, window))
        share = np.where(own, parts(shares.sampled[slots] - since, shares.window[slots]), by_node)
        shown = np.where(own, shares.sample[slots], share * estimate)
        unseen = np.isnan(measured)
        shown[unseen] = 0.0
        lack = np.where(unseen, level, (1.0 - share) * estimate)
        unsure = np.where(unseen, spread, ((1.0 - share) * deviation) ** 2)
        counted = np.array([level, spread, unsure, lack, shown])
        going = standing.leave(self.judged, self.patience)[slots]
        counted[:3, going] = 0.0
        counted[3, going] = -shown[going]
        return counted

    def summed(self, slots: Index, standing: Standing, departed: Departed) -> Floats:
        """By row, from `counted` and from who has gone."""
        known = slots[standing.row[slots] >= 0]
        rows, size = standing.row[known], len(self.totals.beside)
        summed = np.array([sums(rows, line[known], size) for line in self.shares.counted[:4]])
        summed[3] -= departed.shown(self.number, *self._seen())
        return summed

    def _feed(self, slots: Index, standing: Standing) -> None:
        """Fed are nodes with a sample of some pod; and without one, if none is overdue while others have theirs."""
        known = slots[standing.row[slots] >= 0]
        rows, own, size = standing.row[known], self._own(known), len(self.totals.beside)
        late = ~own & (self._seen()[0][rows] - standing.since[known] > self.patience)
        counts, overdue = sums(rows, own, size), sums(rows, late, size)
        self.totals.fed = (counts > 0) | ((overdue == 0) & bool(own.any()))
        self.totals.claimed = sums(rows[own], self.shares.sample[known[own]], size)

    def _own(self, slots: Index) -> Bools:
        """Who has a sample of its own that is believed."""
        own = self.shares.sampled[slots] > self.judged - self.patience
        if self.failed and own.any():
            own &= ~np.isin(self.shares.source[slots], list(self.failed))
        return np.asarray(own)

    def _seen(self) -> tuple[Floats, Floats]:
        """When each node's sample was measured, NaN where it is not believed, and over which window."""
        return np.where(self.meter.trust > 0, self.meter.measured, np.nan), self.meter.window

    def _at(self, rows: Index) -> tuple[Floats, Floats, Bools]:
        measured, window = self._seen()
        if not len(measured):
            return np.full(len(rows), np.nan), np.zeros(len(rows)), np.zeros(len(rows), dtype=np.bool_)
        return np.where(rows >= 0, measured[rows], np.nan), window[rows], self.totals.fed[rows]

    # --- keeping step

    def judge(self, at: float, patience: float, failed: Collection[int]) -> None:
        """From now on, `one` and `all` believe as of this moment."""
        self.judged, self.patience, self.failed = at, patience, frozenset(failed)

    def without(self, rows: Index, slots: Index, at: float) -> Account:
        """A twin to be read, as if these pods, which stand in these rows, had gone just now."""
        twin = self._shadow()
        twin.totals = self.totals.copy()
        if len(slots):
            left = self.shares.counted[:4, slots]
            measured, window = self._seen()
            ages = at - measured[rows] + window[rows] + TINY
            left[3] += self.shares.counted[4, slots] * parts(ages, window[rows])
            for line, column in zip(twin.totals.sums, left, strict=True):
                np.subtract.at(line, rows, column)
        return twin

    def reordered(self, rows: Index, slots: Index) -> Account:
        twin = self._shadow()
        twin.shares, twin.totals = self.shares.reordered(slots), self.totals.reordered(rows)
        twin.meter = self.meter.reordered(rows)
        if self.profiles is not None:
            twin.profiles = self.profiles.reordered(slots)
        return twin

    def _shadow(self) -> Account:
        twin = object.__new__(Account)
        twin.__dict__.update(self.__dict__)
        return twin

    def copy(self) -> Account:
        twin = self._shadow()
        twin.shares, twin.totals, twin.meter = self.shares.copy(), self.totals.copy(), self.meter.copy()
        twin.profiles = None if self.profiles is None else self.profiles.copy()
        return twin


def _part(age: float, window: float) -> float:
    return min(max(age / max(window, TINY), 0.0), 1.0)


def parts(ages: Floats, windows: Floats) -> Floats:
    parts = np.clip(ages / np.maximum(windows, TINY), 0.0, 1.0)
    return np.where(np.isnan(parts), 0.0, parts)
