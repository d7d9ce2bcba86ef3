"""Usage: rejects nodes whose usage exceeds a threshold, and prefers those with the lowest usage.

After Volcano's plugin `usage`, whose arguments `usage.weight`, `cpu.weight` and `memory.weight` are `usageWeight` and
so on here. Fixed here:

- A failed query was stored as an idle node with a fresh timestamp. Here a node without metrics passes the thresholds
  and is scored by requests.
- The filter ignored pods placed since the last sample, and the pod itself; both count, in the score too.
- Every rejection was unresolvable; here those that an eviction could resolve are not, so preemption can help.
- The ten-minute average hid what had just begun: the expected usage counts where it is higher.

`strict` uses the ten-minute average alone: a node without metrics is idle. In the score, pods that are not older than a
metrics interval are added with 70 % of their requests, and 20 % more on a node that is used above 60 % with them; pods
that have left stay in the average.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from math import inf
from operator import gt
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.recently_placed import recent_sum
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Normalise, Rows
from trimtab.core.framework.load_scoring import scalar, utilisation
from trimtab.core.load.estimates import DEFAULT_AMOUNTS
from trimtab.core.model.change import Change
from trimtab.core.model.duration import INT64
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import Support, check_ranges, setting
from trimtab.core.tables import Floats

WINDOW = 600.0
METRICS_INTERVAL = 30.0  # Volcano's default
REQUEST_FACTOR, RISKY_LOAD, RISK_FACTOR = 0.7, 0.6, 1.2


@dataclass(frozen=True, slots=True)
class Thresholds:
    """In percent; 0 is no threshold."""

    cpu: float = setting(80.0, between=(0, 100))
    mem: float = setting(80.0, between=(0, 100))

    def __post_init__(self) -> None:
        check_ranges(self)


DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True, slots=True)
class Usage:
    """`usage_weight` is Volcano's factor for scores; here the profile sets the weight of the plugin instead."""

    name: ClassVar[str] = "Usage"
    requeue_on: ClassVar[Change] = (
        Change.LOAD | Change.POD_DELETED | Change.POD_UPDATED | Change.NODE_ADDED | Change.ALLOCATABLE
    )
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE

    thresholds: Thresholds = setting(
        DEFAULT_THRESHOLDS, "`{cpu: 80, mem: 80}` unless set: the utilization above which a node is rejected; 0 is none"
    )
    usage_weight: int = setting(
        5,
        "set the weight where the plugin is enabled; Volcano multiplies by 5",
        between=(0, INT64),
        support=Support.IGNORED,
    )
    cpu_weight: int = setting(
        1, "1 unless set: the weight of CPU in the score (`cpu.weight` in Volcano)", between=(0, INT64)
    )
    memory_weight: int = setting(
        1, "1 unless set: the same for memory (`memory.weight` in Volcano)", between=(0, INT64)
    )
    strict: bool = setting(
        False, "false unless set: true behaves as the original: ten-minute averages, and a node without data is idle"
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.cpu_weight + self.memory_weight == 0:
            raise ValueError("cpuWeight and memoryWeight are both 0: set at least one of them")

    def signature(self, pod: Pod) -> Hashable:
        return () if self.strict else utilisation.estimate_signature(pod)

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        if not self.strict and (few_rows := scalar.small_selection(view, rows)):
            estimate = scalar.pod_estimate(view, pod)
            return scalar.per_row(lambda row: self._code_row(view, estimate, row), few_rows)
        return self._codes(view, pod, rows)

    def _codes(self, view: View, pod: Pod, rows: Rows) -> Ints:
        limits = np.array(((self.thresholds.cpu or np.inf,), (self.thresholds.mem or np.inf,))) / 100
        capacity = utilisation.quantities(view.capacity, rows)
        if self.strict:  # NaN exceeds no limit
            return utilisation.threshold_codes(utilisation.ratios(_average(view, rows), capacity) > limits)
        estimate = utilisation.pod_estimate(view, pod)
        above = utilisation.ratios(_recent_or_expected(view, rows) + estimate, capacity) > limits
        return utilisation.threshold_codes(above, lambda: utilisation.ratios(estimate, capacity) > limits)

    def _code_row(self, view: View, estimate: tuple[float, float], row: int) -> int:
        """The same for one row."""
        limits = ((self.thresholds.cpu or inf) / 100, (self.thresholds.mem or inf) / 100)
        above = map(gt, _utilisations_row(view, estimate, row), limits)
        capacity = (view.capacity(resource).item(row) for resource in utilisation.RESOURCES)
        return scalar.threshold_code(above, lambda: map(gt, map(scalar.ratio, estimate, capacity), limits))

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        messages = (f"CPU is used above {self.thresholds.cpu:g}%", f"memory is used above {self.thresholds.mem:g}%")
        return tuple(f"node(s) whose {messages[bit]}" for bit in utilisation.exceeded_thresholds(code))

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not self.strict and (few_rows := scalar.small_selection(view, rows)):
            estimate = scalar.pod_estimate(view, pod)
            return scalar.per_row(lambda row: self._score_row(view, pod, estimate, row), few_rows)
        capacity = utilisation.quantities(view.capacity, rows)
        if self.strict:
            shares = _with_shadow_load(view, rows, capacity)
        else:
            used = _recent_or_expected(view, rows) + utilisation.pod_estimate(view, pod)
            shares = utilisation.fill_from_requests(view, rows, pod, utilisation.ratios(used, capacity))
        free = 1.0 - np.minimum(shares, 1.0)
        mean = utilisation.weighted_sum(self.cpu_weight, self.memory_weight, free) / (
            self.cpu_weight + self.memory_weight
        )
        return utilisation.free_score(1.0 - mean)

    def _score_row(self, view: View, pod: Pod, estimate: tuple[float, float], row: int) -> int:
        """The same for one row."""
        shares = scalar.fill_from_requests(view, pod, row, _utilisations_row(view, estimate, row))
        cpu, memory = (1.0 - min(share, 1.0) for share in shares)
        mean = (self.cpu_weight * cpu + self.memory_weight * memory) / (self.cpu_weight + self.memory_weight)
        return scalar.free_score(1.0 - mean)

    def explain_note(self, view: View, pod: Pod) -> str:
        return utilisation.unmeasured_note(view)


def _average(view: View, rows: Rows) -> Floats:
    return utilisation.cpu_and_memory(lambda resource: view.load.recent_mean(resource, WINDOW), view, rows)


def _with_shadow_load(view: View, rows: Rows, capacity: Ints) -> Floats:
    """Volcano's composite load: the average, 0 where unknown, and estimates of the pods that it cannot show yet."""
    real = utilisation.ratios(np.nan_to_num(_average(view, rows)), capacity)
    recent = [
        recent_sum(view, view.load.sampled_at(resource) - METRICS_INTERVAL, rows, partial(_shadow, resource))
        for resource in utilisation.RESOURCES
    ]
    shadow = np.array(recent) / np.maximum(capacity, 1)
    return real + np.where(real + shadow >= RISKY_LOAD, shadow * RISK_FACTOR, shadow)


def _shadow(resource: str, pod: Pod) -> float:
    best_effort = not (pod.requests.limit_of(CPU) or pod.requests.limit_of(MEMORY))
    return DEFAULT_AMOUNTS[resource] if best_effort else pod.requests.of(resource) * REQUEST_FACTOR


def _recent_or_expected(view: View, rows: Rows) -> Floats:
    """The average or the expected usage, whichever is higher; NaN where neither is known."""
    return np.fmax(_average(view, rows), utilisation.expected_usage(view, rows))


def _utilisations_row(view: View, estimate: tuple[float, float], row: int) -> list[float]:
    """One node's utilisation with the pod, of CPU and memory."""
    load = view.load
    return [
        scalar.ratio(
            scalar.nanmax(load.recent_mean(resource, WINDOW).item(row), load.expected(resource).item(row)) + amount,
            view.capacity(resource).item(row),
        )
        for resource, amount in zip(utilisation.RESOURCES, estimate, strict=True)
    ]
