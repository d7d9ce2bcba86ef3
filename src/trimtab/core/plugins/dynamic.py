"""Dynamic: rejects nodes whose load was too high, and prefers the least loaded of the last minutes, hour and day.

After Crane's scheduler plugin; its policy is among the arguments, or in the file that they name. Fixed here:

- The hot value, which subtracts points from nodes that received many pods, was updated only when metrics were synced,
  every three minutes at best, so a burst went unseen. Here binds count at once, each a little, instead of 10 points for
  every second one; a lower score loses less, so hot nodes do not all end at 0.
- Only measured load counted. Here a node counts at least its expected usage, including pods that no sample shows yet
  and the pod being scheduled.
- An expired metric scored 0, as if the node were full, and no node was rejected any more. Here the node's other metrics
  count instead, and requests where there is none; thresholds never reject a node without metrics.

`strict` uses metrics as they are, steps of 10 points and whole points, and counts binds up to the last sync only: the
multiple of the shortest sync period (`syncPolicy`, three minutes unless set) before the node's last sample. The metrics
themselves are those of the last sample; Crane's are older, by up to a sync period each. They expire at the age that is
set for all plugins, Crane's five minutes after a sync period.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, lcm
from operator import gt
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.recently_placed import recent_count, recent_sum, recent_sum_on_row
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Bools, Ints, Normalise, Rows
from trimtab.core.framework.load_scoring import scalar, utilisation
from trimtab.core.model.change import Change
from trimtab.core.model.duration import Duration
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import SpecFile, check_ranges, setting
from trimtab.core.tables import Floats

FIVE_MINUTES = 300
SYNC_PERIOD = 180.0  # of the metric that Crane's default policy syncs most often
HOT_VALUE_PENALTY = 10.0  # points per unit of hot value
METRICS = {
    f"{prefix}_usage_{name}": (resource, span)
    for prefix, resource in (("cpu", CPU), ("mem", MEMORY))
    for name, span in (("avg_5m", FIVE_MINUTES), ("max_avg_1h", 3600), ("max_avg_1d", 86400))
}


Metric = tuple[str, int]  # the resource and the window in seconds
CpuAndMemory = tuple[float, float]  # amounts of CPU and memory


def _check_metric(name: str) -> None:
    if name not in METRICS:
        raise ValueError(f"unknown metric {name[:100]!r}: use one of {', '.join(METRICS)}")


@dataclass(frozen=True, slots=True)
class Predicate:
    """The metric must not exceed this ratio; 0 is no limit. The field is spelt as in Crane."""

    name: str
    max_limit_pecent: float = setting(0.0, between=(0, 1))

    def __post_init__(self) -> None:
        _check_metric(self.name)
        check_ranges(self)


@dataclass(frozen=True, slots=True)
class Priority:
    """The weight of a metric."""

    name: str
    weight: float = setting(0.0, between=(0, 100))

    def __post_init__(self) -> None:
        _check_metric(self.name)
        check_ranges(self)


@dataclass(frozen=True, slots=True)
class HotValue:
    """This many binds within the time range raise a node's hot value by one."""

    time_range: Duration
    count: int

    def __post_init__(self) -> None:
        if self.time_range <= 0 or self.count < 1:
            raise ValueError("timeRange must be positive and count at least 1")


@dataclass(frozen=True, slots=True)
class SyncPolicy:
    """How often Crane syncs the metric; here sources have their own interval."""

    name: str
    period: Duration

    def __post_init__(self) -> None:
        _check_metric(self.name)


