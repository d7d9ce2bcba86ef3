"""Usage of one resource as tables: what is known of each pod and what it contributes to its node, and the node totals."""

from __future__ import annotations

import numpy as np

from trimtab.core.tables import ArrayTable, Bools, Floats, Index, column

SUMMED = (
    "mean",
    "variance",
    "unsampled",
    "unsampled_variance",
    "leaving",
    "pod_measured",
)  # pod columns that nodes total

Contribution = tuple[float, float, float, float, float, float, float]  # these, and `in_node_sample`


class PodUsage(ArrayTable):
    """By slot. The first columns are what is known of the pod, the others what it contributes to its node:

    | column | meaning |
    |---|---|
    | mean, variance | of what the pod uses |
    | unsampled, unsampled_variance | the part that the node's newest sample does not contain yet |
    | leaving | the part of that sample which is due to this pod, if the pod is terminating |
    | pod_measured | measured by the pod's own sample, if it is not terminating |
    | in_node_sample | the part of the node's newest sample that is due to this pod |
    """

    request: Floats = column()
    limit: Floats = column()
    estimate: Floats = column()
    estimate_deviation: Floats = column()
    sample: Floats = column(np.nan)
    sampled_at: Floats = column(np.nan)
    window: Floats = column()
    source: Index = column(-1, np.intp)
    learned: Bools = column(False, np.bool_)  # the cluster's usage ratios include its first sample
    hourly_mean: Floats = column(np.nan)
    hourly_variance: Floats = column(np.nan)
    mean: Floats = column()
    variance: Floats = column()
    unsampled: Floats = column()
    unsampled_variance: Floats = column()
    leaving: Floats = column()
    pod_measured: Floats = column()
    in_node_sample: Floats = column()

    def expected(self, slots: Index) -> Floats:
        """What these pods will use in a sample that contains all of them, without those that are leaving."""
        return np.asarray(self.in_node_sample[slots] + self.unsampled[slots] - self.leaving[slots])

    def expected_of(self, slot: int) -> float:
        """The same for one pod."""
        return self.in_node_sample.item(slot) + self.unsampled.item(slot) - self.leaving.item(slot)

    def release(self, slot: int) -> None:
        """Drop what was measured; everything else is overwritten when the slot is used again."""
        self.ensure_writable()
        self.sampled_at[slot] = self.hourly_mean[slot] = np.nan
        self.learned[slot] = False

    def set_contribution(self, slot: int, contribution: Contribution) -> None:
        self.ensure_writable()
        self.mean[slot], self.variance[slot], self.unsampled[slot], self.unsampled_variance[slot] = contribution[:4]
        self.leaving[slot], self.pod_measured[slot], self.in_node_sample[slot] = contribution[4:]

    def contribution(self, slot: int) -> Contribution:
        return (
            self.mean.item(slot),
            self.variance.item(slot),
            self.unsampled.item(slot),
            self.unsampled_variance.item(slot),
            self.leaving.item(slot),
            self.pod_measured.item(slot),
            self.in_node_sample.item(slot),
        )


class NodeTotals(ArrayTable):
    """By row: sums over pods, where `leaving` includes removed pods; and what the node uses besides pods.

    `system_usage` was last updated by the sample of `system_sampled_at`. `unmeasured_scale` scales the estimates of pods
    without a sample down to what the node's sample leaves for them. `has_pod_metrics`: this node's pods are measured.
    """

    mean: Floats = column()
    variance: Floats = column()
    unsampled: Floats = column()
    unsampled_variance: Floats = column()
    leaving: Floats = column()
    pod_measured: Floats = column()
    system_usage: Floats = column(np.nan)
    system_sampled_at: Floats = column(np.nan)
    unmeasured_scale: Floats = column(1.0)
    has_pod_metrics: Bools = column(False, np.bool_)

    def add(self, row: int, contribution: Contribution, sign: float) -> None:
        self.mean[row] += sign * contribution[0]
        self.variance[row] += sign * contribution[1]
        self.unsampled[row] += sign * contribution[2]
        self.unsampled_variance[row] += sign * contribution[3]
        self.leaving[row] += sign * contribution[4]
        self.pod_measured[row] += sign * contribution[5]
