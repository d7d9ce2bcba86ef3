"""LowRiskOverCommitment: avoids nodes where limits exceed allocatable, or where pods use more than they request.

The policy of this name in kubernetes-sigs/scheduler-plugins (Trimaran, KEP 357), for the worse of CPU and memory. It
weighs two risks: how far the sum of limits exceeds the node, relative to the gap between requests and limits; and how
likely the load, as a Beta distribution with the measured mean and deviation, is above the sum of requests. A pod
without a limit counts with its request, as upstream. Fixed here:

- Samples count as long as they are trusted. Upstream used samples of hours ago, and took the load of a resource without
  metrics for 0. Here such a resource is scored by limits and requests, with half of the points.
- Pods that no sample shows yet are part of the load: their requests counted at once and their usage did not, so a burst
  of pods made a node look safer.
- Load and requests are both relative to capacity; upstream mixed capacity and allocatable.
- With fewer than two samples the deviation is unknown. Upstream used 0; here it is half of the maximum that a load with
  this mean can have.
- Among nodes without any risk the one with lower limits is preferred, by at most one point.
- Pods without requests and limits are not scored, instead of getting 0 on every node.

`strict` restores upstream's behaviour: the last samples count whatever their age, the load of pods that they do not show
yet does not count, and with metrics-server (`metricProvider`) the deviation is 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, NamedSource, Normalise, Rows
from trimtab.core.framework.load_scoring.scalar import per_row, ratio, requested_ratio, small_selection
from trimtab.core.framework.load_scoring.utilisation import (
    RESOURCES,
    SCORE_SCALE,
    cpu_and_memory,
    quantities,
    ratios,
)
from trimtab.core.framework.resource_amounts import ResourceValues
from trimtab.core.model.change import Change
from trimtab.core.model.duration import INT64
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import Support, check_ranges, setting
from trimtab.core.plugins.trimaran import METRICS_SERVER, MetricProvider
from trimtab.core.plugins.trimaran.beta_cdf import CachedCdf, beta_cdf, beta_cdf_one
from trimtab.core.plugins.trimaran.measurements import (
    blend_with_requests,
    blend_with_requests_row,
    deviation,
    deviation_row,
    observed_usage,
    observed_usage_row,
    reported_load,
    requested_ratios,
    rounded_score,
    scaled_score,
    scaled_score_row,
)
from trimtab.core.tables import Floats

EQUAL_WEIGHTS = ResourceValues(((CPU, 0.5), (MEMORY, 0.5)))
TIE_BREAK_SHARE = 0.01  # of the points, for low limits


@dataclass(frozen=True, slots=True)
class LowRiskOverCommitment:
    """`risk_limit_weights` is the weight of the limit risk by resource, from 0 to 1; the load risk has the rest.

    The measured deviation is multiplied by the square root of `smoothing_window_size`, because means of that many
    samples vary that much less. `metric_provider` and `watcher_address` configure sources and are not used here.
    """

    name: ClassVar[str] = "LowRiskOverCommitment"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = SCORE_SCALE

    smoothing_window_size: int = setting(5, "5 unless set: over how many samples usage is averaged", between=(1, INT64))
    risk_limit_weights: ResourceValues = setting(
        EQUAL_WEIGHTS,
        "`{cpu: 0.5, memory: 0.5}` unless set, 0 to 1: the share of limits, as opposed to load, in the risk",
    )
    metric_provider: MetricProvider = setting(
        METRICS_SERVER, "`Prometheus` with an address, or `KubernetesMetricsServer`: becomes a source, see below"
    )
    watcher_address: str = setting(
        "", "load-watcher is not used: configure the Prometheus that it reads as a source", support=Support.IGNORED
    )
    strict: bool = setting(False, "false unless set: true scores exactly as the original does")

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, weight in self.risk_limit_weights.values:
            if name not in (CPU, MEMORY):
                raise ValueError(f"riskLimitWeights: {name[:100]!r} is neither cpu nor memory")
            if not 0 <= weight <= 1:
                raise ValueError(f"riskLimitWeights: {weight:g} for {name} is not between 0 and 1")

    def named_source(self) -> NamedSource:
        return self.metric_provider.named_source()

    def signature(self, pod: Pod) -> Hashable:
        return pod.requests

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not (pod.requests.limit_of(CPU) or pod.requests.limit_of(MEMORY)):
            return np.zeros(len(view.pod_count[rows]), dtype=np.int64) if self.strict else None
        if not self.strict and (few_rows := small_selection(view, rows)):
            return per_row(lambda row: self._score_row(view, pod, row), few_rows)
        commitment = Commitment(view, pod, rows)
        if self.strict:
            return self._strict_score(commitment)
        cpu, memory = self._resource_scores(commitment)
        points = np.minimum(cpu, memory) * (1.0 - TIE_BREAK_SHARE)
        points += (1.0 - commitment.fullness) * (TIE_BREAK_SHARE * MAX_SCORE)
        return scaled_score(points)

    def _score_row(self, view: View, pod: Pod, row: int) -> int:
        """The same for one row."""
        (cpu, cpu_fullness), (memory, memory_fullness) = (
            self._resource_score_row(view, pod, each, row) for each in RESOURCES
        )
        points = min(cpu, memory) * (1.0 - TIE_BREAK_SHARE)
        return scaled_score_row(points + (1.0 - max(cpu_fullness, memory_fullness)) * (TIE_BREAK_SHARE * MAX_SCORE))

    def _resource_score_row(self, view: View, pod: Pod, resource: str, row: int) -> tuple[float, float]:
        """The score by one resource, and limits relative to limits plus allocatable."""
        pod_requests, capacity, allocatable = (
            pod.requests,
            view.capacity(resource).item(row),
            view.allocatable(resource).item(row),
        )
        requested, limits = min(view.requested(resource).item(row), allocatable), view.limits(resource).item(row)
        limits_with_pod = limits + pod_requests.limit_of(resource)
        limit_risk = float(max(limits_with_pod - allocatable, 0)) / max(
            limits_with_pod - min(requested + pod_requests.of(resource), allocatable), 1
        )
        weight = self.risk_limit_weights.of(resource, 0.5)

        def score(load_risk: float) -> float:
            return (1.0 - (weight * limit_risk + (1.0 - weight) * load_risk)) * MAX_SCORE

        mean, nonzero_capacity = (
            min(ratio(observed_usage_row(view, resource, row), capacity), 1.0),
            float(max(capacity, 1)),
        )
        deviation = deviation_row(view, resource, row, mean, capacity, math.sqrt(self.smoothing_window_size))
        measured = score(1.0 - beta_cdf_one(mean, deviation, requested / nonzero_capacity, limits / nonzero_capacity))
        trust = view.load.trust(resource).item(row)
        points = blend_with_requests_row(
            trust, measured, lambda: score(min(requested_ratio(view, resource, row, pod), 1.0))
        )
        return points, limits_with_pod / max(limits_with_pod + float(allocatable), 1.0)

    def _resource_scores(self, commitment: Commitment) -> Floats:
        capacity = quantities(commitment.view.capacity, commitment.rows)
        mean = np.minimum(ratios(observed_usage(commitment.view, commitment.rows), capacity), 1.0)
        deviations = deviation(commitment.view, commitment.rows, mean, capacity, math.sqrt(self.smoothing_window_size))
        measured = self._risk_score(commitment, 1.0 - self._load_below_requests(commitment, mean, deviations, capacity))
        trust = cpu_and_memory(commitment.view.load.trust, commitment.view, commitment.rows)
        return blend_with_requests(
            trust,
            measured,
            lambda: self._risk_score(
                commitment, np.minimum(requested_ratios(commitment.view, commitment.pod, commitment.rows), 1.0)
            ),
        )

    def _risk_score(self, commitment: Commitment, load_risk: Floats) -> Floats:
        """The points that both risks leave."""
        weights: Floats = np.array([[self.risk_limit_weights.of(resource, 0.5)] for resource in RESOURCES])
        return (1.0 - (weights * commitment.limit_risk + (1.0 - weights) * load_risk)) * MAX_SCORE

    def _strict_score(self, commitment: Commitment) -> Ints:
        """A resource without metrics adds no load risk; with neither the score is 0."""
        capacity = np.maximum(quantities(commitment.view.capacity, commitment.rows), 1)
        reported = reported_load(commitment.view, commitment.rows, self.metric_provider)
        mean, deviation = (each / capacity for each in reported)
        missing = np.isnan(mean) & np.isnan(deviation)
        mean, deviation = (np.minimum(np.fmax(each, 0.0), 1.0) for each in (mean, deviation))
        below_requests = self._load_below_requests(
            commitment, mean, deviation * math.sqrt(self.smoothing_window_size), commitment.allocatable
        )
        cpu, memory = self._risk_score(commitment, np.where(missing, 0.0, 1.0 - below_requests))
        return rounded_score(np.where(missing[0] & missing[1], 0.0, np.minimum(cpu, memory)))

    def _load_below_requests(self, commitment: Commitment, mean: Floats, deviation: Floats, capacity: Ints) -> Floats:
        """The probability that the load is below requests, given that it is below limits; NaN where the mean is.

        For all rows it is the same for every pod, so it is cached until the inputs change.
        """
        capacity = np.maximum(capacity, 1)
        inputs = [
            each.ravel() for each in (mean, deviation, commitment.requests / capacity, commitment.limits / capacity)
        ]
        if mean.shape[1] < commitment.view.count or not mean.size:
            return beta_cdf(*inputs).reshape(mean.shape)
        cached: CachedCdf = commitment.view.load.plugin_cache.setdefault((self.name, self.strict), CachedCdf())
        return cached.beta_cdf(*inputs).reshape(mean.shape)


class Commitment:
    """Requests and limits of CPU and memory on the selected rows, a line each, and limits including the pod's."""

    __slots__ = ("allocatable", "limits", "limits_with_pod", "pod", "requests", "rows", "view")

    def __init__(self, view: View, pod: Pod, rows: Rows) -> None:
        self.view, self.pod, self.rows = view, pod, rows
        self.allocatable = quantities(view.allocatable, rows)
        self.requests = np.minimum(quantities(view.requested, rows), self.allocatable)
        self.limits = quantities(view.limits, rows)
        self.limits_with_pod = self.limits + np.array([[pod.requests.limit_of(resource)] for resource in RESOURCES])

    @property
    def limit_risk(self) -> Floats:
        """How far limits exceed the node, relative to the gap between requests and limits."""
        pod_requests = np.array([[self.pod.requests.of(resource)] for resource in RESOURCES])
        requests = np.minimum(self.requests + pod_requests, self.allocatable)
        risk: Floats = np.maximum(self.limits_with_pod - self.allocatable, 0) / np.maximum(
            self.limits_with_pod - requests, 1
        )
        return risk

    @property
    def fullness(self) -> Floats:
        """Of the fuller resource: 0 without limits, 0.5 where they equal allocatable."""
        ratios: Floats = self.limits_with_pod / np.maximum(
            self.limits_with_pod + self.allocatable.astype(np.float64), 1.0
        )
        highest: Floats = np.maximum(ratios[0], ratios[1])
        return highest
