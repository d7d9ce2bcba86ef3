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

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.load.provider import METRICS_SERVER, MetricProvider
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.placing.amounts import ResourceFigures
from trimtab.core.placing.contract import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.placing.measured.beta import Remembered, within, within_alone
from trimtab.core.placing.measured.few import by_requests, column, few, share
from trimtab.core.placing.measured.shares import (
    blended,
    blended_of,
    counted,
    counted_of,
    deviation,
    deviation_of,
    level,
    level_of,
    requested,
    rounded,
)
from trimtab.core.placing.measured.usage import PAIR, PARTS, offered_pair, pair, share_of

HALF_EACH = ResourceFigures(((CPU, 0.5), (MEMORY, 0.5)))
TIE = 0.01  # of the points, that go to low limits


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
            return np.zeros(len(view.pod_count[rows]), dtype=np.int64) if self.strict else None
        if not self.strict and (some := few(view, rows)):
            return column(lambda row: self._of_one(view, pod, row), some)
        at = Commitment(view, pod, rows)
        if self.strict:
            return self._original(at)
        cpu, memory = self._points(at)
        points = np.minimum(cpu, memory) * (1.0 - TIE)
        points += (1.0 - at.fullness) * (TIE * MAX_SCORE)
        return counted(points)

    def _of_one(self, view: View, pod: Pod, row: int) -> int:
        """The same for one row."""
        (cpu, full_of_cpu), (memory, full_of_memory) = (self._points_of(view, pod, each, row) for each in PAIR)
        points = min(cpu, memory) * (1.0 - TIE)
        return counted_of(points + (1.0 - max(full_of_cpu, full_of_memory)) * (TIE * MAX_SCORE))

    def _points_of(self, view: View, pod: Pod, resource: str, row: int) -> tuple[float, float]:
        """By one resource, and how full limits make the node of it."""
        demand, whole, offered = pod.demand, view.capacity(resource).item(row), view.allocatable(resource).item(row)
        asked, limits = min(view.requested(resource).item(row), offered), view.limited(resource).item(row)
        top = limits + demand.limit_of(resource)
        beyond = float(max(top - offered, 0)) / max(top - min(asked + demand.of(resource), offered), 1)
        weight = self.risk_limit_weights.of(resource, 0.5)

        def left(load_risk: float) -> float:
            return (1.0 - (weight * beyond + (1.0 - weight) * load_risk)) * MAX_SCORE

        mean, has = min(share(level_of(view, resource, row), whole), 1.0), float(max(whole, 1))
        spread = deviation_of(view, resource, row, mean, whole, math.sqrt(self.smoothing_window_size))
        measured = left(1.0 - within_alone(mean, spread, asked / has, limits / has))
        trust = view.load.trust(resource).item(row)
        points = blended_of(trust, measured, lambda: left(min(by_requests(view, resource, row, pod), 1.0)))
        return points, top / max(top + float(offered), 1.0)

    def _points(self, at: Commitment) -> Floats:
        whole = offered_pair(at.view.capacity, at.rows)
        mean = np.minimum(share_of(level(at.view, at.rows), whole), 1.0)
        spread = deviation(at.view, at.rows, mean, whole, math.sqrt(self.smoothing_window_size))
        measured = self._left(at, 1.0 - self._within(at, mean, spread, whole))
        trust = pair(at.view.load.trust, at.view, at.rows)
        return blended(trust, measured, lambda: self._left(at, np.minimum(requested(at.view, at.pod, at.rows), 1.0)))

    def _left(self, at: Commitment, load_risk: Floats) -> Floats:
        """The points that both risks leave."""
        weights: Floats = np.array([[self.risk_limit_weights.of(resource, 0.5)] for resource in PAIR])
        return (1.0 - (weights * at.limit_risk + (1.0 - weights) * load_risk)) * MAX_SCORE

    def _original(self, at: Commitment) -> Ints:
        """Load that is not measured adds no risk, unless neither resource is."""
        load, whole = at.view.load, np.maximum(offered_pair(at.view.capacity, at.rows), 1)
        columns = (load.mean, load.latest, load.deviation)
        mean, latest, spread = (pair(each, at.view, at.rows) / whole for each in columns)
        mean = np.where(mean == mean, mean, latest)
        missing = np.isnan(mean) & np.isnan(spread)
        mean, spread = (np.minimum(np.fmax(each, 0.0), 1.0) for each in (mean, spread))
        likely = self._within(at, mean, spread * math.sqrt(self.smoothing_window_size), at.offered)
        cpu, memory = self._left(at, np.where(missing, 0.0, 1.0 - likely))
        return rounded(np.where(missing[0] & missing[1], 0.0, np.minimum(cpu, memory)))

    def _within(self, at: Commitment, mean: Floats, spread: Floats, whole: Ints) -> Floats:
        """How likely the load is below requests, given that it is below limits; NaN where the mean is.

        For all rows it is the same for pods of every kind, so it is kept until the figures change.
        """
        whole = np.maximum(whole, 1)
        figures = [each.ravel() for each in (mean, spread, at.asked / whole, at.limits / whole)]
        if mean.shape[1] < at.view.count or not mean.size:
            return within(*figures).reshape(mean.shape)
        remembered: Remembered = at.view.load.worked_out.setdefault((self.name, self.strict), Remembered())
        return remembered.within(*figures).reshape(mean.shape)


class Commitment:
    """Requests and limits of CPU and memory on the picked rows, a line each: without the pod, and limits with it (`top`)."""

    __slots__ = ("asked", "limits", "offered", "pod", "rows", "top", "view")

    def __init__(self, view: View, pod: Pod, rows: Rows) -> None:
        self.view, self.pod, self.rows = view, pod, rows
        self.offered = offered_pair(view.allocatable, rows)
        self.asked = np.minimum(offered_pair(view.requested, rows), self.offered)
        self.limits = offered_pair(view.limited, rows)
        self.top = self.limits + np.array([[pod.demand.limit_of(resource)] for resource in PAIR])

    @property
    def limit_risk(self) -> Floats:
        """How far limits reach beyond the node, of the room between requests and limits."""
        own = np.array([[self.pod.demand.of(resource)] for resource in PAIR])
        asked = np.minimum(self.asked + own, self.offered)
        beyond: Floats = np.maximum(self.top - self.offered, 0) / np.maximum(self.top - asked, 1)
        return beyond

    @property
    def fullness(self) -> Floats:
        """Of the fuller one: 0 without limits, a half where they are as much as there is."""
        both: Floats = self.top / np.maximum(self.top + self.offered.astype(np.float64), 1.0)
        fuller: Floats = np.maximum(both[0], both[1])
        return fuller
