"""LoadAwareScheduling: rejects nodes that would use too much with the pod, and prefers those that would use the least.

After Koordinator's plugin, with its arguments, thresholds and estimates; it needs no agent on the nodes, only a source
of metrics. Fixed here:

- A node whose agent was down was rejected, so an outage could stop all scheduling. Here a node without metrics passes
  and is scored by requests, unless `enableScheduleWhenNodeMetricsExpired` is set to false.
- Terminating pods were counted until the next report; here they are subtracted at once.
- The usage of a pod is learned from its siblings before `estimatedScalingFactors` apply.
- A rejection that an eviction could resolve differs from one where the pod alone is too much.

Prod pods (`prod_usage`) are compared with the usage of prod pods where `prodUsageThresholds` or
`scoreAccordingProdUsage` say so; a node's annotation overrides the thresholds of the arguments, map by map, as in
Koordinator.

`strict` rejects nodes without metrics unless configured otherwise and gives them no points, and scores in whole points.
Usage is the average of five minutes, as the agent reports it, plus the estimates, by the factors alone, of pods placed
later than a minute before, as far as they exceed what these were measured to use; pods that have left stay in it. The age
at which metrics expire is a setting for all plugins; a node that is `nodeMetricExpirationSeconds` behind the others has
expired before that. Prod usage and percentiles are as without `strict`, but for estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from math import floor, inf, nan
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.recently_placed import recent_sum
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Bools, Ints, Normalise, Rows
from trimtab.core.framework.load_scoring import scalar, utilisation
from trimtab.core.load.estimates import DEFAULT_AMOUNTS, LEARNED_RULES
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import INT32, Support, check_ranges, setting
from trimtab.core.plugins.load_aware_scheduling.arguments import (
    AGGREGATION_TYPES,
    AGGREGATION_WINDOWS,
    DEFAULT_FACTORS,
    DEFAULT_THRESHOLDS,
    EQUAL_WEIGHTS,
    Aggregated,
    ByResource,
    CpuAndMemory,
)
from trimtab.core.plugins.load_aware_scheduling.node_thresholds import (
    ANNOTATION,
    UsageMetric,
    UsageThresholds,
    limits_by_metric,
    parse_thresholds,
    thresholds_of,
)
from trimtab.core.plugins.load_aware_scheduling.prod_usage import is_prod, prod_usage, prod_usage_row
from trimtab.core.tables import Floats

METRICS_EXPIRED = -1
REPORT_WINDOW, REPORT_INTERVAL = 300.0, 60.0  # of Koordinator's agent
AGGREGATED_SHIFT = 2  # bits of CPU and memory by percentile come after the others


@dataclass(frozen=True, slots=True)
class LoadAwareScheduling:
    """Codes are bits, CPU and memory, and the same by percentiles, or METRICS_EXPIRED; DaemonSet pods always pass."""

    name: ClassVar[str] = "LoadAwareScheduling"
    requeue_on: ClassVar[Change] = (
        Change.LOAD | Change.POD_DELETED | Change.POD_UPDATED | Change.NODE_ADDED | Change.ALLOCATABLE
    )
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE
    node_annotations: ClassVar[Mapping[str, Callable[[str], object]]] = {ANNOTATION: parse_thresholds}

    filter_expired_node_metrics: bool = setting(True, "true unless set: false never rejects nodes without data")
    node_metric_expiration_seconds: int = setting(
        180,
        "180 unless set: a node whose metrics are older than this, compared to the others', counts as one without data",
        between=(1, INT32),
    )
    enable_schedule_when_node_metrics_expired: bool | None = setting(
        None, "true unless set (in Koordinator false): false rejects nodes without data"
    )
    resource_weights: ByResource = setting(
        EQUAL_WEIGHTS,
        "`{cpu: 1, memory: 1}` unless set, 0 to 100: the weight of each in the score",
        empty_is_unset=True,
    )
    dominant_resource_weight: int = setting(
        0, "0 unless set, up to 100: an additional weight for the scarcer of the two", between=(0, 100)
    )
    usage_thresholds: ByResource = setting(
        DEFAULT_THRESHOLDS,
        "`{cpu: 65, memory: 95}` unless set: the utilization, with the pod, above which a node is rejected; 0 is none",
        empty_is_unset=True,
    )
    prod_usage_thresholds: ByResource | None = setting(
        None,
        "none unless set: the same for prod pods, by the usage of prod pods, in place of usageThresholds",
        empty_is_unset=True,
    )
    score_according_prod_usage: bool = setting(
        False, "false unless set: true scores nodes for prod pods by the usage of prod pods"
    )
    prod_usage_include_sys: bool = setting(
        False, "false unless set: true adds the node's system usage to the usage of prod pods"
    )
    estimator: str = setting(
        "defaultEstimator",
        "usage is learned from a pod's siblings, and estimated by the factors if there are none",
        support=Support.IGNORED,
    )
    estimated_scaling_factors: ByResource = setting(
        DEFAULT_FACTORS,
        "`{cpu: 85, memory: 70}` unless set: the estimated usage of a pod in percent of its request or limit",
        empty_is_unset=True,
    )
    estimated_seconds_after_pod_scheduled: int = setting(
        0, "a pod is estimated until it is measured", support=Support.IGNORED
    )
    estimated_seconds_after_initialized: int = setting(
        0, "a pod is estimated until it is measured", support=Support.IGNORED
    )
    allow_customize_estimation: bool = setting(False, "estimates in pods are not supported", support=Support.IGNORED)
    aggregated: Aggregated | None = setting(
        None, "avg, p50, p90, p95 or p99 over 5m, 10m or 30m instead of the latest value, as in Koordinator"
    )
    supported_resources: tuple[str, ...] = setting((), "only CPU and memory are supported", support=Support.IGNORED)
    strict: bool = setting(
        False,
        "false unless set: true behaves as the original: nodes without data are rejected or score 0, and "
        "only factors estimate",
    )

    def __post_init__(self) -> None:
        if not self.resource_weights and not self.dominant_resource_weight:
            raise ValueError("resourceWeights and dominantResourceWeight are all 0: set at least one of them")
        check_ranges(self)

    def signature(self, pod: Pod) -> Hashable:
        return (utilisation.estimate_signature(pod), utilisation.is_daemon_set_pod(pod), is_prod(pod))

    # --- filter

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        count = len(view.pod_count[rows])
        if utilisation.is_daemon_set_pod(pod):
            return np.zeros(count, dtype=np.int64)
        prod = is_prod(pod)
        if self._is_latest_only() and not self._rejects_expired() and (few_rows := scalar.small_selection(view, rows)):
            limits = {row: self._limits_for(thresholds_of(view.nodes[row]), prod) for row in few_rows}
            if not any(metric.aggregation for metric, _ in limits.values()):
                estimate = self._pod_estimate_pair(view, pod)
                return scalar.per_row(lambda row: self._code_row(view, estimate, row, *limits[row]), few_rows)
        codes = self._codes(view, pod, rows, prod)
        if self._rejects_expired():
            codes[self._expired(view, rows)] = METRICS_EXPIRED
        return codes

    def _expired(self, view: View, rows: Rows) -> Bools:
        """Nodes without metrics, and those whose metrics are that much older than the newest of any node."""
        measured = utilisation.cpu_and_memory(view.load.sampled_at, view, rows)
        newest = np.array([[utilisation.newest_sample_time(view, resource)] for resource in utilisation.RESOURCES])
        late = newest - measured > self.node_metric_expiration_seconds
        cpu, memory = late | np.isnan(utilisation.expected_usage(view, rows))
        expired: Bools = cpu | memory
        return expired

    def _rejects_expired(self) -> bool:
        allowed = self.enable_schedule_when_node_metrics_expired
        return self.filter_expired_node_metrics and not (not self.strict if allowed is None else allowed)

    def _codes(self, view: View, pod: Pod, rows: Rows, prod: bool) -> Ints:
        estimate, allocatable = self._pod_estimate(view, pod), utilisation.quantities(view.allocatable, rows)
        result: Ints = np.zeros(allocatable.shape[1], dtype=np.int64)
        for metric, limits in limits_by_metric(
            view, rows, (self, prod), lambda thresholds: self._limits_for(thresholds, prod)
        ).items():
            percent = utilisation.ratios(self._usage(view, rows, metric) + estimate, allocatable) * 100
            above = np.floor(percent + 0.5) > limits
            codes = utilisation.threshold_codes(above, partial(_pod_only_above, estimate, allocatable, limits))
            result += codes << AGGREGATED_SHIFT if metric.aggregation else codes
        return result

    def _limits_for(self, thresholds: UsageThresholds, prod: bool) -> tuple[UsageMetric, CpuAndMemory]:
        """The metric of a node and its limits; an annotation replaces the same map of the arguments."""
        prod_limits = self.prod_usage_thresholds.pair if self.prod_usage_thresholds is not None else None
        if prod and (limits := thresholds.prod or prod_limits) is not None:
            return UsageMetric(prod=True), limits
        if thresholds.aggregated is not None:
            return UsageMetric(aggregation=thresholds.kind, seconds=thresholds.seconds), thresholds.aggregated
        aggregated = self.aggregated
        if aggregated is not None and aggregated.usage_thresholds:
            return UsageMetric(
                aggregation=aggregated.usage_aggregation_type, seconds=aggregated.usage_aggregated_duration
            ), aggregated.usage_thresholds.pair
        return UsageMetric(), thresholds.usage or self.usage_thresholds.pair

    def _code_row(
        self, view: View, estimate: tuple[float, float], row: int, metric: UsageMetric, pair: CpuAndMemory
    ) -> int:
        """The same for one row; a limit is exceeded from half a percent above it."""
        limits = (pair[0] or inf, pair[1] or inf)
        shares = self._utilisations_row(view, estimate, row, metric)
        above = [share * 100 + 0.5 >= limit + 1 for share, limit in zip(shares, limits, strict=True)]
        allocatable = (view.allocatable(resource).item(row) for resource in utilisation.RESOURCES)
        pod_only = map(scalar.ratio, estimate, allocatable)
        return scalar.threshold_code(
            above, lambda: [share * 100 > limit for share, limit in zip(pod_only, limits, strict=True)]
        )

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        if code == METRICS_EXPIRED:
            return ("node(s) nodeMetric expired",)
        kinds = [
            (utilisation.RESOURCES[bit % AGGREGATED_SHIFT], " aggregated" * (bit >= AGGREGATED_SHIFT))
            for bit in utilisation.exceeded_thresholds(code)
        ]
        return tuple(f"node(s) {resource}{kind} usage exceed threshold" for resource, kind in kinds)

    # --- score

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        metric = self._score_metric(pod)
        if self._is_latest_only() and (few_rows := scalar.small_selection(view, rows)):
            own = self._pod_estimate_pair(view, pod)
            return scalar.per_row(lambda row: self._score_row(view, pod, own, row, metric), few_rows)
        used = self._usage(view, rows, metric) + self._pod_estimate(view, pod)
        shares = utilisation.ratios(used, utilisation.quantities(view.allocatable, rows))
        free = (1.0 - np.minimum(utilisation.fill_from_requests(view, rows, pod, shares), 1.0)) * MAX_SCORE
        if self.strict:
            free = np.floor(free + 1e-9)
        weights, dominant = self.resource_weights, self.dominant_resource_weight
        total = utilisation.weighted_sum(weights.cpu, weights.memory, free) + np.minimum(*free) * dominant
        mean = total / (weights.cpu + weights.memory + dominant)
        if self.strict:
            return np.where(self._expired(view, rows), 0, utilisation.whole_points(mean))
        return utilisation.free_score(1.0 - mean / MAX_SCORE)

    def _score_metric(self, pod: Pod) -> UsageMetric:
        if self.score_according_prod_usage and is_prod(pod):
            return UsageMetric(prod=True)
        aggregated = self.aggregated
        return (
            UsageMetric(aggregation=aggregated.score_aggregation_type, seconds=aggregated.score_aggregated_duration)
            if aggregated
            else UsageMetric()
        )

    def _score_row(self, view: View, pod: Pod, estimate: tuple[float, float], row: int, metric: UsageMetric) -> int:
        """The same for one row."""
        shares = scalar.fill_from_requests(view, pod, row, self._utilisations_row(view, estimate, row, metric))
        cpu, memory = ((1.0 - min(share, 1.0)) * MAX_SCORE for share in shares)
        weights, dominant = self.resource_weights, self.dominant_resource_weight
        total = weights.cpu * cpu + weights.memory * memory + min(cpu, memory) * dominant
        mean = total / (weights.cpu + weights.memory + dominant)
        return scalar.free_score(1.0 - mean / MAX_SCORE)

    def _is_latest_only(self) -> bool:
        """Whether only the latest values are used, in fractions of points."""
        return self.aggregated is None and not self.strict

    # --- usage, a line each for CPU and memory

    def _usage(self, view: View, rows: Rows, metric: UsageMetric) -> Floats:
        """Usage with pods that no sample shows yet; by a percentile where one is configured and known."""
        if metric.prod:
            return prod_usage(view, rows, self.prod_usage_include_sys)
        latest = self._reported_usage(view, rows) if self.strict else utilisation.expected_usage(view, rows)
        if not metric.aggregation:
            return latest
        percent, seconds, load = (
            AGGREGATION_TYPES[metric.aggregation],
            int(metric.seconds or AGGREGATION_WINDOWS[-1]),
            view.load,
        )
        aggregated = utilisation.cpu_and_memory(
            lambda each: load.percentile(each, percent, seconds) if percent else load.recent_mean(each, seconds),
            view,
            rows,
        )
        unsampled = (
            self._unreported(view, rows) if self.strict else utilisation.cpu_and_memory(load.unsampled, view, rows)
        )
        with_unsampled = aggregated + unsampled
        return np.where(np.isnan(with_unsampled), latest, np.maximum(with_unsampled, 0.0))

    def _reported_usage(self, view: View, rows: Rows) -> Floats:
        average = utilisation.cpu_and_memory(lambda each: view.load.recent_mean(each, REPORT_WINDOW), view, rows)
        return average + self._unreported(view, rows)

    def _unreported(self, view: View, rows: Rows) -> Floats:
        """By how much estimates of the pods that the agent may not have reported yet exceed their measured usage."""

        def excess(resource: str, pod: Pod) -> float:
            slot = view.pod_table.slot.get(pod.uid)
            measured = nan if slot is None else view.load.pod_usage(resource).sample.item(slot)
            return max(self._estimate(view, pod, resource) - (measured if measured == measured else 0.0), 0.0)

        after = (view.load.sampled_at(each) - REPORT_INTERVAL for each in utilisation.RESOURCES)
        return np.array(
            [
                recent_sum(view, time, rows, partial(excess, each))
                for each, time in zip(utilisation.RESOURCES, after, strict=True)
            ]
        )

    def _utilisations_row(
        self, view: View, estimate: tuple[float, float], row: int, metric: UsageMetric
    ) -> list[float]:
        """One node's utilisation with the pod, of CPU and memory."""
        if not metric.prod:
            return scalar.measured_ratios(view.load.expected, view.allocatable, estimate, row)
        used = prod_usage_row(view, row, self.prod_usage_include_sys)
        allocatable = (view.allocatable(resource).item(row) for resource in utilisation.RESOURCES)
        return [
            scalar.ratio(amount + more, whole) for amount, more, whole in zip(used, estimate, allocatable, strict=True)
        ]

    def _pod_estimate(self, view: View, pod: Pod) -> Floats:
        return np.array([[amount] for amount in self._pod_estimate_pair(view, pod)])

    def _pod_estimate_pair(self, view: View, pod: Pod) -> tuple[float, float]:
        return self._estimate(view, pod, CPU), self._estimate(view, pod, MEMORY)

    def _estimate(self, view: View, pod: Pod, resource: str) -> float:
        if not self.strict:
            mean, _, rule = view.load.estimate(pod, resource)
            if rule in LEARNED_RULES:
                return mean
        factor = self.estimated_scaling_factors.of(resource) or DEFAULT_FACTORS.of(resource)
        return scaled_request(pod, resource, factor)

    def explain_note(self, view: View, pod: Pod) -> str:
        return "" if self._rejects_expired() else utilisation.unmeasured_note(view)


def _pod_only_above(own: Floats, offered: Ints, most: Floats) -> Bools:
    """Where the pod alone is too much."""
    above: Bools = utilisation.ratios(own, offered) * 100 > most
    return above


def scaled_request(pod: Pod, resource: str, factor: int) -> float:
    """Koordinator's estimate: a percentage of request or limit, whichever is higher, but at most the limit."""
    request, limit = pod.requests.of(resource), dict(pod.requests.limits).get(resource, 0)
    if not request and not limit:
        return DEFAULT_AMOUNTS[resource]
    scaled = float(floor(max(request, limit) * factor / 100 + 0.5))
    return min(scaled, float(limit)) if limit else scaled
