"""Rescheduler: rejects nodes that are too full or under maintenance, and prefers empty ones. It moves no pods.

The scheduling half of the plugin of this name in scodemay/plugins-improve. Fixed here:

- Utilisation is the expected real usage, including pods that no sample shows yet, relative to allocatable. Upstream
  summed requests of running pods over capacity, so it sent pods back to nodes from which its controller had just
  evicted some.
- A node without metrics is scored by requests and its thresholds do not apply: scheduling continues when metrics fail.
- Reserving a pod records nothing, so nothing can leak: the pod's estimate is counted while it has the node.
- A node that the pod would fill above 95 % is rejected by the filter, not only after it was chosen.
- Scores are not cut off at 100, where all nodes with little load were equal, and the bonus fades out between 20 and 40
  % instead of dropping at 30 %.
- DaemonSet pods, which have only one node, are not rejected by load.

`strict` restores requests over capacity, the cut and the drop. Pods count from the moment they are assumed, with their
init containers and overhead, because that is how requests are summed here.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools, Ints, Normalise, Reject, Rows, StageResult, StageStatus, Warn
from trimtab.core.framework.load_scoring import scalar, utilisation
from trimtab.core.model.change import Change
from trimtab.core.model.duration import Duration
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.setting import Support, setting
from trimtab.core.tables import Floats

MAINTENANCE = Requirement("scheduler.alpha.kubernetes.io/maintenance", "In", ("true",))
UNDER_MAINTENANCE = -1
HARD_LIMIT = 0.95
LOW_LOAD = 0.30
FADE_WIDTH = 0.10
NO_ESTIMATE = (0.0, 0.0)
RESOURCE_NAMES = {CPU: "CPU", MEMORY: "memory"}
DEFAULT_INTERVAL = Duration(30)
STRATEGIES = ("LoadBalancing", "ResourceOptimization", "NodeMaintenance")


@dataclass(frozen=True, slots=True)
class Rescheduler:
    """Codes are bits: CPU, memory above the threshold; CPU, memory above 95 % with the pod."""

    name: ClassVar[str] = "Rescheduler"
    requeue_on: ClassVar[Change] = (
        Change.LOAD | Change.POD_DELETED | Change.POD_UPDATED | Change.NODE_ADDED | Change.ALLOCATABLE | Change.LABELS
    )
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE | Change.LABELS
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE

    cpu_threshold: float = setting(
        80.0, "80 unless set: a node whose CPU usage is above this percentage gets no new pods"
    )
    memory_threshold: float = setting(80.0, "80 unless set: the same for memory")
    cpu_score_weight: float = setting(0.6, "0.6 unless set, 0 to 1: the weight of free CPU in the score")
    memory_score_weight: float = setting(0.4, "0.4 unless set, 0 to 1: the same for memory")
    load_balance_bonus: float = setting(10.0, "10 unless set, 0 to 50: added to the score of a node with little load")
    enable_scheduling_optimization: bool = setting(
        True, "true unless set: false switches filter, score and reserve off"
    )
    enable_preventive_rescheduling: bool = setting(
        True, "true unless set: a warning Event when a pod brings its node above a threshold"
    )
    enable_rescheduling_controller: bool = setting(
        True, "rescheduling running pods is not supported yet", support=Support.IGNORED
    )
    rescheduling_interval: Duration = setting(
        DEFAULT_INTERVAL, "rescheduling running pods is not supported yet", support=Support.IGNORED
    )
    excluded_namespaces: tuple[str, ...] = setting(
        ("kube-system",), "rescheduling running pods is not supported yet", support=Support.IGNORED
    )
    enabled_strategies: tuple[str, ...] = setting(
        ("LoadBalancing",), "rescheduling running pods is not supported yet", support=Support.IGNORED
    )
    imbalance_threshold: float = setting(
        20.0, "rescheduling running pods is not supported yet", support=Support.IGNORED
    )
    max_reschedule_pods: int = setting(10, "rescheduling running pods is not supported yet", support=Support.IGNORED)
    excluded_pod_selector: str = setting("", "rescheduling running pods is not supported yet", support=Support.IGNORED)
    strict: bool = setting(False, "false unless set: true uses requests over capacity, as the original does")

    def __post_init__(self) -> None:
        for name, value, maximum in (
            ("cpuThreshold", self.cpu_threshold, 100),
            ("memoryThreshold", self.memory_threshold, 100),
            ("imbalanceThreshold", self.imbalance_threshold, 100),
        ):
            if not 0 < value <= maximum:
                raise ValueError(f"{name} is {value:g}: it must be above 0 and at most {maximum}")
        for name, value, maximum in (
            ("cpuScoreWeight", self.cpu_score_weight, 1),
            ("memoryScoreWeight", self.memory_score_weight, 1),
            ("loadBalanceBonus", self.load_balance_bonus, 50),
        ):
            if not 0 <= value <= maximum:
                raise ValueError(f"{name} is {value:g}: it must be from 0 to {maximum}")
        if self.cpu_score_weight + self.memory_score_weight == 0:
            raise ValueError("cpuScoreWeight and memoryScoreWeight are both 0: set at least one of them")
        if self.rescheduling_interval <= 0:
            raise ValueError("reschedulingInterval must be positive")
        if self.max_reschedule_pods < 1:
            raise ValueError("maxReschedulePods must be 1 or more")
        if "" in self.excluded_namespaces:
            raise ValueError("excludedNamespaces contains an empty name")
        if unknown := [each for each in self.enabled_strategies if each not in STRATEGIES]:
            raise ValueError(f"enabledStrategies: {unknown[0]!r} is not one of {', '.join(STRATEGIES)}")

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
            return scalar.per_row(lambda row: self._code_row(view, estimate, row), few_rows)
        codes = np.zeros(count, dtype=np.int64) if exempt else self._codes(view, pod, rows)
        if (maintenance := _under_maintenance(view, rows)) is not None:
            codes[maintenance] = UNDER_MAINTENANCE
        return codes

    def _codes(self, view: View, pod: Pod, rows: Rows) -> Ints:
        used = self._utilisation(view, rows)
        above = used * 100 > ((self.cpu_threshold,), (self.memory_threshold,))
        if self.strict:
            return utilisation.threshold_codes(above)
        pod_only = utilisation.ratios(
            utilisation.pod_estimate(view, pod), utilisation.quantities(view.allocatable, rows)
        )
        pod_too_large = pod_only > HARD_LIMIT
        return utilisation.threshold_codes(
            np.concatenate((above, used + pod_only > HARD_LIMIT)),
            lambda: np.concatenate((above & False, pod_too_large)),
        )

    def _code_row(self, view: View, estimate: tuple[float, float] | None, row: int) -> int:
        """The same for one row; without an estimate only maintenance is checked."""
        if view.nodes[row].labels.get(MAINTENANCE.key) in MAINTENANCE.values:
            return UNDER_MAINTENANCE
        if estimate is None:
            return 0
        (cpu, memory), (pod_cpu, pod_memory) = (
            _utilisations_row(view, NO_ESTIMATE, row),
            _pod_only_row(view, estimate, row),
        )
        above = cpu * 100 > self.cpu_threshold, memory * 100 > self.memory_threshold
        beyond = cpu + pod_cpu > HARD_LIMIT, memory + pod_memory > HARD_LIMIT
        return scalar.threshold_code(
            (*above, *beyond), lambda: (False, False, pod_cpu > HARD_LIMIT, pod_memory > HARD_LIMIT)
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
        above = [f"used more than {limit:g}% of their {RESOURCE_NAMES[resource]}" for resource, limit in limits]
        beyond = [
            f"would use more than {HARD_LIMIT:.0%} of their {name} with the pod" for name in RESOURCE_NAMES.values()
        ]
        return tuple(f"node(s) {(*above, *beyond)[bit]}" for bit in utilisation.exceeded_thresholds(code))

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
        exceeded = (
            self._exceeded(view, node, HARD_LIMIT * 100, HARD_LIMIT * 100)
            if self.enable_scheduling_optimization
            else []
        )
        rejected = exceeded and (self.strict or not utilisation.is_daemon_set_pod(pod))
        return state, Reject(
            f"{node} would use {' and '.join(exceeded)}", unresolvable=False
        ) if rejected else StageStatus.SUCCESS

    def unreserve(self, state: Any, pod: Pod, node: str) -> Any:
        return state

    def pre_bind(self, view: View, pod: Pod, node: str) -> StageResult:
        if not self.enable_preventive_rescheduling:
            return StageStatus.SUCCESS
        exceeded = self._exceeded(view, node, self.cpu_threshold, self.memory_threshold)
        return (
            Warn("NodeNearlyFull", f"with this pod {node} will use {' and '.join(exceeded)}")
            if exceeded
            else StageStatus.SUCCESS
        )

    def _exceeded(self, view: View, node: str, cpu: float, memory: float) -> list[str]:
        """A message for each resource of the node that is used beyond these percentages."""
        row = view.row(node)
        if row is None:
            return []
        used = (self._utilisation(view, slice(row, row + 1)) * 100).ravel().tolist()
        usages = zip(RESOURCE_NAMES.values(), (cpu, memory), used, strict=True)
        above = ((resource, limit, percent) for resource, limit, percent in usages if percent > limit)
        return [f"{percent:.0f}% of its {resource} (limit {limit:g}%)" for resource, limit, percent in above]

    def explain_note(self, view: View, pod: Pod) -> str:
        return "" if self.strict else utilisation.unmeasured_note(view)


def _utilisations_row(view: View, estimate: tuple[float, float], row: int) -> list[float]:
    """One node's utilisation with this much more, of CPU and memory."""
    return scalar.measured_ratios(view.load.expected, view.allocatable, estimate, row)


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
