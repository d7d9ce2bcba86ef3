"""LoadAwareScheduling: refuses nodes that would use too much with the pod, and prefers those that would use the least.

After Koordinator's plugin, with its arguments, thresholds and estimates; an agent on each node is not needed, any source
of measurements will do. What was fixed:

- While an agent was down its node was refused, so an outage could stop all scheduling: here a node whose use is not known
  passes and is scored by requests, unless `enableScheduleWhenNodeMetricsExpired` is set to false.
- Pods that leave were counted until the next report; here they are taken off at once.
- What pods will use is learnt from their siblings before `estimatedScalingFactors` are asked.
- A refusal that an eviction could cure is told apart from one where the pod alone is too much.

Prod pods (`measured/prod`) are judged by what prod pods use, where `prodUsageThresholds` or `scoreAccordingProdUsage` say
so; a node's annotation goes before the thresholds of the arguments, map by map, as in Koordinator.

`strict` refuses nodes without data unless told otherwise and gives them no points, estimates by the factors alone, and
scores in whole points.
How old a measurement may be is said for all plugins together, by the settings of measured load; a node that lags behind
the others by `nodeMetricExpirationSeconds` has expired before that.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from math import floor, inf
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.change import Change
from trimtab.core.model.node import UsageThresholds
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.span import Span
from trimtab.core.placing.contract import MAX_SCORE, Bools, Ints, Normalise, Rows
from trimtab.core.placing.measured import few, usage
from trimtab.core.placing.measured.limits import codes_above, passed
from trimtab.core.placing.measured.prod import is_prod, used_by_prod, used_by_prod_on
from trimtab.core.placing.measured.thresholds import NOTHING_SAID, Both, Figure, limits

EXPIRED = -1
AGGREGATED = 2  # the bits of CPU and memory by a percentile come after the others
TYPES = {"avg": 0, "p50": 50, "p90": 90, "p95": 95, "p99": 99}
SPANS = (300.0, 600.0, 1800.0)
LEARNT = ("siblings", "cluster")  # rules that know better than a fixed factor
UNASKED = {CPU: 250.0, MEMORY: 200.0 * 1024 * 1024}


@dataclass(frozen=True, slots=True)
class ByResource:
    """A whole number for each, 0 to 100; 0 stands for nothing said."""

    cpu: int = 0
    memory: int = 0

    def __post_init__(self) -> None:
        for name, percent in (("cpu", self.cpu), ("memory", self.memory)):
            if not 0 <= percent <= 100:
                raise ValueError(f"{name} is {percent}: it must be from 0 to 100")

    def of(self, resource: str) -> int:
        return self.cpu if resource == CPU else self.memory

    @property
    def both(self) -> Both:
        return self.cpu, self.memory

    def __bool__(self) -> bool:
        return bool(self.cpu or self.memory)


NONE = ByResource()
THRESHOLDS = ByResource(65, 95)
EQUAL = ByResource(1, 1)
FACTORS = ByResource(85, 70)
UNSET = Span(0)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Percentiles in place of the latest value: for the filter with thresholds of their own, and for the score."""

    usage_thresholds: ByResource = NONE
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Span = UNSET
    score_aggregation_type: str = ""
    score_aggregated_duration: Span = UNSET

    def __post_init__(self) -> None:
        for name, kind in (
            ("usageAggregationType", self.usage_aggregation_type),
            ("scoreAggregationType", self.score_aggregation_type),
        ):
            if kind and kind not in TYPES:
                raise ValueError(f"{name}: {kind!r} is not one of {', '.join(TYPES)}")
        for name, span in (
            ("usageAggregatedDuration", self.usage_aggregated_duration),
            ("scoreAggregatedDuration", self.score_aggregated_duration),
        ):
            if span and span not in SPANS:
                raise ValueError(f"{name} is {span:g}s: it must be 5m, 10m or 30m")
        if self.usage_thresholds and not self.usage_aggregation_type:
            raise ValueError(f"usageThresholds need a usageAggregationType: {', '.join(TYPES)}")


