"""Rescheduler: rejects nodes that are too full or under maintenance, and prefers empty ones. It moves no pods itself.

The scheduling half of the plugin of this name in scodemay/plugins-improve. What its arguments say about moving running pods
becomes settings of the rescheduler (`named_rescheduling`), if the file itself has `enableReschedulingController`. Fixed here:

- Utilisation is the expected real usage, including pods that no sample shows yet, relative to allocatable. Upstream
  summed requests of running pods over capacity, so it sent pods back to nodes from which its controller had just
  evicted some.
- A node without metrics is judged by requests over allocatable, in the filter as in the score: so thresholds hold when
  metrics fail, and in a cluster without any.
- Reserving a pod records nothing, so nothing can leak: the pod's estimate is counted while it has the node.
- A node that the pod would fill above 95 % is rejected by the filter, not only after it was chosen.
- Scores are not cut off at 100, where all nodes with little load were equal, and the bonus fades out between 20 and 40
  % instead of dropping at 30 %.
- DaemonSet pods, which have only one node, are not rejected by load.

`strict` restores requests over capacity, the cut and the drop. Pods count from the moment they are assumed, with their
init containers and overhead, because that is how requests are summed here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any, ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import (
    Bools,
    Figures,
    Ints,
    Log,
    NamedRescheduling,
    NamedSource,
    Normalise,
    Reject,
    Rows,
    StageResult,
    StageStatus,
    Warn,
)
from trimtab.core.framework.load_scoring import scalar, utilisation
from trimtab.core.model.change import Change
from trimtab.core.model.duration import INT64, Duration
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.selectors import Requirement, parse_selector
from trimtab.core.model.setting import PERCENTAGE, ArgumentError, check_ranges, setting
from trimtab.core.tables import Floats

MAINTENANCE = Requirement("scheduler.alpha.kubernetes.io/maintenance", "In", ("true",))
UNDER_MAINTENANCE = -1
HARD_LIMIT = 0.95
LOW_LOAD = 0.30
FADE_WIDTH = 0.10
HARD_LIMITS = ((CPU, HARD_LIMIT * 100), (MEMORY, HARD_LIMIT * 100))
NO_ESTIMATE = (0.0, 0.0)
RESOURCE_NAMES = {CPU: "CPU", MEMORY: "memory"}
FIGURE_NAMES = ("predicted_cpu_percent", "predicted_memory_percent", "cpu_limit_percent", "memory_limit_percent")
DEFAULT_INTERVAL = Duration(30)
DEFAULT_EXCLUDED = ("kube-system",)
BALANCING = "LoadBalancing"
STRATEGIES = (BALANCING, "ResourceOptimization", "NodeMaintenance")
SWITCH = "enableReschedulingController"
SHARED_ARGUMENTS = ("cpuThreshold", "memoryThreshold")
# The field of the section `rescheduling` that each argument becomes.
RESCHEDULING_FIELDS = {
    **dict.fromkeys(SHARED_ARGUMENTS, "limits"),
    "reschedulingInterval": "interval",
    "excludedNamespaces": "excludedNamespaces",
    **dict.fromkeys(("enabledStrategies", "imbalanceThreshold"), "strategies"),
    "maxReschedulePods": "maxMoves",
    "excludedPodSelector": "excludedPodSelector",
}


def _selector_error(text: str) -> str | None:
    if not text.strip() or parse_selector(text) is not None:
        return None
    return f"{text[:100]!r} is not a selector: write labels such as `key=value`, with commas between them"


@dataclass(frozen=True, slots=True)
class Rescheduler:
    """Codes are bits: CPU, memory above the threshold; CPU, memory above 95 % with the pod; the same four by requests."""

    name: ClassVar[str] = "Rescheduler"
    requeue_on: ClassVar[Change] = (
        Change.LOAD | Change.POD_DELETED | Change.POD_UPDATED | Change.NODE_ADDED | Change.ALLOCATABLE | Change.LABELS
    )
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE | Change.LABELS
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE

    cpu_threshold: float = setting(
        80.0,
        "80 unless set: a node whose CPU usage is above this percentage gets no new pods; also the limit of moves",
        **PERCENTAGE,
    )
    memory_threshold: float = setting(80.0, "80 unless set: the same for memory", **PERCENTAGE)
    cpu_score_weight: float = setting(
        0.6, "0.6 unless set, 0 to 1: the weight of free CPU in the score", between=(0, 1)
    )
    memory_score_weight: float = setting(0.4, "0.4 unless set, 0 to 1: the same for memory", between=(0, 1))
    load_balance_bonus: float = setting(
        10.0, "10 unless set, 0 to 50: added to the score of a node with little load", between=(0, 50)
    )
    enable_scheduling_optimization: bool = setting(
        True, "true unless set: false switches filter, score and reserve off"
    )
    enable_preventive_rescheduling: bool = setting(
        True, "true unless set: a warning Event when a pod brings its node above a threshold"
    )
    enable_rescheduling_controller: bool = setting(
        True,
        "true plans moves of running pods, by the arguments below, and carries none out; only if it is written, see "
        "[rescheduling.md](rescheduling.md#from-the-rescheduler-plugins-arguments)",
        omit_default=True,
    )
    rescheduling_interval: Duration = setting(
        DEFAULT_INTERVAL,
        "30s unless set: how often moves are planned; 0s is never, else 10s to 24h",
        between=(0, inf),
        omit_default=True,
    )
    excluded_namespaces: tuple[str, ...] = setting(
        DEFAULT_EXCLUDED,
        "kube-system unless set: pods in these namespaces are never moved",
        validate_item=lambda name: None if name else "a namespace must not be empty: remove it",
        omit_default=True,
    )
    enabled_strategies: tuple[str, ...] = setting(
        STRATEGIES,
        f"all unless set: the reasons to move pods, of {', '.join(STRATEGIES)}; none plans nothing",
        choices=STRATEGIES,
        omit_default=True,
    )
    imbalance_threshold: float = setting(
        20.0,
        "20 unless set: percentage points between the fullest and the emptiest node above which LoadBalancing moves pods",
        **PERCENTAGE,
        omit_default=True,
    )
    max_reschedule_pods: int = setting(
        10, "10 unless set: how many pods one plan moves at most; up to 1000", between=(1, INT64), omit_default=True
    )
    excluded_pod_selector: str = setting(
        "",
        "none unless set: pods that match are never moved; as for `kubectl get -l`, so that all of `a=b,c=d` must match",
        validate=_selector_error,
        omit_default=True,
    )
    strict: bool = setting(False, "false unless set: true uses requests over capacity, as the original does")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.cpu_score_weight + self.memory_score_weight == 0:
            raise ArgumentError("cpuScoreWeight", "cpuScoreWeight and memoryScoreWeight are both 0: set at least one")
        if unknown := [each for each in self.enabled_strategies if each not in STRATEGIES]:
            raise ArgumentError("enabledStrategies", f"{unknown[0]!r} is not one of {', '.join(STRATEGIES)}")
        if error := _selector_error(self.excluded_pod_selector):
            raise ArgumentError("excludedPodSelector", error)

    def named_source(self) -> NamedSource | None:
        """metrics-server, as its project needs, where the file names no other source; `strict` measures nothing."""
        return None if self.strict else NamedSource((), "metrics-server")

    def named_rescheduling(self) -> NamedRescheduling:
        """As its project's controller reads them; an empty list of namespaces is the default there."""
        arguments = {BALANCING: {"imbalance_threshold": self.imbalance_threshold}}
        return NamedRescheduling(
            SWITCH,
            self.enable_rescheduling_controller and self.rescheduling_interval > 0 and bool(self.enabled_strategies),
            self.rescheduling_interval,
            {CPU: self.cpu_threshold / 100, MEMORY: self.memory_threshold / 100},
            self.max_reschedule_pods,
            tuple(dict.fromkeys(self.excluded_namespaces)) or DEFAULT_EXCLUDED,
            parse_selector(self.excluded_pod_selector),
            {name: arguments.get(name, {}) for name in self.enabled_strategies},
            RESCHEDULING_FIELDS,
            SHARED_ARGUMENTS,
        )

    def signature(self, pod: Pod) -> Hashable:
        return (utilisation.estimate_signature(pod), utilisation.is_daemon_set_pod(pod))

    # --- filter

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        count = len(view.pod_count[rows])
        if not self.enable_scheduling_optimization:
            return np.zeros(count, dtype=np.int64)
        exempt = not self.strict and utilisation.is_daemon_set_pod(pod)
        if not self.strict and (few_rows := scalar.small_selection(view, rows)):
            estimate = None if exempt else scalar.pod_estimate(view, pod)
            return scalar.per_row(lambda row: self._code_row(view, pod, estimate, row), few_rows)
        codes = np.zeros(count, dtype=np.int64) if exempt else self._codes(view, pod, rows)
        if (maintenance := _under_maintenance(view, rows)) is not None:
            codes[maintenance] = UNDER_MAINTENANCE
        return codes

    def _codes(self, view: View, pod: Pod, rows: Rows) -> Ints:
        used = self._utilisation(view, rows)
        if self.strict:
            return utilisation.threshold_codes(self._above_thresholds(used))
        allocatable = utilisation.quantities(view.allocatable, rows)
        pod_only = utilisation.ratios(utilisation.pod_estimate(view, pod), allocatable)
        exceeded = [self._exceeded_limits(used, pod_only)]
        unknown = np.isnan(used)
        if unknown.any():
            requests = np.array([[pod.requests.of(resource)] for resource in utilisation.RESOURCES], dtype=np.float64)
            pod_only = np.concatenate((pod_only, utilisation.ratios(requests, allocatable)))
            requested = np.where(unknown, _requested(view, rows), np.nan)
            exceeded.append(self._exceeded_limits(requested, pod_only[2:]))
        return utilisation.threshold_codes(np.concatenate(exceeded), lambda: _too_large(pod_only))

    def _exceeded_limits(self, used: Floats, pod_only: Floats) -> Bools:
        """A line each: CPU, memory above the threshold; CPU, memory above 95 % with the pod. NaN exceeds nothing."""
        return np.concatenate((self._above_thresholds(used), used + pod_only > HARD_LIMIT))

    def _above_thresholds(self, used: Floats) -> Bools:
        above: Bools = used * 100 > ((self.cpu_threshold,), (self.memory_threshold,))
        return above

    def _code_row(self, view: View, pod: Pod, estimate: tuple[float, float] | None, row: int) -> int:
        """The same for one row; without an estimate only maintenance is checked."""
        if view.nodes[row].labels.get(MAINTENANCE.key) in MAINTENANCE.values:
            return UNDER_MAINTENANCE
        if estimate is None:
            return 0
        used: Sequence[float] = _utilisations_row(view, NO_ESTIMATE, row)
        pod_only: tuple[float, ...] = _pod_only_row(view, estimate, row)
        exceeded = self._exceeded_limits_row(used, pod_only)
        if any(share != share for share in used):
            requests = float(pod.requests.of(CPU)), float(pod.requests.of(MEMORY))
            pod_only = (*pod_only, *_pod_only_row(view, requests, row))
            exceeded = (*exceeded, *self._exceeded_limits_row(_requested_row(view, used, row), pod_only[2:]))
        return scalar.threshold_code(exceeded, lambda: _too_large_row(pod_only))

    def _exceeded_limits_row(self, used: Sequence[float], pod_only: Sequence[float]) -> tuple[bool, ...]:
        (cpu, memory), (pod_cpu, pod_memory) = used, pod_only
        return (
            cpu * 100 > self.cpu_threshold,
            memory * 100 > self.memory_threshold,
            cpu + pod_cpu > HARD_LIMIT,
            memory + pod_memory > HARD_LIMIT,
        )

    def _utilisation(self, view: View, rows: Rows) -> Floats:
        """Utilisation of nodes, a line each for CPU and memory; NaN, which exceeds no threshold, where unknown."""
        if self.strict:
            return utilisation.ratios(
                utilisation.cpu_and_memory(view.requested, view, rows), utilisation.quantities(view.capacity, rows)
            )
        return utilisation.ratios(
            utilisation.expected_usage(view, rows), utilisation.quantities(view.allocatable, rows)
        )

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        if code == UNDER_MAINTENANCE:
            return ("node(s) were under maintenance",)
        limits = ((CPU, self.cpu_threshold), (MEMORY, self.memory_threshold))
        texts = [
            f"{verb} more than {limit:g}% of their {RESOURCE_NAMES[resource]}{with_pod}"
            for now, then in (("used", "would use"), ("had requests for", "would have requests for"))
            for verb, with_pod, percentages in ((now, "", limits), (then, " with the pod", HARD_LIMITS))
            for resource, limit in percentages
        ]
        return tuple(f"node(s) {texts[bit]}" for bit in utilisation.exceeded_thresholds(code))

    # --- score

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not self.enable_scheduling_optimization:
            return None
        if self.strict:
            return self._strict_score(*self._utilisation(view, rows) * 100)
        if few_rows := scalar.small_selection(view, rows):
            estimate = scalar.pod_estimate(view, pod)
            return scalar.per_row(lambda row: self._score_row(view, pod, estimate, row), few_rows)
        utilisations = utilisation.utilisations(view, rows, pod)
        free = utilisation.weighted_sum(
            self.cpu_score_weight, self.memory_score_weight, 1.0 - np.minimum(utilisations, 1.0)
        )
        bonus = self.load_balance_bonus / 100
        fade = np.minimum(np.maximum(LOW_LOAD + FADE_WIDTH - np.maximum(*utilisations), 0.0) / (2 * FADE_WIDTH), 1.0)
        return utilisation.free_score(
            1.0 - (free + bonus * fade) / (self.cpu_score_weight + self.memory_score_weight + bonus)
        )

    def _score_row(self, view: View, pod: Pod, estimate: tuple[float, float], row: int) -> int:
        """The same for one row."""
        cpu, memory = scalar.fill_from_requests(view, pod, row, _utilisations_row(view, estimate, row))
        free = self.cpu_score_weight * (1.0 - min(cpu, 1.0)) + self.memory_score_weight * (1.0 - min(memory, 1.0))
        bonus = self.load_balance_bonus / 100
        fade = min(max(LOW_LOAD + FADE_WIDTH - max(cpu, memory), 0.0) / (2 * FADE_WIDTH), 1.0)
        return scalar.free_score(
            1.0 - (free + bonus * fade) / (self.cpu_score_weight + self.memory_score_weight + bonus)
        )

    def _strict_score(self, cpu: Floats, memory: Floats) -> Ints:
        score = (100 - cpu) * self.cpu_score_weight + (100 - memory) * self.memory_score_weight
        low = (cpu < LOW_LOAD * 100) & (memory < LOW_LOAD * 100)
        return utilisation.whole_points(score + low * self.load_balance_bonus)

    # --- stages; the pod counts on its node already

    def reserve(self, view: View, state: Any, pod: Pod, node: str) -> tuple[Any, StageStatus | Reject]:
        if not self.enable_scheduling_optimization or (not self.strict and utilisation.is_daemon_set_pod(pod)):
            return state, StageStatus.SUCCESS
        exceeded, figures = self._exceeded(view, node, HARD_LIMIT * 100, HARD_LIMIT * 100)
        if not exceeded:
            return state, StageStatus.SUCCESS
        return state, Reject(f"{node} would use {' and '.join(exceeded)}", unresolvable=False, figures=figures)

    def unreserve(self, state: Any, pod: Pod, node: str) -> Any:
        return state

    def pre_bind(self, view: View, pod: Pod, node: str) -> StageResult:
        if not self.enable_preventive_rescheduling:
            return StageStatus.SUCCESS
        exceeded, figures = self._exceeded(view, node, self.cpu_threshold, self.memory_threshold)
        if not exceeded:
            return Log(figures) if figures else StageStatus.SUCCESS
        return Warn("NodeNearlyFull", f"with this pod {node} will use {' and '.join(exceeded)}", figures)

    def _exceeded(self, view: View, node: str, cpu: float, memory: float) -> tuple[list[str], Figures]:
        """A message for each resource of the node that is used beyond these percentages, and what is predicted."""
        row = view.row(node)
        if row is None:
            return [], ()
        rows = slice(row, row + 1)
        measured = self._utilisation(view, rows)
        used = utilisation.fill_unknown(measured, lambda: _requested(view, rows))
        percents = (used * 100).ravel().tolist()
        messages = [
            f"{percent:.0f}% of its {name} (limit {limit:g}%{', by requests' if unknown else ''})"
            for name, limit, percent, unknown in zip(
                RESOURCE_NAMES.values(), (cpu, memory), percents, np.isnan(measured).ravel(), strict=True
            )
            if percent > limit
        ]
        return messages, tuple(zip(FIGURE_NAMES, (*percents, cpu, memory), strict=True))

    def explain_note(self, view: View, pod: Pod) -> str:
        note = "" if self.strict else utilisation.unmeasured_note(view)
        return f"{note}, and compared with thresholds by requests" if note else ""


