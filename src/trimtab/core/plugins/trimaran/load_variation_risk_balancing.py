"""LoadVariationRiskBalancing: prefers nodes where the mean of the load plus its variation is low.

The policy of this name in kubernetes-sigs/scheduler-plugins (Trimaran), for the worse of CPU and memory. Fixed here:

- Mean and variation were added and halved, so a node at 100 % still got half of the points. Here their sum is the risk,
  as in the proposal; the last five points are spread over nodes above 95 %, so the better of two overloaded nodes still
  wins.
- Samples count as long as they are trusted. Upstream used samples of hours ago, and ignored a resource without metrics.
  Here such a resource is scored by requests, with half of the points.
- Pods that no sample shows yet are added, and the pod itself counts with its estimated usage instead of its request.
- Load is relative to capacity, and so is what the pod adds; upstream mixed capacity and allocatable.
- With fewer than two samples the variation is unknown. Upstream used 0; here it is half of the maximum that a load with
  this mean can have.
- Scores are finer than whole points.

`strict` restores upstream's behaviour: the last samples count whatever their age, pods that they do not show yet do not
count, and with metrics-server (`metricProvider`) the deviation is 0.
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
    estimate_signature,
    pod_estimate,
    quantities,
    ratios,
)
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import INT32, Support, check_ranges, setting
from trimtab.core.plugins.trimaran import METRICS_SERVER, MetricProvider
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

OVERLOADED = 0.95  # above this risk the remaining points decline exponentially


@dataclass(frozen=True, slots=True)
class LoadVariationRiskBalancing:
    """The variation counts as `safe_variance_margin` times its root of degree `safe_variance_sensitivity`.

    `metric_provider` and `watcher_address` configure sources and are not used here.
    """

    name: ClassVar[str] = "LoadVariationRiskBalancing"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = SCORE_SCALE

    safe_variance_margin: float = setting(
        1.0, "1 unless set: the factor on the variation of the load", between=(0, INT32)
    )
    safe_variance_sensitivity: float = setting(
        1.0, "1 unless set: the degree of the root taken of it first", between=(0, INT32)
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

    def named_source(self) -> NamedSource:
        return self.metric_provider.named_source()

    def signature(self, pod: Pod) -> Hashable:
        return estimate_signature(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if self.strict:
            return self._strict_score(view, pod, rows)
        if few_rows := small_selection(view, rows):
            return per_row(lambda row: self._score_row(view, pod, row), few_rows)
        capacity = quantities(view.capacity, rows)
        mean = ratios(observed_usage(view, rows) + pod_estimate(view, pod), capacity)
        measured = _risk_score(mean + self._variation(deviation(view, rows, mean, capacity)))
        trust = cpu_and_memory(view.load.trust, view, rows)
        cpu, memory = blend_with_requests(trust, measured, lambda: _risk_score(requested_ratios(view, pod, rows)))
        return scaled_score(np.minimum(cpu, memory))

    def _score_row(self, view: View, pod: Pod, row: int) -> int:
        """The same for one row."""
        cpu, memory = (self._resource_score_row(view, pod, resource, row) for resource in RESOURCES)
        return scaled_score_row(min(cpu, memory))

    def _resource_score_row(self, view: View, pod: Pod, resource: str, row: int) -> float:
        capacity = view.capacity(resource).item(row)
        mean = ratio(observed_usage_row(view, resource, row) + view.load.estimate(pod, resource)[0], capacity)
        risk = mean + self._variation_one(deviation_row(view, resource, row, mean, capacity))
        trust = view.load.trust(resource).item(row)
        return blend_with_requests_row(
            trust, _risk_score_one(risk), lambda: _risk_score_one(requested_ratio(view, resource, row, pod))
        )

    def _variation_one(self, deviation: float) -> float:
        if self.safe_variance_sensitivity != 1.0:  # another power function would differ in the last digit
            return float(self._variation(np.array([deviation]))[0])
        return min(min(max(deviation, 0.0), 1.0) * self.safe_variance_margin, 1.0)

    def _variation(self, deviation: Floats) -> Floats:
        variation = np.minimum(np.maximum(deviation, 0.0), 1.0)
        if self.safe_variance_sensitivity != 1.0:
            root = 1.0 / self.safe_variance_sensitivity if self.safe_variance_sensitivity else math.inf
            variation = np.power(variation, root)
        return np.minimum(variation * self.safe_variance_margin, 1.0)

    def _strict_score(self, view: View, pod: Pod, rows: Rows) -> Ints:
        """The worse resource, or the only one with metrics. A missing mean or deviation counts as 0."""
        allocatable = quantities(view.allocatable, rows)
        allocatable_fraction = allocatable / np.maximum(quantities(view.capacity, rows), 1)
        mean, deviation = (each * allocatable_fraction for each in reported_load(view, rows, self.metric_provider))
        missing = np.isnan(mean) & np.isnan(deviation)
        mean, deviation = (np.minimum(np.fmax(each, 0.0), allocatable) for each in (mean, deviation))
        requested = np.array([[pod.requests.of(resource)] for resource in RESOURCES])
        mean_load = np.minimum((mean + requested) / np.maximum(allocatable, 1), 1.0)
        risk = (mean_load + self._variation(deviation / np.maximum(allocatable, 1))) / 2.0
        points = np.where(missing, np.nan, np.where(allocatable > 0, (1.0 - risk) * MAX_SCORE, 0.0))
        lower, higher = np.minimum(points[0], points[1]), np.fmax(points[0], points[1])
        return rounded_score(np.where(lower == lower, lower, higher))


def _risk_score(risk: Floats) -> Floats:
    """Linear down to five points, and then ever slower, so more risk always scores less; NaN stays NaN."""
    tail, overloaded = 1.0 - OVERLOADED, risk > OVERLOADED
    free = 1.0 - risk
    if np.count_nonzero(overloaded):
        free[overloaded] = tail * np.exp((OVERLOADED - risk[overloaded]) / tail)
    return free * MAX_SCORE


def _risk_score_one(risk: float) -> float:
    """The same for one value; numpy's exp differs from math's in the last digit, so numpy's is used here too."""
    return (1.0 - risk) * MAX_SCORE if not risk > OVERLOADED else float(_risk_score(np.array([risk]))[0])