@dataclass(frozen=True, slots=True)
class DynamicSchedulerPolicy:
    """The `spec` of Crane's DynamicSchedulerPolicy, with Crane's defaults."""

    sync_policy: tuple[SyncPolicy, ...] = ()
    predicate: tuple[Predicate, ...] = (
        Predicate("cpu_usage_avg_5m", 0.65),
        Predicate("cpu_usage_max_avg_1h", 0.75),
        Predicate("mem_usage_avg_5m", 0.65),
        Predicate("mem_usage_max_avg_1h", 0.75),
    )
    priority: tuple[Priority, ...] = (
        Priority("cpu_usage_avg_5m", 0.2),
        Priority("cpu_usage_max_avg_1h", 0.3),
        Priority("cpu_usage_max_avg_1d", 0.5),
        Priority("mem_usage_avg_5m", 0.2),
        Priority("mem_usage_max_avg_1h", 0.3),
        Priority("mem_usage_max_avg_1d", 0.5),
    )
    hot_value: tuple[HotValue, ...] = (HotValue(Duration(300), 5), HotValue(Duration(60), 2))

    def file_notes(self) -> Iterator[str]:
        """Notes for the author of a policy file."""
        if unsynced := self.unsynced_metrics:
            yield f"without syncPolicy Crane ignores {', '.join(unsynced)}; here all count"

    @property
    def sync_period(self) -> float:
        """How often Crane updates a node's hot value: whenever it syncs any metric."""
        return min((each.period for each in self.sync_policy if each.period > 0), default=SYNC_PERIOD)

    @property
    def unsynced_metrics(self) -> list[str]:
        """Metrics that are used and that Crane would not sync, and so never see."""
        copied = {each.name for each in self.sync_policy if each.period}
        return [each for each in METRICS if each not in copied and each in self._used_metrics]

    @property
    def _used_metrics(self) -> set[str]:
        return {each.name for each in self.predicate} | {each.name for each in self.priority}


DEFAULT_POLICY = DynamicSchedulerPolicy()


