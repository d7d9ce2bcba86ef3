"""KoordinatorLowNodeLoad: LowNodeLoad of Koordinator's descheduler, with what its migration controller allows.

Nodes with all resources at or below `lowThresholds` are targets; nodes with one above `highThresholds` for more than five
rounds are sources, by weighted usage. Pods leave one by one, while the source is above its threshold and the summed
headroom of all targets lasts: those of low priority and QoS class first, then those whose usage comes closest to the excess.
Usage is the average of five minutes of the system and the pods that are on the node now. Prod thresholds are not set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar

import numpy as np

from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.framework.profile import plugin_name
from trimtab.core.model.duration import HOUR
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import INT32, check_ranges, setting
from trimtab.core.rescheduling.disruption import qos_class
from trimtab.core.rescheduling.rehearsal import as_evicted
from trimtab.core.rescheduling.rivals.anomaly_detector import AnomalyCondition, AnomalyDetector, known_detector
from trimtab.core.rescheduling.rivals.default_evictor import AS_SHIPPED, DefaultEvictor, Evictor
from trimtab.core.rescheduling.rivals.koordinator_classes import priority_class, qos_order
from trimtab.core.rescheduling.rivals.node_usage import NodeUsage, evict_until_enough
from trimtab.core.rescheduling.rivals.thresholds import Thresholds, check_order
from trimtab.core.rescheduling.strategies.interface import RivalEviction, StrategyContext
from trimtab.core.tables import Bools, Floats, Index

RESOURCES = (CPU, MEMORY)
NODE_FIT = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit")

Detectors = dict[str, AnomalyDetector]


@dataclass(frozen=True, slots=True)
class KoordinatorLowNodeLoad:
    """`evictions` takes and returns the anomaly detectors by node."""

    name: ClassVar[str] = "KoordinatorLowNodeLoad"

    low_thresholds: Thresholds = setting(Thresholds(cpu=45, memory=55), "`{cpu: 45, memory: 55}` unless set")
    high_thresholds: Thresholds = setting(Thresholds(cpu=75, memory=80), "`{cpu: 75, memory: 80}` unless set")
    use_deviation_thresholds: bool = setting(False, "false unless set: thresholds are deviations from the mean")
    number_of_nodes: int = setting(
        0, "0 unless set: nothing is done with this many targets or fewer", between=(0, INT32)
    )
    consecutive_abnormalities: int = setting(
        5,
        "5 unless set: a node is a source if it was too full in more rounds than these; 1 means in one",
        between=(1, INT32),
    )
    consecutive_normalities: int = setting(3, "3 unless set: the same for the way back", between=(1, INT32))
    anomaly_timeout: float = setting(60.0, "60s unless set: for how long a node stays a source", seconds=(1, HOUR))
    detector_cache_timeout: float = setting(300.0, "300s unless set: when rounds are forgotten", seconds=(1, HOUR))
    node_metric_expiration: float = setting(180.0, "180s unless set: the age of metrics to act on", seconds=(1, HOUR))
    node_fit: bool = setting(True, "true unless set: whether a pod must fit on a target, with its usage")
    max_migrating_per_node: int = setting(
        2, "2 unless set, 0 for no limit: of evictions in one round", between=(0, INT32)
    )
    skip_check_expected_replicas: bool = setting(
        False, "false unless set: whether the only pod of an owner may be evicted"
    )
    evictor: DefaultEvictor = setting(AS_SHIPPED, omit_default=True)

    def __post_init__(self) -> None:
        check_ranges(self)
        deviation = self.use_deviation_thresholds
        check_order("lowThresholds", self.low_thresholds, "highThresholds", self.high_thresholds, deviation)

    def evictions(self, context: StrategyContext, state: Any) -> tuple[Sequence[RivalEviction], Any]:
        detectors: Detectors = dict(state or {})
        if not len(context.load.weights):
            return (), detectors
        known = self._known(context)
        nodes, low = self._usage(context, known)
        under = known & (nodes.usage <= low).all(axis=0) & ~context.cluster.view.unschedulable
        over = known & (nodes.usage > nodes.high).any(axis=0) & ~under
        sources = self._anomalous(context, np.flatnonzero(over), detectors)
        if not sources:
            return (), detectors
        targets = np.flatnonzero(under)
        self._reset(context, targets.tolist(), detectors)
        if len(targets) <= self.number_of_nodes or len(targets) == int(known.sum()):
            return (), detectors
        found = self._evict(context, nodes, targets, sources)
        self._after_evictions(context, nodes, sources, detectors)
        return found, detectors

    # --- usage and thresholds

    def _known(self, context: StrategyContext) -> Bools:
        """Nodes with fresh metrics; NaN is not fresh."""
        return np.asarray(context.now - context.cluster.load.sampled_at(CPU) < self.node_metric_expiration)

    def _usage(self, context: StrategyContext, known: Bools) -> tuple[NodeUsage, Floats]:
        """Usage with high thresholds, and the low ones, by resource and row, in millicores and bytes."""
        view, load = context.cluster.view, context.load
        usage = np.stack([five_minutes(context, load.usage[load.resources.index(name)]) for name in RESOURCES])
        capacity = np.array([view.allocatable(name) for name in RESOURCES], dtype=np.float64)
        low, high = (
            np.array(
                [[each.percents().get(name, 0.0 if self.use_deviation_thresholds else 100.0)] for name in RESOURCES]
            )
            for each in (self.low_thresholds, self.high_thresholds)
        )
        if self.use_deviation_thresholds and known.any():
            percents = np.divide(100 * usage, capacity, out=np.zeros_like(usage), where=capacity > 0)
            mean, unset = percents[:, known].mean(axis=1, keepdims=True), low == 0.0
            low = np.where(unset, 100.0, np.clip(mean - low, 0.0, 100.0))
            high = np.where(unset, 100.0, np.clip(mean + high, 0.0, 100.0))
        return NodeUsage(RESOURCES, usage, np.floor(high * 0.01 * capacity)), np.floor(low * 0.01 * capacity)

    # --- anomalies

    @property
    def _condition(self) -> AnomalyCondition:
        return AnomalyCondition(
            self.consecutive_abnormalities,
            self.consecutive_normalities,
            self.anomaly_timeout,
            self.detector_cache_timeout,
        )

    def _anomalous(self, context: StrategyContext, rows: Index, detectors: Detectors) -> list[int]:
        """The rows that have been too full for long enough; `detectors` are marked."""
        if self.consecutive_abnormalities == 1:
            return [int(row) for row in rows]
        found = []
        for row in rows.tolist():
            node = context.cluster.view.nodes[row].name
            before = known_detector(detectors, node, context.now) or AnomalyDetector()
            detectors[node] = before.mark_abnormal(context.now, self._condition)
            if detectors[node].is_anomaly:
                found.append(row)
        return found

    def _reset(self, context: StrategyContext, rows: Sequence[int], detectors: Detectors) -> None:
        for row in rows:
            node = context.cluster.view.nodes[row].name
            if (known := known_detector(detectors, node, context.now)) is not None:
                detectors[node] = known.reset()

    def _after_evictions(
        self, context: StrategyContext, nodes: NodeUsage, sources: Sequence[int], detectors: Detectors
    ) -> None:
        self._reset(context, [row for row in sources if not nodes.too_full(row)], detectors)
        for row in sources:
            node = context.cluster.view.nodes[row].name
            if (known := known_detector(detectors, node, context.now)) is not None:
                detectors[node] = known.mark_normal(context.now, self._condition)

    # --- evictions

    def _evict(
        self, context: StrategyContext, nodes: NodeUsage, targets: Index, sources: Sequence[int]
    ) -> list[RivalEviction]:
        found: list[RivalEviction] = []
        headroom, evictor = nodes.headroom(targets), Evictor(self.evictor, context)
        workloads = WorkloadLimits(context, evictor, self.skip_check_expected_replicas)
        for row in sorted(sources, key=lambda row: (-_weighted_usage(context, nodes, row), row)):
            node = context.cluster.view.nodes[row].name
            removable = [pod for pod in context.cluster.on_node.get(node, {}).values() if workloads.may_evict(pod)]
            usage = {pod.uid: self._pod_usage(context, pod) for pod in removable}
            if self.node_fit:
                removable = [pod for pod in removable if self._fits(context, nodes, targets, pod, usage[pod.uid])]
            excess = np.maximum(nodes.usage[:, row] - nodes.high[:, row], 0.0)
            removable.sort(key=partial(_order, usage, excess))
            usage_of, limit = (
                partial(workloads.evict, usage),
                min(self.max_migrating_per_node or inf, evictor.left(node)),
            )
            evicted = evict_until_enough(nodes, row, headroom, removable, usage_of, limit)
            found += [RivalEviction(pod.uid, f"{node} is overutilized") for pod in evicted]
        return found

    def _fits(self, context: StrategyContext, nodes: NodeUsage, targets: Index, pod: Pod, usage: Floats) -> bool:
        """As there, the pod takes its usage from the first target that it fits, whether it will be evicted or not."""
        feasible = _node_fit(context, pod)
        for target in targets.tolist():
            if feasible[target] and (nodes.usage[:, target] + usage <= nodes.high[:, target]).all():
                nodes.usage[:, target] += usage
                return True
        return False

    def _pod_usage(self, context: StrategyContext, pod: Pod) -> Floats:
        load = context.load
        usage = load.pods(np.array([context.cluster.pod_table.slot[pod.uid]], dtype=np.intp)).usage[:, 0]
        return np.array([float(five_minutes(context, usage[[load.resources.index(name)]])[0]) for name in RESOURCES])


def five_minutes(context: StrategyContext, snapshots: Any) -> Floats:
    """The average of the last five minutes of each row, from the snapshots of the two buckets that they overlap.

    By samples and not by the clock: one that comes every five minutes is their average, and the newest is all of it.
    """
    recent = context.load.times.recent
    share = 1.0 if len(recent) < 2 else context.load.newest_share
    newest, before = snapshots[:, 0], snapshots[:, min(1, len(recent) - 1)]
    return np.asarray(share * newest + (1 - share) * before, dtype=np.float64)


def _node_fit(context: StrategyContext, pod: Pod) -> Bools:
    profile, view = context.profile_of(pod.scheduler_name), context.cluster.view
    fits = np.full(view.count, profile is not None)
    for each in profile.filters if profile is not None else ():
        if plugin_name(each) in NODE_FIT:
            fits &= each.filter(view, as_evicted(pod), ALL_ROWS) == 0
    return fits


def _weighted_usage(context: StrategyContext, nodes: NodeUsage, row: int) -> int:
    """Per mille of both resources, with equal weights."""
    pairs = (
        (int(nodes.usage[i, row]), int(context.cluster.view.allocatable(name)[row])) for i, name in enumerate(RESOURCES)
    )
    shares = [min(used, most) * 1000 // most if most else 0 for used, most in pairs]
    return sum(shares) // len(shares)


def _order(usage: Mapping[str, Floats], excess: Floats, pod: Pod) -> tuple[float, ...]:
    classes = priority_class(pod), pod.priority, qos_class(pod), qos_order(pod)
    return *classes, -usage_score(usage[pod.uid], excess), -pod.created


def usage_score(usage: Floats, excess: Floats) -> float:
    """Of the overused resources: highest for a pod that just covers the excess."""
    over = excess > 0
    ratios = usage[over] / excess[over]
    scores = np.where(ratios < 1, ratios, 1 + 1 / np.maximum(ratios, 1))
    return float(scores.mean()) if over.any() else 0.0


class WorkloadLimits:
    """How many pods of each owner may be evicted in one round; the only pod of an owner, if that is allowed."""

    def __init__(self, context: StrategyContext, evictor: Evictor, allow_single: bool) -> None:
        self._evictor, self._fewest = evictor, 1 if allow_single else 2
        owned = (
            pod.owner.uid for pod in context.cluster.pods.values() if pod.owner is not None and pod.holds_resources
        )
        self._replicas, self._evicted = Counter(owned), Counter[str]()

    def may_evict(self, pod: Pod) -> bool:
        if pod.owner is None or not self._evictor.may_evict(pod):
            return False
        replicas = self._replicas[pod.owner.uid]
        return replicas >= self._fewest and self._evicted[pod.owner.uid] < max_migrating(replicas)

    def evict(self, usage: Mapping[str, Floats], pod: Pod) -> Floats | None:
        """The usage of a pod that is evicted now; None if its owner has lost enough of them."""
        if pod.owner is None or not self.may_evict(pod) or not self._evictor.take(pod):
            return None
        self._evicted[pod.owner.uid] += 1
        return usage[pod.uid]


def max_migrating(replicas: int) -> int:
    """A tenth of more than ten replicas, rounded down; two of four to ten; else one."""
    return replicas // 10 if replicas > 10 else 2 if replicas >= 4 else 1
