"""What each pod contributes to its node in one resource: how much of the node's newest sample is due to it, how much is
still to come, and how much is leaving.

| the pod | part of the node's newest sample |
|---|---|
| has a sample of its own, taken `t` after its start over a window `w` | that sample, which covers t/w of its usage |
| has none, but other pods on the node do | nothing, until that lasts longer than samples are trusted |
| has none, nor does any other pod | t/w of its estimate, by time and window of the node's sample |
| is on a node without a trusted sample, or was placed after it | nothing |

Estimates may add up to more than the node's sample: pods without a sample share what it leaves besides the measured ones,
in proportion to their estimates. What is not part of the sample is *unsampled*. A terminating pod is subtracted with its
part of the sample; so is a removed pod, as long as the window of a sample reaches back to it. Together they are never
subtracted below what the remaining pods were measured to use.

`account_one` and `account_all` compute the same for one pod and for many; property tests compare them.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from copy import copy as shallow_copy

import numpy as np

from trimtab.core.load.history import PodHistory
from trimtab.core.load.latest_samples import LatestSamples
from trimtab.core.load.placed_pods import PlacedPods
from trimtab.core.load.pod_usage import SUMMED, Contribution, NodeTotals, PodUsage
from trimtab.core.load.terminated_pods import TINY, TerminatedPods
from trimtab.core.tables import Bools, Floats, Index, Selection, sum_by_row

RISE_WEIGHT, FALL_WEIGHT = 0.6, 0.2  # of the newest sample in system usage: it follows a rise faster than a fall

Pair = tuple[float, float]


class UsageAccounting:
    """One resource; `resource_index` is its line in `TerminatedPods`.

    Above `precision_limit` float rounding would show after a subtraction, so the row is summed again.
    """

    def __init__(self, resource_index: int, rows: int, slots: int, precision_limit: float) -> None:
        self.resource_index, self.precision_limit = resource_index, precision_limit
        self.pods, self.totals = PodUsage(slots), NodeTotals(rows)
        self.samples, self.history = LatestSamples(rows), PodHistory(slots)
        self.trusted_at, self.stale_after = -np.inf, 0.0
        self.discarded_sources: frozenset[int] = frozenset()

    # --- one pod

    def add_pod(self, slot: int, placed: PlacedPods, request_and_limit: Pair, estimate: Pair) -> None:
        pods = self.pods
        pods.ensure_writable()
        pods.request[slot], pods.limit[slot] = request_and_limit
        pods.estimate[slot], pods.estimate_deviation[slot] = estimate
        self._add_to_totals(slot, placed)

    def resize_pod(self, slot: int, placed: PlacedPods, request_and_limit: Pair, estimate: Pair) -> None:
        """New requests; its samples stay valid. The caller sums its row again."""
        self._subtract_from_totals(slot, placed.row.item(slot))
        self.add_pod(slot, placed, request_and_limit, estimate)

    def update_pod(self, slot: int, placed: PlacedPods) -> bool:
        """Returns whether its row has to be summed again."""
        loses_precision = self._subtract_from_totals(slot, placed.row.item(slot))
        self._add_to_totals(slot, placed)
        return loses_precision

    def remove_pod(self, slot: int, row: int, now: float) -> tuple[float, bool]:
        """Returns its part of the node's sample, which is leaving now, and whether its row has to be summed again."""
        in_sample = self.pods.in_node_sample.item(slot)
        loses_precision = self._subtract_from_totals(slot, row)
        if row >= 0 and in_sample:
            window = self.samples.window.item(row)
            age = now - self.samples.sampled_at.item(row) + window + TINY
            self.totals.leaving[row] += in_sample * _window_fraction_one(age, window)
        if not math.isnan(self.pods.hourly_mean.item(slot)):  # else there is nothing in its history
            self.history.clear(slot)
        self.pods.release(slot)
        return in_sample, loses_precision

    def _add_to_totals(self, slot: int, placed: PlacedPods) -> None:
        contribution, row = self.account_one(slot, placed), placed.row.item(slot)
        self.pods.set_contribution(slot, contribution)
        if row >= 0:
            self.totals.add(row, contribution, 1.0)

    def _subtract_from_totals(self, slot: int, row: int) -> bool:
        """Returns whether it was so large that its rounding error would show in what is left."""
        contribution = self.pods.contribution(slot)
        if row >= 0:
            self.totals.add(row, contribution, -1.0)
        limit = self.precision_limit
        return max(contribution[0], contribution[2]) > limit or max(contribution[1], contribution[3]) > limit**2

    def _loses_precision(self, slots: Index) -> Bools:
        """The same for many pods."""
        pods, limit = self.pods, self.precision_limit
        amounts = np.maximum(pods.mean[slots], pods.unsampled[slots])
        variances = np.maximum(pods.variance[slots], pods.unsampled_variance[slots])
        return np.asarray((amounts > limit) | (variances > limit**2))

    def sum_row(self, row: int, slots: Index, terminated: TerminatedPods) -> None:
        """Sum one row again from its pods, to get rid of rounding errors."""
        for name in SUMMED:
            getattr(self.totals, name)[row] = getattr(self.pods, name)[slots].sum()
        if self.samples.trust.item(row):
            sample = self.samples.sampled_at.item(row), self.samples.window.item(row)
            self.totals.leaving[row] += terminated.in_node_sample(row, self.resource_index, *sample)

    def account_one(self, slot: int, placed: PlacedPods) -> Contribution:
        """What one pod contributes."""
        pods, row, since = self.pods, placed.row.item(slot), placed.running_since.item(slot)
        estimate, deviation = pods.estimate.item(slot), pods.estimate_deviation.item(slot)
        mean, variance = pods.hourly_mean.item(slot), pods.hourly_variance.item(slot)
        if mean != mean:
            mean, variance = estimate, deviation * deviation
        sampled_at = pods.sampled_at.item(slot)
        measured = (
            sampled_at > self.trusted_at - self.stale_after and pods.source.item(slot) not in self.discarded_sources
        )
        trusted = row >= 0 and self.samples.trust.item(row) > 0
        age = self.samples.sampled_at.item(row) - since if trusted else -1.0
        in_sample, unsampled, unsampled_variance = 0.0, mean, variance
        if age >= 0.0:
            if measured:
                fraction = _window_fraction_one(sampled_at - since, pods.window.item(slot))
                in_sample = pods.sample.item(slot)
            else:
                waits = age <= self.stale_after and self.totals.has_pod_metrics.item(row)
                fraction = 0.0 if waits else _window_fraction_one(age, self.samples.window.item(row))
                in_sample = min(fraction * estimate, self.samples.trusted_value.item(row))
                in_sample *= self.totals.unmeasured_scale.item(row)
            unsampled, unsampled_variance = (1.0 - fraction) * estimate, ((1.0 - fraction) * deviation) ** 2
        if self.trusted_at <= placed.terminating_since.item(slot) + self.stale_after:
            return 0.0, 0.0, 0.0, 0.0, in_sample, 0.0, in_sample
        pod_measured = 0.0 if not measured else in_sample if trusted else pods.sample.item(slot)
        return mean, variance, unsampled, unsampled_variance, 0.0, pod_measured, in_sample

    # --- all pods

    def set_trust(self, now: float, stale_after: float, failed: Collection[int]) -> None:
        """From now on, samples are trusted as of this moment."""
        self.trusted_at, self.stale_after, self.discarded_sources = now, stale_after, frozenset(failed)

    def recompute(self, placed: PlacedPods, terminated: TerminatedPods) -> None:
        """Compute every pod's contribution and all totals from what is known of each pod."""
        slots = slice(0, placed.end)  # free slots have no row: cheaper to include than to leave out
        self._mark_pod_metrics(slots, placed)
        self._scale_unmeasured(slots, placed, terminated)
        self.recompute_pods(slots, placed)
        self.sum_all(placed, terminated)

    def sum_all(self, placed: PlacedPods, terminated: TerminatedPods) -> None:
        sums = self.sums_by_row(slice(0, placed.end), placed, terminated)
        for name, sum_of in zip(SUMMED, sums, strict=True):
            setattr(self.totals, name, sum_of)

    def recompute_pods(self, slots: Selection, placed: PlacedPods) -> None:
        """Contributions of these pods; totals stay as they are."""
        self.pods.ensure_writable()
        for name, values in zip((*SUMMED, "in_node_sample"), self.account_all(slots, placed), strict=True):
            getattr(self.pods, name)[slots] = values

    def update_system_usage(self, placed: PlacedPods, terminated: TerminatedPods) -> None:
        """What nodes use besides pods, by samples not looked at before; after `recompute`. Where it is unknown so far, a
        sample seen before will do: it may have arrived before the first sample of a pod."""
        totals, samples = self.totals, self.samples
        in_sample = sum_by_row(placed.row, self.pods.in_node_sample, totals.size)
        in_sample += terminated.in_node_samples(self.resource_index, *self._trusted_samples())
        rest = np.maximum(samples.trusted_value - in_sample, 0.0)
        unknown = np.isnan(totals.system_usage)
        new = totals.has_pod_metrics & ~np.isnan(rest) & (unknown | (samples.sampled_at != totals.system_sampled_at))
        totals.system_sampled_at[new] = samples.sampled_at[new]
        before = np.where(unknown, rest, totals.system_usage)
        weight = np.where(rest > before, RISE_WEIGHT, FALL_WEIGHT)
        totals.system_usage = np.where(new, before + weight * (rest - before), totals.system_usage)

    def account_all(self, slots: Selection, placed: PlacedPods) -> tuple[Floats, ...]:
        """`account_one` for many pods."""
        pods, rows, since = self.pods, placed.row[slots], placed.running_since[slots]
        estimate, deviation, hourly = pods.estimate[slots], pods.estimate_deviation[slots], pods.hourly_mean[slots]
        known = ~np.isnan(hourly)
        mean = np.where(known, hourly, estimate)
        variance = np.where(known, pods.hourly_variance[slots], deviation * deviation)
        sampled_at, window, has_pod_metrics = self._samples_at(rows)
        measured, age = self._has_own_sample(slots), sampled_at - since
        fraction = window_fraction(age, window)
        fraction[has_pod_metrics & (age <= self.stale_after)] = 0.0
        fraction = np.where(measured, window_fraction(pods.sampled_at[slots] - since, pods.window[slots]), fraction)
        estimated = np.minimum(fraction * estimate, self.samples.trusted_value[rows])
        estimated = estimated * self.totals.unmeasured_scale[rows]
        sample = pods.sample[slots]
        in_sample = np.where(measured, sample, estimated)
        unsampled = (1.0 - fraction) * estimate
        unsampled_variance = np.square((1.0 - fraction) * deviation)
        outside = ~(age >= 0.0)
        in_sample[outside], unsampled[outside], unsampled_variance[outside] = 0.0, mean[outside], variance[outside]
        terminating = placed.is_terminating(slots, self.trusted_at, self.stale_after)
        mean[terminating] = variance[terminating] = unsampled[terminating] = unsampled_variance[terminating] = 0.0
        leaving = np.where(terminating, in_sample, 0.0)
        pod_measured = np.where(measured & ~terminating, np.where(np.isnan(sampled_at), sample, in_sample), 0.0)
        return mean, variance, unsampled, unsampled_variance, leaving, pod_measured, in_sample

    def sums_by_row(self, slots: Selection, placed: PlacedPods, terminated: TerminatedPods) -> list[Floats]:
        """Totals from contributions and removed pods."""
        rows, size = placed.row[slots], self.totals.size
        sums = [sum_by_row(rows, getattr(self.pods, name)[slots], size) for name in SUMMED]
        sums[SUMMED.index("leaving")] += terminated.in_node_samples(self.resource_index, *self._trusted_samples())
        return sums

    def _mark_pod_metrics(self, slots: Selection, placed: PlacedPods) -> None:
        """A node has pod metrics if one of its pods has a sample; or, while other nodes have them, if no sample of its
        pods is overdue."""
        rows, measured, size, totals = placed.row[slots], self._has_own_sample(slots), self.totals.size, self.totals
        measured &= rows >= 0
        if not measured.any():
            totals.has_pod_metrics = np.zeros(size, dtype=np.bool_)
            totals.system_usage = np.full(size, np.nan)
            return
        overdue = ~measured & (self._samples_at(rows)[0] - placed.running_since[slots] > self.stale_after)
        totals.has_pod_metrics = (sum_by_row(rows, measured, size) > 0) | (sum_by_row(rows, overdue, size) == 0)
        totals.system_usage = np.where(totals.has_pod_metrics, totals.system_usage, np.nan)

    def _scale_unmeasured(self, slots: Selection, placed: PlacedPods, terminated: TerminatedPods) -> None:
        """Scale estimates of pods without a sample down to what the node's sample leaves besides the other pods."""
        rows, measured, size = placed.row[slots], self._has_own_sample(slots), self.totals.size
        sampled_at, window, has_pod_metrics = self._samples_at(rows)
        age = sampled_at - placed.running_since[slots]
        estimated = np.flatnonzero(~measured & (age > 0.0) & ~(has_pod_metrics & (age <= self.stale_after)))
        self.totals.unmeasured_scale = np.ones(size)
        if len(estimated):
            trusted = self.samples.trusted_value
            amounts = window_fraction(age[estimated], window[estimated]) * self.pods.estimate[slots][estimated]
            wanted = sum_by_row(rows[estimated], np.minimum(amounts, trusted[rows[estimated]]), size)
            others = sum_by_row(rows, np.where(measured & (age >= 0.0), self.pods.sample[slots], 0.0), size)
            removed = terminated.in_node_samples(self.resource_index, *self._trusted_samples())
            available = np.fmax(trusted - others - removed, 0.0)
            short = wanted > available
            self.totals.unmeasured_scale[short] = available[short] / wanted[short]

    def _has_own_sample(self, slots: Selection) -> Bools:
        """Pods with a trusted sample of their own."""
        measured = self.pods.sampled_at[slots] > self.trusted_at - self.stale_after
        if self.discarded_sources and measured.any():
            measured &= ~np.isin(self.pods.source[slots], list(self.discarded_sources))
        return np.asarray(measured)

    def _trusted_samples(self) -> tuple[Floats, Floats]:
        """When each node's sample was taken, NaN where it is not trusted, and its window."""
        return np.where(self.samples.trust > 0, self.samples.sampled_at, np.nan), self.samples.window

    def _samples_at(self, rows: Index) -> tuple[Floats, Floats, Bools]:
        sampled_at, window = self._trusted_samples()
        return np.where(rows >= 0, sampled_at[rows], np.nan), window[rows], self.totals.has_pod_metrics[rows]

    def is_newer(self, slots: Index, sampled_at: Floats, failed: Collection[int]) -> Bools:
        """Which samples are newer than the ones held; those of a failed source do not count as held."""
        held = self.pods.sampled_at[slots] >= sampled_at
        if failed and held.any():
            held &= ~np.isin(self.pods.source[slots], list(failed))
        return ~held

    # --- node totals

    def unsampled(self, rows: slice) -> Floats:
        """What the newest samples do not contain yet, minus what they contain of leaving pods."""
        totals = self.totals
        available = np.fmax(self.samples.trusted_value[rows] - totals.pod_measured[rows], 0.0)
        return np.asarray(totals.unsampled[rows] - np.minimum(totals.leaving[rows], available))

    def unsampled_in(self, row: int) -> float:
        """The same for one row."""
        totals, available = self.totals, self.samples.trusted_value.item(row) - self.totals.pod_measured.item(row)
        return totals.unsampled.item(row) - min(totals.leaving.item(row), available if available > 0.0 else 0.0)

    # --- copies

    def without_pods(self, slots: Index, placed: PlacedPods, terminated: TerminatedPods, now: float) -> UsageAccounting:
        """A read-only copy as if these pods, whose rows are known, had just been removed."""
        rows = placed.row[slots]
        copy = shallow_copy(self)
        copy.totals = self.totals.copy()
        for name in SUMMED:
            np.subtract.at(getattr(copy.totals, name), rows, getattr(self.pods, name)[slots])
        for row in set(rows[self._loses_precision(slots)].tolist()):
            remaining = np.setdiff1d(np.flatnonzero(placed.row[: placed.end] == row), slots)
            copy.sum_row(row, remaining, terminated)
        sampled_at, window = self._trusted_samples()
        ages = now - sampled_at[rows] + window[rows] + TINY
        np.add.at(copy.totals.leaving, rows, self.pods.in_node_sample[slots] * window_fraction(ages, window[rows]))
        return copy

    def reordered(self, rows: Index, slots: Index) -> UsageAccounting:
        copy = shallow_copy(self)
        copy.pods, copy.history = self.pods.reordered(slots), self.history.reordered(slots)
        copy.totals, copy.samples = self.totals.reordered(rows), self.samples.reordered(rows)
        return copy

    def copy(self) -> UsageAccounting:
        copy = shallow_copy(self)
        copy.pods, copy.history = self.pods.share(), self.history.copy()
        copy.totals, copy.samples = self.totals.copy(), self.samples.copy()
        return copy


def _window_fraction_one(age: float, window: float) -> float:
    return min(max(age / max(window, TINY), 0.0), 1.0)


def window_fraction(ages: Floats, windows: Floats | float) -> Floats:
    """How much of each window has passed; 0 where the age is unknown."""
    passed = ages / np.maximum(windows, TINY)
    return np.fmin(np.fmax(passed, 0.0), 1.0)  # fmax returns the number where the other is NaN