@dataclass(frozen=True, slots=True)
class LoadAwareScheduling:
    """Codes are bits, CPU and memory, and the same by percentiles, or EXPIRED; pods of DaemonSets are not held back."""

    name: ClassVar[str] = "LoadAwareScheduling"
    woken_by: ClassVar[Change] = (
        Change.LOAD | Change.POD_LEFT | Change.POD_ALTERED | Change.NODE_ADDED | Change.ALLOCATABLE
    )
    reads: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    parts: ClassVar[int] = usage.PARTS

    filter_expired_node_metrics: bool = True
    node_metric_expiration_seconds: int = 180
    enable_schedule_when_node_metrics_expired: bool | None = None
    resource_weights: ByResource = EQUAL
    dominant_resource_weight: int = 0
    usage_thresholds: ByResource = THRESHOLDS
    prod_usage_thresholds: ByResource | None = None
    score_according_prod_usage: bool = False
    prod_usage_include_sys: bool = False
    estimator: str = "defaultEstimator"
    estimated_scaling_factors: ByResource = FACTORS
    estimated_seconds_after_pod_scheduled: int = 0
    estimated_seconds_after_initialized: int = 0
    allow_customize_estimation: bool = False
    aggregated: Aggregated | None = None
    supported_resources: tuple[str, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        if not self.resource_weights and not self.dominant_resource_weight:
            raise ValueError("resourceWeights and dominantResourceWeight are all 0: one must be above")
        if not 0 <= self.dominant_resource_weight <= 100:
            raise ValueError(f"dominantResourceWeight is {self.dominant_resource_weight}: it must be from 0 to 100")
        if self.node_metric_expiration_seconds <= 0:
            raise ValueError("nodeMetricExpirationSeconds must be 1 or more")

    def signs(self, pod: Pod) -> Hashable:
        return (usage.asks_and_kin(pod), usage.of_daemon_set(pod), is_prod(pod))

    # --- filter

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        count = len(view.pod_count[rows])
        if usage.of_daemon_set(pod):
            return np.zeros(count, dtype=np.int64)
        prod = is_prod(pod)
        if self._is_plain() and not self._refuses_expired() and (some := few.few(view, rows)):
            judged = {row: self._judged_by(view.nodes[row].thresholds or NOTHING_SAID, prod) for row in some}
            if not any(figure.kind for figure, _ in judged.values()):
                own = self._own_of(view, pod)
                return few.column(lambda row: self._code(view, own, row, *judged[row]), some)
        answer = self._held_back(view, pod, rows, prod)
        if self._refuses_expired():
            answer[self._expired(view, rows)] = EXPIRED
        return answer

    def _expired(self, view: View, rows: Rows) -> Bools:
        """Nodes without data, and those whose own is so much older than the newest of any node."""
        measured = usage.pair(view.load.measured, view, rows)
        newest = np.array([[usage.newest(view, resource)] for resource in usage.PAIR])
        late = newest - measured > self.node_metric_expiration_seconds
        cpu, memory = late | np.isnan(usage.expected_pair(view, rows))
        expired: Bools = cpu | memory
        return expired

    def _refuses_expired(self) -> bool:
        allowed = self.enable_schedule_when_node_metrics_expired
        return self.filter_expired_node_metrics and not (not self.strict if allowed is None else allowed)

    def _held_back(self, view: View, pod: Pod, rows: Rows, prod: bool) -> Ints:
        own, offered = self._own(view, pod), usage.offered_pair(view.allocatable, rows)
        answer: Ints = np.zeros(offered.shape[1], dtype=np.int64)
        for figure, most in limits(view, rows, (self, prod), lambda said: self._judged_by(said, prod)).items():
            percent = usage.share_of(self._figure(view, rows, figure) + own, offered) * 100
            above = np.floor(percent + 0.5) > most
            codes = codes_above(above, partial(_alone_above, own, offered, most))
            answer += codes << AGGREGATED if figure.kind else codes
        return answer

    def _judged_by(self, said: UsageThresholds, prod: bool) -> tuple[Figure, Both]:
        """Which figure of a node is compared with what; a map of its own stands in for the one of the arguments."""
        prods = self.prod_usage_thresholds.both if self.prod_usage_thresholds is not None else None
        if prod and (both := said.prod or prods) is not None:
            return Figure(prod=True), both
        if said.aggregated is not None:
            return Figure(kind=said.kind, seconds=said.seconds), said.aggregated
        ours = self.aggregated
        if ours is not None and ours.usage_thresholds:
            return Figure(
                kind=ours.usage_aggregation_type, seconds=ours.usage_aggregated_duration
            ), ours.usage_thresholds.both
        return Figure(), said.usage or self.usage_thresholds.both

    def _code(self, view: View, own: tuple[float, float], row: int, figure: Figure, both: Both) -> int:
        """The same for one row, where a limit is passed from a half above it on."""
        limits = (both[0] or inf, both[1] or inf)
        shares = self._shares_of(view, own, row, figure)
        above = [share * 100 + 0.5 >= limit + 1 for share, limit in zip(shares, limits, strict=True)]
        offered = (view.allocatable(resource).item(row) for resource in usage.PAIR)
        return few.code(
            above,
            lambda: [share * 100 > limit for share, limit in zip(map(few.share, own, offered), limits, strict=True)],
        )

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        if code == EXPIRED:
            return ("node(s) nodeMetric expired",)
        kinds = [(usage.PAIR[bit % AGGREGATED], " aggregated" * (bit >= AGGREGATED)) for bit in passed(code)]
        return tuple(f"node(s) {resource}{kind} usage exceed threshold" for resource, kind in kinds)

    # --- score

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        figure = self._scored_by(pod)
        if self._is_plain() and (some := few.few(view, rows)):
            own = self._own_of(view, pod)
            return few.column(lambda row: self._points(view, pod, own, row, figure), some)
        used = self._figure(view, rows, figure) + self._own(view, pod)
        shares = usage.share_of(used, usage.offered_pair(view.allocatable, rows))
        free = (1.0 - np.minimum(usage.by_requests(view, rows, pod, shares), 1.0)) * MAX_SCORE
        if self.strict:
            free = np.floor(free + 1e-9)
        weights, dominant = self.resource_weights, self.dominant_resource_weight
        total = usage.weighted(weights.cpu, weights.memory, free) + np.minimum(*free) * dominant
        mean = total / (weights.cpu + weights.memory + dominant)
        if self.strict:
            return np.where(self._expired(view, rows), 0, usage.in_parts(mean))
        return usage.points(1.0 - mean / MAX_SCORE)

    def _scored_by(self, pod: Pod) -> Figure:
        if self.score_according_prod_usage and is_prod(pod):
            return Figure(prod=True)
        ours = self.aggregated
        return Figure(kind=ours.score_aggregation_type, seconds=ours.score_aggregated_duration) if ours else Figure()

    def _points(self, view: View, pod: Pod, own: tuple[float, float], row: int, figure: Figure) -> int:
        """The same for one row."""
        shares = few.known(view, pod, row, self._shares_of(view, own, row, figure))
        cpu, memory = ((1.0 - min(share, 1.0)) * MAX_SCORE for share in shares)
        weights, dominant = self.resource_weights, self.dominant_resource_weight
        total = weights.cpu * cpu + weights.memory * memory + min(cpu, memory) * dominant
        mean = total / (weights.cpu + weights.memory + dominant)
        return few.points(1.0 - mean / MAX_SCORE)

    def _is_plain(self) -> bool:
        """Whether the newest values alone count, in parts of points."""
        return self.aggregated is None and not self.strict

    # --- what is and will be used, a line each for CPU and memory

    def _figure(self, view: View, rows: Rows, figure: Figure) -> Floats:
        """What is used, with pods that no sample shows yet; by a percentile where one is asked for and known."""
        if figure.prod:
            return used_by_prod(view, rows, self.prod_usage_include_sys)
        latest = usage.expected_pair(view, rows)
        if not figure.kind:
            return latest
        percent, seconds, load = TYPES[figure.kind], int(figure.seconds or SPANS[-1]), view.load
        found = usage.pair(
            lambda each: load.percentile(each, percent, seconds) if percent else load.average(each, seconds), view, rows
        )
        by_kind = found + usage.pair(load.pending, view, rows)
        return np.where(np.isnan(by_kind), latest, np.maximum(by_kind, 0.0))

    def _shares_of(self, view: View, own: tuple[float, float], row: int, figure: Figure) -> list[float]:
        """How full one node will be with the pod, of CPU and memory."""
        if not figure.prod:
            return few.shares(view.load.expected, view.allocatable, own, row)
        used = used_by_prod_on(view, row, self.prod_usage_include_sys)
        offered = (view.allocatable(resource).item(row) for resource in usage.PAIR)
        return [few.share(amount + more, whole) for amount, more, whole in zip(used, own, offered, strict=True)]

    def _own(self, view: View, pod: Pod) -> Floats:
        return np.array([[amount] for amount in self._own_of(view, pod)])

    def _own_of(self, view: View, pod: Pod) -> tuple[float, float]:
        return self._estimate(view, pod, CPU), self._estimate(view, pod, MEMORY)

    def _estimate(self, view: View, pod: Pod, resource: str) -> float:
        if not self.strict:
            mean, _, rule = view.load.estimate(pod, resource)
            if rule in LEARNT:
                return mean
        factor = self.estimated_scaling_factors.of(resource) or FACTORS.of(resource)
        return scaled_demand(pod, resource, factor)

    def remark(self, view: View, pod: Pod) -> str:
        return "" if self._refuses_expired() else usage.blind_spots(view)


def _alone_above(own: Floats, offered: Ints, most: Floats) -> Bools:
    """Where the pod alone is too much."""
    above: Bools = usage.share_of(own, offered) * 100 > most
    return above


def scaled_demand(pod: Pod, resource: str, factor: int) -> float:
    """Koordinator's estimate: so many percent of request or limit, whichever is more, and no more than the limit."""
    request, limit = pod.demand.of(resource), dict(pod.demand.limits).get(resource, 0)
    if not request and not limit:
        return UNASKED[resource]
    scaled = float(floor(max(request, limit) * factor / 100 + 0.5))
    return min(scaled, float(limit)) if limit else scaled
