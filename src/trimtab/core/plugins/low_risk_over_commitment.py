"""LowRiskOverCommitment: avoids nodes where limits exceed what is there, or where pods use more than they ask for.

The policy of this name in kubernetes-sigs/scheduler-plugins (Trimaran, KEP 357), for the worse of CPU and memory. Two risks
are weighed: how far the sum of limits reaches beyond the node, of the room between requests and limits; and how likely
the load, as a Beta distribution with the measured mean and deviation, is above the sum of requests. A pod without a limit
counts with what it asks for, there as here. What was fixed:

- Measurements count as long as they are trusted. The original went on with those of hours ago, and took the load of a
  resource that is not measured for none. Here such a resource is judged by limits and requests, with half of the points.
- Pods that no sample shows yet are part of the load: their requests were counted at once and their use was not, so that a
  burst of pods made a node look safer.
- Load and requests are both shares of the machine; the original compared one of capacity with one of allocatable.
- With fewer than two samples nothing is known of the deviation. The original took it for 0; here it is half of the most
  that a load with this mean can have.
- Among nodes without any risk the one with lower limits is preferred, by one point at most, instead of none.
- Pods that ask for nothing and have no limits are no concern of this plugin, and get no score instead of 0 everywhere.

`strict` brings the original back. How measurements are made is left to `load`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.load.columns import LoadColumns
from trimtab.core.load.provider import METRICS_SERVER, MetricProvider
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.placing.amounts import ResourceFigures
from trimtab.core.placing.contract import MAX_SCORE, Bools, Ints, Normalise, Rows
from trimtab.core.placing.measured.beta import Remembered, below
from trimtab.core.placing.measured.shares import PARTS, blended, counted, level, requested, rounded
from trimtab.core.placing.measured.usage import share_of

HALF_EACH = ResourceFigures(((CPU, 0.5), (MEMORY, 0.5)))
WIDEST = 0.99  # of the variance that a share with this mean can have at most
TIE = 0.01  # of the points, that go to low limits

# What was worked out for all rows, until the figures change: it is the same for pods of every kind.
_REMEMBERED: WeakKeyDictionary[LoadColumns, dict[Hashable, Remembered]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class LowRiskOverCommitment:
    """`risk_limit_weights` says per resource how much of the risk goes by limits, from 0 to 1; the rest goes by load.

    The measured deviation is multiplied by the root of `smoothing_window_size`, because means of so many samples vary by so
    much less. `metric_provider` and `watcher_address` become sources; here they mean nothing.
    """

    name: ClassVar[str] = "LowRiskOverCommitment"
    woken_by: ClassVar[Change] = Change.NOTHING
    reads: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    parts: ClassVar[int] = PARTS

    smoothing_window_size: int = 5
    risk_limit_weights: ResourceFigures = HALF_EACH
    metric_provider: MetricProvider = METRICS_SERVER
    watcher_address: str = ""
    strict: bool = False

    def __post_init__(self) -> None:
        if self.smoothing_window_size < 1:
            raise ValueError(f"smoothingWindowSize: {self.smoothing_window_size} must be 1 or more")
        for name, weight in self.risk_limit_weights.figures:
            if name not in (CPU, MEMORY):
                raise ValueError(f"riskLimitWeights: {name[:100]!r} is neither cpu nor memory")
            if not 0 <= weight <= 1:
                raise ValueError(f"riskLimitWeights: {weight:g} for {name} is not between 0 and 1")

    def signs(self, pod: Pod) -> Hashable:
        return pod.demand

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not (pod.demand.limit_of(CPU) or pod.demand.limit_of(MEMORY)):
            return None
        cpu, memory = (Commitment(view, pod, each, rows) for each in (CPU, MEMORY))
        if self.strict:
            risk = np.maximum(self._original(cpu), self._original(memory))
            return rounded(np.where(cpu.unmeasured & memory.unmeasured, 0.0, (1.0 - risk) * MAX_SCORE))
        points = np.minimum(self._points(cpu), self._points(memory))
        fullness = np.maximum(cpu.fullness, memory.fullness)
        return counted(points * (1.0 - TIE) + (1.0 - fullness) * MAX_SCORE * TIE)

    def _points(self, at: Commitment) -> Floats:
        whole = at.view.capacity(at.resource)[at.rows]
        mean = np.clip(share_of(level(at.view, at.resource, at.rows), whole), 0.0, 1.0)
        deviation = np.clip(share_of(at.deviation, whole), 0.0, 1.0) * math.sqrt(self.smoothing_window_size)
        deviation = np.where(np.isnan(deviation), _widest(mean) / 2.0, deviation)
        exceeding = 1.0 - self._within(at, mean, deviation, whole)
        asked = np.minimum(requested(at.view, at.pod, at.resource, at.rows), 1.0)
        weight = self.risk_limit_weights.of(at.resource, 0.5)
        measured, by_requests = (
            (1.0 - (weight * at.limit_risk + (1.0 - weight) * each)) * MAX_SCORE for each in (exceeding, asked)
        )
        return blended(at.view, at.resource, at.rows, measured, by_requests)

    def _original(self, at: Commitment) -> Floats:
        """The risk; load that is not measured adds none."""
        whole = at.view.capacity(at.resource)[at.rows]
        mean, deviation = (
            np.clip(np.nan_to_num(each) / np.maximum(whole, 1), 0.0, 1.0) for each in (at.mean, at.deviation)
        )
        within = self._within(at, mean, deviation * math.sqrt(self.smoothing_window_size), at.offered)
        exceeding = np.where(at.unmeasured, 0.0, 1.0 - within)
        weight = self.risk_limit_weights.of(at.resource, 0.5)
        return np.clip(weight * at.limit_risk + (1.0 - weight) * exceeding, 0.0, 1.0)

    def _within(self, at: Commitment, mean: Floats, deviation: Floats, whole: Ints) -> Floats:
        """How likely the load is below requests, given that it is below limits; NaN where the mean is."""
        deviation = np.minimum(deviation, math.sqrt(WIDEST) * _widest(mean))
        spread = (mean > 0.0) & (deviation > 0.0)
        asked, limits = (np.clip(share_of(each.astype(np.float64), whole), 0.0, 1.0) for each in (at.asked, at.limits))
        answer = np.where(np.isnan(mean), np.nan, (mean <= asked) | (mean == 0.0))
        answer[spread] = self._below(at, "asked", mean, deviation, asked, spread)
        bounded = at.limits < at.offered
        under = bounded & spread & (at.limits > 0)
        likely = self._below(at, "limits", mean, deviation, limits, under)
        answer[under] = np.where(
            likely > 0.0, np.minimum(answer[under] / np.where(likely > 0.0, likely, 1.0), 1.0), answer[under]
        )
        answer[bounded & (at.limits == 0) & ~np.isnan(mean)] = 1.0
        return answer

    def _below(self, at: Commitment, which: str, mean: Floats, deviation: Floats, bound: Floats, rows: Bools) -> Floats:
        figures = (mean[rows], deviation[rows], bound[rows])
        if len(mean) < at.view.count or not len(mean):
            return below(*figures)
        kept = _REMEMBERED.setdefault(at.view.load, {})
        return kept.setdefault((self.strict, at.resource, which), Remembered()).below(*figures)


class Commitment:
    """What is known of one resource on the picked rows: requests and limits without and with the pod, and measurements."""

    def __init__(self, view: View, pod: Pod, resource: str, rows: Rows) -> None:
        self.view, self.pod, self.resource, self.rows = view, pod, resource, rows
        self.offered = view.allocatable(resource)[rows]
        self.asked = np.minimum(view.requested(resource)[rows], self.offered)
        self.limits = view.limited(resource)[rows]
        mean, latest = view.load.mean(resource)[: view.count][rows], view.load.latest(resource)[: view.count][rows]
        self.mean = np.where(np.isnan(mean), latest, mean)
        self.deviation = view.load.deviation(resource)[: view.count][rows]

    @property
    def unmeasured(self) -> Bools:
        return np.isnan(self.mean) & np.isnan(self.deviation)

    @property
    def limit_risk(self) -> Floats:
        """How far limits reach beyond the node, of the room between requests and limits."""
        limits = self.limits + self.pod.demand.limit_of(self.resource)
        asked = np.minimum(self.asked + self.pod.demand.of(self.resource), self.offered)
        beyond: Floats = np.maximum(limits - self.offered, 0) / np.maximum(limits - asked, 1)
        return beyond

    @property
    def fullness(self) -> Floats:
        """0 without limits, a half where they are as much as there is."""
        limits = (self.limits + self.pod.demand.limit_of(self.resource)).astype(np.float64)
        return limits / np.maximum(limits + self.offered, 1.0)


def _widest(mean: Floats) -> Floats:
    return np.sqrt(mean * (1.0 - mean))