POLICY_FILE = SpecFile(
    "policy",
    "scheduler.policy.crane.io/v1alpha1",
    "DynamicSchedulerPolicy",
    "syncPolicy, predicate, priority and hotValue",
)


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Codes are bits, one per predicate of the policy; DaemonSet pods are never rejected."""

    name: ClassVar[str] = "Dynamic"
    requeue_on: ClassVar[Change] = (
        Change.LOAD | Change.POD_DELETED | Change.POD_UPDATED | Change.NODE_ADDED | Change.ALLOCATABLE
    )
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE

    policy: DynamicSchedulerPolicy = setting(
        DEFAULT_POLICY,
        "the `spec` of Crane's DynamicSchedulerPolicy: predicate, priority, hotValue (syncPolicy is "
        "checked and ignored)",
    )
    policy_config_path: str | None = setting(
        None,
        "a file with Crane's DynamicSchedulerPolicy, relative to this one; without it and `policy`, "
        "Crane's default policy applies",
        spec_file=POLICY_FILE,
    )
    strict: bool = setting(
        False, "false unless set: true uses metrics as they are and whole points, as the original does"
    )

    def __post_init__(self) -> None:
        if len(self.policy.predicate) > 32:
            raise ValueError("policy.predicate has more than 32 entries")

    def signature(self, pod: Pod) -> Hashable:
        return (() if self.strict else utilisation.estimate_signature(pod), utilisation.is_daemon_set_pod(pod))

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        if utilisation.is_daemon_set_pod(pod) or not self.policy.predicate:
            return np.zeros(len(view.pod_count[rows]), dtype=np.int64)
        if not self.strict and (few_rows := scalar.small_selection(view, rows)):
            estimate = scalar.pod_estimate(view, pod)
            return scalar.per_row(lambda row: self._code_row(view, estimate, row), few_rows)
        metrics = [METRICS[each.name] for each in self.policy.predicate]
        limits = np.array([[each.max_limit_pecent or np.inf] for each in self.policy.predicate])
        above = self._utilisations(view, metrics, pod, rows) > limits
        return utilisation.threshold_codes(
            above, None if self.strict else lambda: _pod_only(view, metrics, pod, rows) > limits
        )

    def _code_row(self, view: View, estimate: CpuAndMemory, row: int) -> int:
        """The same for one row."""
        predicate = self.policy.predicate
        limits = [each.max_limit_pecent or inf for each in predicate]
        return scalar.threshold_code(
            map(gt, _utilisations_row(view, predicate, estimate, row), limits),
            lambda: map(gt, _pod_only_row(view, predicate, estimate, row), limits),
        )

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return tuple(
            f"Load[{self.policy.predicate[bit].name}] of node(s) is too high"
            for bit in utilisation.exceeded_thresholds(code)
        )

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not self.policy.priority:
            return None
        if not self.strict and (few_rows := scalar.small_selection(view, rows)):
            estimate = scalar.pod_estimate(view, pod)
            return scalar.per_row(lambda row: self._score_row(view, pod, estimate, row), few_rows)
        metrics = [METRICS[each.name] for each in self.policy.priority]
        weights = np.array([each.weight for each in self.policy.priority])
        free = 1.0 - np.minimum(self._utilisations(view, metrics, pod, rows), 1.0)
        if self.strict:
            total = weights @ np.nan_to_num(free)
            weighted = np.floor(total * MAX_SCORE / max(weights.sum(), 1e-9) + 1e-9)
            return utilisation.whole_points(weighted - HOT_VALUE_PENALTY * self._hot_value(view, rows))
        weighted = _nanmean_weighted(weights, free)
        weighted = utilisation.fill_unknown(
            weighted, lambda: 1.0 - np.minimum(utilisation.utilisations(view, rows, pod), 1.0).mean(axis=0)
        )
        hot = HOT_VALUE_PENALTY / MAX_SCORE * self._hot_value(view, rows)
        return utilisation.free_score(1.0 - weighted * weighted / np.maximum(weighted + hot, 1e-9))

    def _score_row(self, view: View, pod: Pod, estimate: CpuAndMemory, row: int) -> int:
        """The same for one row."""
        total = weight_sum = 0.0
        shares = _utilisations_row(view, self.policy.priority, estimate, row)
        for share, each in zip(shares, self.policy.priority, strict=True):
            if share == share:
                total, weight_sum = total + each.weight * (1.0 - min(share, 1.0)), weight_sum + each.weight
        if weight_sum > 0:
            free = total / weight_sum
        else:
            full = scalar.fill_from_requests(
                view, pod, row, scalar.measured_ratios(view.load.expected, view.allocatable, estimate, row)
            )
            free = 1.0 - (min(full[0], 1.0) + min(full[1], 1.0)) / 2
        hot = (
            HOT_VALUE_PENALTY / MAX_SCORE * _RecentBinds(view, self.policy.hot_value).row(row)
            if self.policy.hot_value
            else 0.0
        )
        return scalar.free_score(1.0 - free * free / max(free + hot, 1e-9))

    def _utilisations(self, view: View, metrics: list[Metric], pod: Pod, rows: Rows) -> Floats:
        """Each metric over capacity, a line each; NaN where unknown."""
        resource_index = [utilisation.RESOURCES.index(resource) for resource, _ in metrics]
        used = np.array([_metric_column(view, *metric)[: view.count][rows] for metric in metrics])
        if not self.strict:
            estimate = utilisation.pod_estimate(view, pod)
            used = np.fmax(
                used + estimate[resource_index], (utilisation.expected_usage(view, rows) + estimate)[resource_index]
            )
        return utilisation.ratios(used, utilisation.quantities(view.capacity, rows)[resource_index])

    def _hot_value(self, view: View, rows: Rows) -> Floats:
        """The binds within each time range before the node's last sample, or its last sync; 0 without samples."""
        sampled_at = view.load.sampled_at(CPU)[: view.count]
        hot_value = np.zeros(len(view.pod_count[rows]))
        if self.strict:
            synced_at = np.floor(sampled_at / self.policy.sync_period) * self.policy.sync_period
            later = recent_count(view, synced_at, rows)
            for each in self.policy.hot_value:
                hot_value += (recent_count(view, synced_at - each.time_range, rows) - later) // each.count
            return hot_value
        return _RecentBinds(view, self.policy.hot_value).by_row(rows) if self.policy.hot_value else hot_value

    def explain_note(self, view: View, pod: Pod) -> str:
        return utilisation.unmeasured_note(view)


