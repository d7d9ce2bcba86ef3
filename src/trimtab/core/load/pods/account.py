"""What each pod counts for in one resource, and the sums by row: shown in the node's sample, still to come, gone already.

A pod is *shown* in the newest sample of its node in part or in full:

| the pod | is shown with |
|---|---|
| has a sample of its own, `t` after its start, over a window `w` | that sample, which is t/w of it all (at most 1) |
| has none, though others on the node have | nothing, until that lasts longer than samples are believed |
| has none, nor has any other | t/w of its estimate, by time and window of the node's sample |
| stands on a node without a sample that is believed, or came after it was measured | nothing |

Estimates may come to more than the node is seen to use: pods without a sample share what it shows beside the others, each by
its estimate. What is not shown is *lacking*. A pod on its way out is taken off with what is shown of it; so is one that has
gone, as long as the window of a sample reaches back to it: all of them together never take so much off that less is left
than the pods that stay were measured to use. `one` and `all` say the same for one pod and for every pod; a law holds them
together.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from trimtab.core.load.aligned import Bools, Floats, Index, Picked, sums
from trimtab.core.load.nodes.meter import Meter
from trimtab.core.load.pods.departed import TINY, Departed
from trimtab.core.load.pods.profiles import Profiles
from trimtab.core.load.pods.shares import SUMMED, Counted, Shares, Totals
from trimtab.core.load.pods.standing import Standing

RISEN, FALLEN = 0.6, 0.2  # weight of the newest sample in what a node uses beside its pods: danger is heeded sooner

Pair = tuple[float, float]


class Account:
    """One resource. `number` is its place in what `Departed` keeps; nobody in their right mind asks for the `largest`."""

    def __init__(self, number: int, rows: int, slots: int, largest: float) -> None:
        self.number, self.largest = number, largest
        self.shares, self.totals = Shares(slots), Totals(rows)
        self.meter = Meter(rows)
        self.profiles: Profiles | None = None
        self.judged, self.patience = -np.inf, 0.0
        self.failed: frozenset[int] = frozenset()

    # --- one pod

    def came(self, slot: int, standing: Standing, asked: Pair, estimated: Pair) -> None:
        shares = self.shares
        shares.request[slot], shares.limit[slot] = asked
        shares.estimate[slot], shares.deviation[slot] = estimated
        self._count(slot, standing)

    def resized(self, slot: int, standing: Standing, asked: Pair, estimated: Pair) -> None:
        """Asks for another amount now; what was measured of it stays true. Its row is to be summed anew."""
        self._discount(slot, standing.row.item(slot))
        self.came(slot, standing, asked, estimated)

    def altered(self, slot: int, standing: Standing) -> bool:
        """Whether its row is to be summed anew."""
        coarse = self._discount(slot, standing.row.item(slot))
        self._count(slot, standing)
        return coarse

    def left(self, slot: int, row: int, at: float) -> tuple[float, bool]:
        """What samples show of it, which from now on is not its node's any more; whether to sum its row anew."""
        shown = self.shares.shown.item(slot)
        coarse = self._discount(slot, row)
        if row >= 0 and shown:
            window = self.meter.window.item(row)
            age = at - self.meter.measured.item(row) + window + TINY
            self.totals.off[row] += shown * _part(age, window)
        self.shares.vacate(slot)
        if self.profiles is not None:
            self.profiles.vacate(slot)
        return shown, coarse

    def _count(self, slot: int, standing: Standing) -> None:
        counted, row = self.one(slot, standing), standing.row.item(slot)
        self.shares.count(slot, counted)
        if row >= 0:
            self.totals.add(row, counted, 1.0)

    def sum_row(self, row: int, slots: Index, departed: Departed) -> None:
        """One row anew from the pods that stand there: what is taken off a sum in floats leaves its rounding behind."""
        for line in SUMMED:
            getattr(self.totals, line)[row] = getattr(self.shares, line)[slots].sum()
        if self.meter.trust.item(row):
            seen = self.meter.measured.item(row), self.meter.window.item(row)
            self.totals.off[row] += departed.shown_in(row, self.number, *seen)

    def _discount(self, slot: int, row: int) -> bool:
        """Whether it was so large that its rounding would show in what is left."""
        counted = self.shares.counted(slot)
        if row >= 0:
            self.totals.add(row, counted, -1.0)
        return max(counted[0], counted[3]) > self.largest or max(counted[1], counted[2]) > self.largest**2

    def _coarse(self, slots: Index) -> Bools:
        """The same for many."""
        shares = self.shares
        amounts = np.maximum(shares.level[slots], shares.lack[slots])
        return np.asarray(
            (amounts > self.largest) | (np.maximum(shares.spread[slots], shares.unsure[slots]) > self.largest**2)
        )

    def one(self, slot: int, standing: Standing) -> Counted:
        """What one pod counts for."""
        shares, row, since = self.shares, standing.row.item(slot), standing.since.item(slot)
        estimate, deviation, usual = shares.estimate.item(slot), shares.deviation.item(slot), shares.usual.item(slot)
        level, spread = (usual, shares.varies.item(slot)) if usual == usual else (estimate, deviation * deviation)
        sampled = shares.sampled.item(slot)
        own = sampled > self.judged - self.patience and shares.source.item(slot) not in self.failed
        believed = row >= 0 and self.meter.trust.item(row) > 0
        age = self.meter.measured.item(row) - since if believed else -1.0
        shown, lack, unsure = 0.0, level, spread
        if age >= 0.0:
            if own:
                share, shown = _part(sampled - since, shares.window.item(slot)), shares.sample.item(slot)
            else:
                waits = age <= self.patience and self.totals.fed.item(row)
                share = 0.0 if waits else _part(age, self.meter.window.item(row))
                shown = min(share * estimate, self.meter.believed.item(row)) * self.totals.scale.item(row)
            lack, unsure = (1.0 - share) * estimate, ((1.0 - share) * deviation) ** 2
        if self.judged <= standing.leaving.item(slot) + self.patience:
            return 0.0, 0.0, 0.0, 0.0, shown, 0.0, shown
        claimed = 0.0 if not own else shown if believed else shares.sample.item(slot)
        return level, spread, unsure, lack, 0.0, claimed, shown

    # --- all pods

    def recount(self, standing: Standing, departed: Departed) -> None:
        """From what is known of each pod; how far it is to be believed is as of `judged`."""
        slots = slice(0, standing.end)  # free ones stand nowhere: cheaper to count for nothing than to sort out
        self._feed(slots, standing)
        self._share_out(slots, standing, departed)
        self.count(slots, standing)
        self.sum_all(standing, departed)

    def sum_all(self, standing: Standing, departed: Departed) -> None:
        for name, summed in zip(SUMMED, self.summed(slice(0, standing.end), standing, departed), strict=True):
            setattr(self.totals, name, summed)

    def count(self, slots: Picked, standing: Standing) -> None:
        """What these pods count for, leaving the sums as they are."""
        for name, counted in zip((*SUMMED, "shown"), self.all(slots, standing), strict=True):
            getattr(self.shares, name)[slots] = counted

    def weigh(self, standing: Standing, departed: Departed) -> None:
        """What nodes use beside their pods, by samples that have not been weighed yet; after `recount`. Where it is not known
        yet the newest will do: it may have come before any of a pod."""
        totals, meter = self.totals, self.meter
        shown = sums(standing.row, self.shares.shown, totals.size)
        shown += departed.shown(self.number, *self._seen())
        rest = np.maximum(meter.believed - shown, 0.0)
        unknown = np.isnan(totals.beside)
        new = totals.fed & ~np.isnan(rest) & (unknown | (meter.measured != totals.weighed))
        totals.weighed[new] = meter.measured[new]
        held = np.where(unknown, rest, totals.beside)
        weight = np.where(rest > held, RISEN, FALLEN)
        totals.beside = np.where(new, held + weight * (rest - held), totals.beside)

    def all(self, slots: Picked, standing: Standing) -> tuple[Floats, ...]:
        """What these pods count for: `one` for many."""
        shares, rows, since = self.shares, standing.row[slots], standing.since[slots]
        estimate, deviation, usual = shares.estimate[slots], shares.deviation[slots], shares.usual[slots]
        seen = ~np.isnan(usual)
        level = np.where(seen, usual, estimate)
        spread = np.where(seen, shares.varies[slots], deviation * deviation)
        measured, window, fed = self._at(rows)
        own, age = self._own(slots), measured - since
        share = parts(age, window)
        share[fed & (age <= self.patience)] = 0.0
        share = np.where(own, parts(shares.sampled[slots] - since, shares.window[slots]), share)
        guessed = np.minimum(share * estimate, self.meter.believed[rows]) * self.totals.scale[rows]
        sample = shares.sample[slots]
        shown = np.where(own, sample, guessed)
        lack = (1.0 - share) * estimate
        unsure = np.square((1.0 - share) * deviation)
        hidden = ~(age >= 0.0)
        shown[hidden], lack[hidden], unsure[hidden] = 0.0, level[hidden], spread[hidden]
        going = standing.leave(slots, self.judged, self.patience)
        level[going] = spread[going] = unsure[going] = lack[going] = 0.0
        off = np.where(going, shown, 0.0)
        claimed = np.where(own & ~going, np.where(np.isnan(measured), sample, shown), 0.0)
        return level, spread, unsure, lack, off, claimed, shown

    def summed(self, slots: Picked, standing: Standing, departed: Departed) -> list[Floats]:
        """By row, from what pods count for and from who has gone."""
        rows, size = standing.row[slots], self.totals.size
        summed = [sums(rows, getattr(self.shares, name)[slots], size) for name in SUMMED]
        summed[SUMMED.index("off")] += departed.shown(self.number, *self._seen())
        return summed

    def _feed(self, slots: Picked, standing: Standing) -> None:
        """Fed are nodes with a sample of some pod; and without one, if none is overdue while others have theirs."""
        rows, own, size = standing.row[slots], self._own(slots), self.totals.size
        own &= rows >= 0
        if not own.any():
            self.totals.fed = np.zeros(size, dtype=np.bool_)
            self.totals.beside = np.full(size, np.nan)
            return
        late = ~own & (self._at(rows)[0] - standing.since[slots] > self.patience)
        self.totals.fed = (sums(rows, own, size) > 0) | (sums(rows, late, size) == 0)
        self.totals.beside = np.where(self.totals.fed, self.totals.beside, np.nan)

    def _share_out(self, slots: Picked, standing: Standing, departed: Departed) -> None:
        """Which part of what they are taken to use pods without a sample can have, by what the node's shows beside others."""
        rows, own, size, believed = standing.row[slots], self._own(slots), self.totals.size, self.meter.believed
        measured, window, fed = self._at(rows)
        age = measured - standing.since[slots]
        some = np.flatnonzero(~own & (age > 0.0) & ~(fed & (age <= self.patience)))
        self.totals.scale = np.ones(size)
        if len(some):
            taken = parts(age[some], window[some]) * self.shares.estimate[slots][some]
            wanted = sums(rows[some], np.minimum(taken, believed[rows[some]]), size)
            others = sums(rows, np.where(own & (age >= 0.0), self.shares.sample[slots], 0.0), size)
            room = np.fmax(believed - others - departed.shown(self.number, *self._seen()), 0.0)
            short = wanted > room
            self.totals.scale[short] = room[short] / wanted[short]

    def _own(self, slots: Picked) -> Bools:
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
        return np.where(rows >= 0, measured[rows], np.nan), window[rows], self.totals.fed[rows]

    def news(self, slots: Index, measured: Floats, failed: Collection[int]) -> Bools:
        """Which of these samples are newer than what is held; of a source that has failed, nothing is held any more."""
        held = self.shares.sampled[slots] >= measured
        if failed and held.any():
            held &= ~np.isin(self.shares.source[slots], list(failed))
        return ~held

    # --- what is pending

    def pending(self, rows: slice) -> Floats:
        """What the newest samples do not show yet, less what they show of those that leave or have gone."""
        totals = self.totals
        room = np.fmax(self.meter.believed[rows] - totals.claimed[rows], 0.0)
        return np.asarray(totals.lack[rows] - np.minimum(totals.off[rows], room))

    def pending_in(self, row: int) -> float:
        """The same for one row."""
        totals, room = self.totals, self.meter.believed.item(row) - self.totals.claimed.item(row)
        return totals.lack.item(row) - min(totals.off.item(row), room if room > 0.0 else 0.0)

    # --- keeping step

    def judge(self, at: float, patience: float, failed: Collection[int]) -> None:
        """From now on, `one` and `all` believe as of this moment."""
        self.judged, self.patience, self.failed = at, patience, frozenset(failed)

    def without(self, slots: Index, standing: Standing, departed: Departed, at: float) -> Account:
        """A twin to be read, as if these pods, which stand in known rows, had gone just now."""
        rows = standing.row[slots]
        twin = self._shadow()
        twin.totals = self.totals.copy()
        for name in SUMMED:
            np.subtract.at(getattr(twin.totals, name), rows, getattr(self.shares, name)[slots])
        for row in set(rows[self._coarse(slots)].tolist()):
            stay = np.setdiff1d(np.flatnonzero(standing.row[: standing.end] == row), slots)
            twin.sum_row(row, stay, departed)
        measured, window = self._seen()
        ages = at - measured[rows] + window[rows] + TINY
        np.add.at(twin.totals.off, rows, self.shares.shown[slots] * parts(ages, window[rows]))
        return twin

    def reordered(self, rows: Index, slots: Index) -> Account:
        twin = self._shadow()
        twin.shares, twin.totals = self.shares.reordered(slots), self.totals.reordered(rows)
        twin.meter = self.meter.reordered(rows)
        if self.profiles is not None:
            twin.profiles = self.profiles.reordered(slots)
        return twin

    def copy(self) -> Account:
        twin = self._shadow()
        twin.shares, twin.totals, twin.meter = self.shares.copy(), self.totals.copy(), self.meter.copy()
        twin.profiles = None if self.profiles is None else self.profiles.copy()
        return twin

    def _shadow(self) -> Account:
        twin = object.__new__(Account)
        twin.__dict__.update(self.__dict__)
        return twin


def _part(age: float, window: float) -> float:
    return min(max(age / max(window, TINY), 0.0), 1.0)


def parts(ages: Floats, windows: Floats | float) -> Floats:
    """How much of each window has passed; 0 where the age is not known."""
    passed = ages / np.maximum(windows, TINY)
    return np.fmin(np.fmax(passed, 0.0), 1.0)  # fmax takes the number where the other is NaN