def _utilisations_row(view: View, estimate: tuple[float, float], row: int) -> list[float]:
    """One node's utilisation with this much more, of CPU and memory."""
    return scalar.measured_ratios(view.load.expected, view.allocatable, estimate, row)


def _requested(view: View, rows: Rows) -> Floats:
    """Requests over allocatable, a line each for CPU and memory."""
    return utilisation.ratios(
        utilisation.cpu_and_memory(view.requested, view, rows), utilisation.quantities(view.allocatable, rows)
    )


def _requested_row(view: View, used: Sequence[float], row: int) -> list[float]:
    """The same for one node, of the resources whose use is unknown; NaN for the others."""
    return [
        scalar.ratio(float(view.requested(resource).item(row)), view.allocatable(resource).item(row))
        if share != share
        else nan
        for resource, share in zip(utilisation.RESOURCES, used, strict=True)
    ]


def _too_large(pod_only: Floats) -> Bools:
    """For each limit whether the pod alone exceeds it; of two lines for CPU and memory, or four with its requests."""
    too_large = pod_only > HARD_LIMIT
    never = too_large[:2] & False
    return np.concatenate(
        [part for start in range(0, len(pod_only), 2) for part in (never, too_large[start : start + 2])]
    )


def _too_large_row(pod_only: Sequence[float]) -> list[bool]:
    pairs = [pod_only[start : start + 2] for start in range(0, len(pod_only), 2)]
    return [each for cpu, memory in pairs for each in (False, False, cpu > HARD_LIMIT, memory > HARD_LIMIT)]


def _pod_only_row(view: View, estimate: tuple[float, float], row: int) -> tuple[float, float]:
    """One node's utilisation with the pod alone."""
    cpu, memory = (view.allocatable(resource).item(row) for resource in utilisation.RESOURCES)
    return scalar.ratio(estimate[0], cpu), scalar.ratio(estimate[1], memory)


def _under_maintenance(view: View, rows: Rows) -> Bools | None:
    """Which of the rows are under maintenance; None for none. A single row is looked up directly."""
    if isinstance(rows, slice) and rows.stop is not None and rows.stop - (rows.start or 0) == 1:
        labels = view.nodes[rows.start or 0].labels
        return np.ones(1, dtype=np.bool_) if labels.get(MAINTENANCE.key) in MAINTENANCE.values else None
    return view.matching_label(MAINTENANCE)[rows]