def _nanmean_weighted(weights: Floats, lines: Floats) -> Floats:
    """The weighted mean of known lines, NaN without any. Lines are added in a fixed order, for equal rounding."""
    known: Bools = ~np.isnan(lines)
    total: Floats = np.zeros(lines.shape[1])
    weight_sum: Floats = np.zeros(lines.shape[1])
    for weight, values, is_known in zip(weights.tolist(), lines, known, strict=True):
        total += np.where(is_known, weight * values, 0.0)
        weight_sum += weight * is_known
    return total / np.where(weight_sum > 0, weight_sum, np.nan)


class _RecentBinds:
    """What binds come to in degrees: each counts by itself, within each of the spans that it falls into."""

    __slots__ = ("divisor", "longest_window", "measured", "spans", "view")

    def __init__(self, view: View, hot_value: tuple[HotValue, ...]) -> None:
        self.view, self.measured = view, view.load.sampled_at(CPU)[: view.count]
        self.divisor = lcm(*(each.count for each in hot_value))  # so that sums are exact, in whatever order
        self.spans = [(each.time_range, self.divisor // each.count) for each in hot_value]
        self.longest_window = max(self.spans)[0]

    def by_row(self, rows: Rows) -> Floats:
        return recent_sum(self.view, self.measured - self.longest_window, rows, self._worth) / self.divisor

    def row(self, row: int) -> float:
        return (
            recent_sum_on_row(self.view, self.measured.item(row) - self.longest_window, row, self._worth) / self.divisor
        )

    def _worth(self, pod: Pod) -> float:
        pods = self.view.pod_table
        slot = pods.slot.get(pod.uid)
        if slot is None:  # added in an overlay: it counts as just placed
            return sum(share for _, share in self.spans)
        age = self.measured.item(pods.row.item(slot)) - self.view.load.placed_at.item(slot)
        return sum(share for span, share in self.spans if age < span)


def _metric_column(view: View, resource: str, span: int) -> Floats:
    return view.load.recent_mean(resource, span) if span == FIVE_MINUTES else view.load.peak(resource, span)


def _utilisations_row(
    view: View, metrics: Sequence[Predicate | Priority], estimate: CpuAndMemory, row: int
) -> list[float]:
    """Each metric over capacity, for one row."""
    load, ratios = view.load, []
    expected = [load.expected(resource).item(row) for resource in utilisation.RESOURCES]
    capacity = [view.capacity(resource).item(row) for resource in utilisation.RESOURCES]
    for each in metrics:
        resource, span = METRICS[each.name]
        index = 0 if resource == CPU else 1
        used = scalar.nanmax(
            _metric_column(view, resource, span).item(row) + estimate[index], expected[index] + estimate[index]
        )
        ratios.append(scalar.ratio(used, capacity[index]))
    return ratios


def _pod_only_row(view: View, metrics: Sequence[Predicate | Priority], estimate: CpuAndMemory, row: int) -> list[float]:
    """The utilisation of one node with this pod alone."""
    by_resource = {
        resource: scalar.ratio(amount, view.capacity(resource).item(row))
        for resource, amount in zip(utilisation.RESOURCES, estimate, strict=True)
    }
    return [by_resource[METRICS[each.name][0]] for each in metrics]


def _pod_only(view: View, metrics: list[Metric], pod: Pod, rows: Rows) -> Floats:
    """The utilisation of an empty node with this pod, a line for each metric."""
    resource_index = [utilisation.RESOURCES.index(resource) for resource, _ in metrics]
    return utilisation.ratios(utilisation.pod_estimate(view, pod), utilisation.quantities(view.capacity, rows))[
        resource_index
    ]
