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

from trimtab.core.load.array_table import Bools, Floats, Index, Selection, sum_by_row
from trimtab.core.load.latest_samples import LatestSamples
from trimtab.core.load.placed_pods import PlacedPods
from trimtab.core.load.pod_history import PodHistory
from trimtab.core.load.pod_usage import SUMMED, Contribution, NodeTotals, PodUsage
from trimtab.core.load.terminated_pods import TINY, TerminatedPods

RISE_WEIGHT, FALL_WEIGHT = (
    0.6,
    0.2,
)  # weight of the newest sample in what a node uses beside its pods: danger is heeded sooner

Pair = tuple[float, float]


class UsageAccounting:
    """One resource. `number` is its place in what `TerminatedPods` keeps; above `largest`, float rounding shows."""

    def __init__(self, number: int, rows: int, slots: int, largest: float) -> None:
        self.resource_index, self.precision_limit = number, largest
        self.pods, self.totals = PodUsage(slots), NodeTotals(rows)
        self.samples = LatestSamples(rows)
        self.history: PodHistory | None = None
        self.trusted_at, self.stale_after = -np.inf, 0.0
        self.failed_sources: frozenset[int] = frozenset()

    # --- one pod

    def add_pod(self, slot: int, standing: PlacedPods, asked: Pair, estimated: Pair) -> None:
        shares = self.pods
        shares.request[slot], shares.limit[slot] = asked
        shares.estimate[slot], shares.deviation[slot] = estimated
        self._add_to_totals(slot, standing)

    def resize_pod(self, slot: int, standing: PlacedPods, asked: Pair, estimated: Pair) -> None:
        """Asks for another amount now; what was measured of it stays true. Its row is to be summed anew."""
        self._subtract_from_totals(slot, standing.row.item(slot))
        self.add_pod(slot, standing, asked, estimated)

    def update_pod(self, slot: int, standing: PlacedPods) -> bool:
        """Whether its row is to be summed anew."""
        coarse = self._subtract_from_totals(slot, standing.row.item(slot))
        self._add_to_totals(slot, standing)
        return coarse

    def remove_pod(self, slot: int, row: int, at: float) -> tuple[float, bool]:
        """What samples show of it, which from now on is not its node's any more; whether to sum its row anew."""
        shown = self.pods.shown.item(slot)
        coarse = self._subtract_from_totals(slot, row)
        if row >= 0 and shown:
            window = self.samples.window.item(row)
            age = at - self.samples.measured.item(row) + window + TINY
            self.totals.off[row] += shown * _window_fraction_one(age, window)
        self.pods.release(slot)
        if self.history is not None:
            self.history.release(slot)
        return shown, coarse

    def _add_to_totals(self, slot: int, standing: PlacedPods) -> None:
        counted, row = self.account_one(slot, standing), standing.row.item(slot)
        self.pods.set_contribution(slot, counted)
        if row >= 0:
            self.totals.add(row, counted, 1.0)

    def sum_row(self, row: int, slots: Index, departed: TerminatedPods) -> None:
        """One row anew from the pods that stand there: what is taken off a sum in floats leaves its rounding behind."""
        for line in SUMMED:
            getattr(self.totals, line)[row] = getattr(self.pods, line)[slots].sum()
        if self.samples.trust.item(row):
            seen = self.samples.measured.item(row), self.samples.window.item(row)
            self.totals.off[row] += departed.in_node_sample(row, self.resource_index, *seen)

    def _subtract_from_totals(self, slot: int, row: int) -> bool:
        """Whether it was so large that its rounding would show in what is left."""
        counted = self.pods.contribution(slot)
        if row >= 0:
            self.totals.add(row, counted, -1.0)
        return (
            max(counted[0], counted[3]) > self.precision_limit or max(counted[1], counted[2]) > self.precision_limit**2
        )

    def _loses_precision(self, slots: Index) -> Bools:
        """The same for many."""
        shares = self.pods
        amounts = np.maximum(shares.level[slots], shares.lack[slots])
        return np.asarray(
            (amounts > self.precision_limit)
            | (np.maximum(shares.spread[slots], shares.unsure[slots]) > self.precision_limit**2)
        )

    def account_one(self, slot: int, standing: PlacedPods) -> Contribution:
        """What one pod counts for."""
        shares, row, since = self.pods, standing.row.item(slot), standing.since.item(slot)
        estimate, deviation, usual = shares.estimate.item(slot), shares.deviation.item(slot), shares.usual.item(slot)
        level, spread = (usual, shares.varies.item(slot)) if usual == usual else (estimate, deviation * deviation)
        sampled = shares.sampled.item(slot)
        own = sampled > self.trusted_at - self.stale_after and shares.source.item(slot) not in self.failed_sources
        believed = row >= 0 and self.samples.trust.item(row) > 0
        age = self.samples.measured.item(row) - since if believed else -1.0
        shown, lack, unsure = 0.0, level, spread
        if age >= 0.0:
            if own:
                share, shown = _window_fraction_one(sampled - since, shares.window.item(slot)), shares.sample.item(slot)
            else:
                waits = age <= self.stale_after and self.totals.fed.item(row)
                share = 0.0 if waits else _window_fraction_one(age, self.samples.window.item(row))
                shown = min(share * estimate, self.samples.believed.item(row)) * self.totals.scale.item(row)
            lack, unsure = (1.0 - share) * estimate, ((1.0 - share) * deviation) ** 2
        if self.trusted_at <= standing.leaving.item(slot) + self.stale_after:
            return 0.0, 0.0, 0.0, 0.0, shown, 0.0, shown
        claimed = 0.0 if not own else shown if believed else shares.sample.item(slot)
        return level, spread, unsure, lack, 0.0, claimed, shown

    # --- all pods

    def recompute(self, standing: PlacedPods, departed: TerminatedPods) -> None:
        """From what is known of each pod; how far it is to be believed is as of `judged`."""
        slots = slice(0, standing.end)  # free ones stand nowhere: cheaper to count for nothing than to sort out
        self._mark_pod_metrics(slots, standing)
        self._scale_unmeasured(slots, standing, departed)
        self.recompute_pods(slots, standing)
        self.sum_all(standing, departed)

    def sum_all(self, standing: PlacedPods, departed: TerminatedPods) -> None:
        for name, summed in zip(SUMMED, self.sums_by_row(slice(0, standing.end), standing, departed), strict=True):
            setattr(self.totals, name, summed)

    def recompute_pods(self, slots: Selection, standing: PlacedPods) -> None:
        """What these pods count for, leaving the sums as they are."""
        for name, counted in zip((*SUMMED, "shown"), self.account_all(slots, standing), strict=True):
            getattr(self.pods, name)[slots] = counted

    def update_system_usage(self, standing: PlacedPods, departed: TerminatedPods) -> None:
        """What nodes use beside their pods, by samples that have not been weighed yet; after `recount`. Where it is not known
        yet the newest will do: it may have come before any of a pod."""
        totals, meter = self.totals, self.samples
        shown = sum_by_row(standing.row, self.pods.shown, totals.size)
        shown += departed.in_node_samples(self.resource_index, *self._trusted_samples())
        rest = np.maximum(meter.believed - shown, 0.0)
        unknown = np.isnan(totals.beside)
        new = totals.fed & ~np.isnan(rest) & (unknown | (meter.measured != totals.weighed))
        totals.weighed[new] = meter.measured[new]
        held = np.where(unknown, rest, totals.beside)
        weight = np.where(rest > held, RISE_WEIGHT, FALL_WEIGHT)
        totals.beside = np.where(new, held + weight * (rest - held), totals.beside)

    def account_all(self, slots: Selection, standing: PlacedPods) -> tuple[Floats, ...]:
        """What these pods count for: `one` for many."""
        shares, rows, since = self.pods, standing.row[slots], standing.since[slots]
        estimate, deviation, usual = shares.estimate[slots], shares.deviation[slots], shares.usual[slots]
        seen = ~np.isnan(usual)
        level = np.where(seen, usual, estimate)
        spread = np.where(seen, shares.varies[slots], deviation * deviation)
        measured, window, fed = self._samples_at(rows)
        own, age = self._has_own_sample(slots), measured - since
        share = window_fraction(age, window)
        share[fed & (age <= self.stale_after)] = 0.0
        share = np.where(own, window_fraction(shares.sampled[slots] - since, shares.window[slots]), share)
        guessed = np.minimum(share * estimate, self.samples.believed[rows]) * self.totals.scale[rows]
        sample = shares.sample[slots]
        shown = np.where(own, sample, guessed)
        lack = (1.0 - share) * estimate
        unsure = np.square((1.0 - share) * deviation)
        hidden = ~(age >= 0.0)
        shown[hidden], lack[hidden], unsure[hidden] = 0.0, level[hidden], spread[hidden]
        going = standing.is_terminating(slots, self.trusted_at, self.stale_after)
        level[going] = spread[going] = unsure[going] = lack[going] = 0.0
        off = np.where(going, shown, 0.0)
        claimed = np.where(own & ~going, np.where(np.isnan(measured), sample, shown), 0.0)
        return level, spread, unsure, lack, off, claimed, shown

    def sums_by_row(self, slots: Selection, standing: PlacedPods, departed: TerminatedPods) -> list[Floats]:
        """By row, from what pods count for and from who has gone."""
        rows, size = standing.row[slots], self.totals.size
        summed = [sum_by_row(rows, getattr(self.pods, name)[slots], size) for name in SUMMED]
        summed[SUMMED.index("off")] += departed.in_node_samples(self.resource_index, *self._trusted_samples())
        return summed

    def _mark_pod_metrics(self, slots: Selection, standing: PlacedPods) -> None:
        """Fed are nodes with a sample of some pod; and without one, if none is overdue while others have theirs."""
        rows, own, size = standing.row[slots], self._has_own_sample(slots), self.totals.size
        own &= rows >= 0
        if not own.any():
            self.totals.fed = np.zeros(size, dtype=np.bool_)
            self.totals.beside = np.full(size, np.nan)
            return
        late = ~own & (self._samples_at(rows)[0] - standing.since[slots] > self.stale_after)
        self.totals.fed = (sum_by_row(rows, own, size) > 0) | (sum_by_row(rows, late, size) == 0)
        self.totals.beside = np.where(self.totals.fed, self.totals.beside, np.nan)

    def _scale_unmeasured(self, slots: Selection, standing: PlacedPods, departed: TerminatedPods) -> None:
        """Which part of what they are taken to use pods without a sample can have, by what the node's shows beside others."""
        rows, own, size, believed = (
            standing.row[slots],
            self._has_own_sample(slots),
            self.totals.size,
            self.samples.believed,
        )
        measured, window, fed = self._samples_at(rows)
        age = measured - standing.since[slots]
        some = np.flatnonzero(~own & (age > 0.0) & ~(fed & (age <= self.stale_after)))
        self.totals.scale = np.ones(size)
        if len(some):
            taken = window_fraction(age[some], window[some]) * self.pods.estimate[slots][some]
            wanted = sum_by_row(rows[some], np.minimum(taken, believed[rows[some]]), size)
            others = sum_by_row(rows, np.where(own & (age >= 0.0), self.pods.sample[slots], 0.0), size)
            room = np.fmax(
                believed - others - departed.in_node_samples(self.resource_index, *self._trusted_samples()), 0.0
            )
            short = wanted > room
            self.totals.scale[short] = room[short] / wanted[short]

    def _has_own_sample(self, slots: Selection) -> Bools:
        """Who has a sample of its own that is believed."""
        own = self.pods.sampled[slots] > self.trusted_at - self.stale_after
        if self.failed_sources and own.any():
            own &= ~np.isin(self.pods.source[slots], list(self.failed_sources))
        return np.asarray(own)

    def _trusted_samples(self) -> tuple[Floats, Floats]:
        """When each node's sample was measured, NaN where it is not believed, and over which window."""
        return np.where(self.samples.trust > 0, self.samples.measured, np.nan), self.samples.window

    def _samples_at(self, rows: Index) -> tuple[Floats, Floats, Bools]:
        measured, window = self._trusted_samples()
        return np.where(rows >= 0, measured[rows], np.nan), window[rows], self.totals.fed[rows]

    def is_newer(self, slots: Index, measured: Floats, failed: Collection[int]) -> Bools:
        """Which of these samples are newer than what is held; of a source that has failed, nothing is held any more."""
        held = self.pods.sampled[slots] >= measured
        if failed and held.any():
            held &= ~np.isin(self.pods.source[slots], list(failed))
        return ~held

    # --- what is pending

    def unsampled(self, rows: slice) -> Floats:
        """What the newest samples do not show yet, less what they show of those that leave or have gone."""
        totals = self.totals
        room = np.fmax(self.samples.believed[rows] - totals.claimed[rows], 0.0)
        return np.asarray(totals.lack[rows] - np.minimum(totals.off[rows], room))

    def unsampled_in(self, row: int) -> float:
        """The same for one row."""
        totals, room = self.totals, self.samples.believed.item(row) - self.totals.claimed.item(row)
        return totals.lack.item(row) - min(totals.off.item(row), room if room > 0.0 else 0.0)

    # --- keeping step

    def set_trust(self, at: float, timeout: float, failed: Collection[int]) -> None:
        """From now on, `one` and `account_all` believe as of this moment."""
        self.trusted_at, self.stale_after, self.failed_sources = at, timeout, frozenset(failed)

    def without_pods(self, slots: Index, standing: PlacedPods, departed: TerminatedPods, at: float) -> UsageAccounting:
        """A twin to be read, as if these pods, which stand in known rows, had gone just now."""
        rows = standing.row[slots]
        twin = self._shallow_copy()
        twin.totals = self.totals.copy()
        for name in SUMMED:
            np.subtract.at(getattr(twin.totals, name), rows, getattr(self.pods, name)[slots])
        for row in set(rows[self._loses_precision(slots)].tolist()):
            stay = np.setdiff1d(np.flatnonzero(standing.row[: standing.end] == row), slots)
            twin.sum_row(row, stay, departed)
        measured, window = self._trusted_samples()
        ages = at - measured[rows] + window[rows] + TINY
        np.add.at(twin.totals.off, rows, self.pods.shown[slots] * window_fraction(ages, window[rows]))
        return twin

    def reordered(self, rows: Index, slots: Index) -> UsageAccounting:
        twin = self._shallow_copy()
        twin.pods, twin.totals = self.pods.reordered(slots), self.totals.reordered(rows)
        twin.samples = self.samples.reordered(rows)
        if self.history is not None:
            twin.history = self.history.reordered(slots)
        return twin

    def copy(self) -> UsageAccounting:
        twin = self._shallow_copy()
        twin.pods, twin.totals, twin.samples = self.pods.copy(), self.totals.copy(), self.samples.copy()
        twin.history = None if self.history is None else self.history.copy()
        return twin

    def _shallow_copy(self) -> UsageAccounting:
        twin = object.__new__(UsageAccounting)
        twin.__dict__.update(self.__dict__)
        return twin


def _window_fraction_one(age: float, window: float) -> float:
    return min(max(age / max(window, TINY), 0.0), 1.0)


def window_fraction(ages: Floats, windows: Floats | float) -> Floats:
    """How much of each window has passed; 0 where the age is not known."""
    passed = ages / np.maximum(windows, TINY)
    return np.fmin(np.fmax(passed, 0.0), 1.0)  # fmax takes the number where the other is NaN
