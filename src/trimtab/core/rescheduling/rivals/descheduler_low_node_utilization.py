"""DeschedulerLowNodeUtilization: LowNodeUtilization of the SIG descheduler.

Nodes with all resources at or below `thresholds` are targets, nodes with one above `targetThresholds` are sources. The
source with the largest sum of millicores, bytes and pods comes first, so that memory decides. Pods leave by priority and QoS
class, whatever they use, until the source is below its threshold or the summed headroom of all targets is used up. Nothing
is remembered, and no target is checked unless `nodeFit` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY, PODS
from trimtab.core.model.setting import INT32, check_ranges, setting
from trimtab.core.model.taints import tolerated
from trimtab.core.rescheduling.disruption import qos_class
from trimtab.core.rescheduling.rehearsal import Rehearsal
from trimtab.core.rescheduling.rivals.default_evictor import AS_SHIPPED, DefaultEvictor, Evictor
from trimtab.core.rescheduling.rivals.node_usage import NodeUsage, evict_until_enough
from trimtab.core.rescheduling.rivals.thresholds import Thresholds, check_order
from trimtab.core.rescheduling.strategies.interface import RivalEviction, StrategyContext
from trimtab.core.tables import Bools, Floats, Index

REQUESTS, KUBERNETES_METRICS, PROMETHEUS = "", "KubernetesMetrics", "Prometheus"
RESOURCES = (CPU, MEMORY, PODS)
METRIC_RESOURCE = "MetricResource"


@dataclass(frozen=True, slots=True)
class DeschedulerLowNodeUtilization:
    """With the source `Prometheus` there is one metric for each node, here its CPU usage, and none for pods."""

    name: ClassVar[str] = "DeschedulerLowNodeUtilization"

    thresholds: Thresholds = setting(
        Thresholds(cpu=20, memory=20, pods=20), "`{cpu: 20, memory: 20, pods: 20}` unless set"
    )
    target_thresholds: Thresholds = setting(
        Thresholds(cpu=50, memory=50, pods=50), "`{cpu: 50, memory: 50, pods: 50}` unless set"
    )
    use_deviation_thresholds: bool = setting(False, "false unless set: thresholds are deviations from the mean")
    number_of_nodes: int = setting(
        0, "0 unless set: nothing is done with this many targets or fewer", between=(0, INT32)
    )
    metrics_source: str = setting(
        REQUESTS,
        "requests unless set; `KubernetesMetrics` or `Prometheus`: usage",
        choices=(REQUESTS, KUBERNETES_METRICS, PROMETHEUS),
    )
    eviction_limit_per_node: int = setting(0, "0, no limit, unless set: of evictions in one round", between=(0, INT32))
    eviction_limit: int = setting(
        0, "0, no limit, unless set: of evictions of all nodes in one round", between=(0, INT32)
    )
    node_fit: bool = setting(False, "false unless set: whether a pod must fit on another node")
    evictor: DefaultEvictor = setting(AS_SHIPPED, omit_default=True)

    def __post_init__(self) -> None:
        check_ranges(self)
        deviation = self.use_deviation_thresholds
        check_order("thresholds", self.thresholds, "targetThresholds", self.target_thresholds, deviation)

    def evictions(self, context: StrategyContext, state: Any) -> tuple[Sequence[RivalEviction], Any]:
        if (measured := self._measured(context)) is None:
            return (), state
        resources, usage, capacity = measured
        low, high = self._percents(resources, usage, capacity)
        nodes = NodeUsage(resources, usage, _amounts(high, capacity))
        percents = _percent(usage, capacity)
        under = (~(percents > low)).all(axis=0) & ~context.cluster.view.unschedulable
        over = (percents > high).any(axis=0) & ~under
        targets = np.flatnonzero(under)
        if not over.any() or len(targets) <= self.number_of_nodes or under.all():
            return (), state
        return self._evict(context, nodes, targets, over), state

    # --- usage and thresholds

    def _measured(self, context: StrategyContext) -> tuple[tuple[str, ...], Floats, Floats] | None:
        """Usage and capacity by resource and row; None if a node has no sample: that ends the round."""
        view = context.cluster.view
        capacity = np.array([view.allocatable(name) for name in RESOURCES], dtype=np.float64)
        if self.metrics_source == REQUESTS:
            usage = np.array([view.requested(CPU), view.requested(MEMORY), view.pod_count], dtype=np.float64)
        else:
            usage = np.array([view.load.latest(CPU), view.load.latest(MEMORY), view.pod_count], dtype=np.float64)
        if np.isnan(usage).any():
            return None
        if self.metrics_source != PROMETHEUS:
            return RESOURCES, usage, capacity
        return (METRIC_RESOURCE,), np.floor(_percent(usage[:1], capacity[:1])), np.full((1, view.count), 100.0)

    def _percents(self, resources: tuple[str, ...], usage: Floats, capacity: Floats) -> tuple[Floats, Floats]:
        """Low and high thresholds by resource, as columns; a resource without one is never above it."""
        low, high = (
            np.array([[self._percent_of(each, name)] for name in resources])
            for each in (self.thresholds, self.target_thresholds)
        )
        if self.use_deviation_thresholds:
            mean = _percent(usage, capacity).mean(axis=1, keepdims=True)
            low, high = (
                np.where(np.isinf(each), np.inf, np.clip(mean + sign * each, 0, 100))
                for each, sign in ((low, -1), (high, 1))
            )
        return low, high

    def _percent_of(self, thresholds: Thresholds, resource: str) -> float:
        return thresholds.percents().get(CPU if resource == METRIC_RESOURCE else resource, np.inf)

    # --- evictions

    def _evict(self, context: StrategyContext, nodes: NodeUsage, targets: Index, over: Bools) -> list[RivalEviction]:
        found: list[RivalEviction] = []
        headroom, may_evict = nodes.headroom(targets), self._may_evict(context, targets)
        evictor = Evictor(self.evictor, context)
        for row in sorted(np.flatnonzero(over).tolist(), key=lambda row: (-nodes.usage[:, row].sum(), row)):
            node = context.cluster.view.nodes[row].name
            pods = sorted(filter(evictor.may_evict, context.cluster.on_node.get(node, {}).values()), key=_order)
            most = min(self.eviction_limit_per_node or np.inf, (self.eviction_limit or np.inf) - len(found))
            limit, fitting = min(most, evictor.left(node)), filter(may_evict, pods)
            evicted = self._from_node(context, nodes, row, headroom, fitting, limit, evictor)
            found += [RivalEviction(pod.uid, f"{node} is overutilized") for pod in evicted]
        return found

    def _from_node(
        self,
        context: StrategyContext,
        nodes: NodeUsage,
        row: int,
        headroom: Floats,
        pods: Iterable[Pod],
        limit: float,
        evictor: Evictor,
    ) -> list[Pod]:
        def usage_of(pod: Pod) -> Floats | None:
            usage = self._pod_usage(context, pod)
            return usage if usage is not None and evictor.take(pod) else None

        if self.metrics_source != PROMETHEUS:
            return evict_until_enough(nodes, row, headroom, pods, usage_of, limit)
        if (headroom <= 0).any():
            return []
        most = min(self.eviction_limit_per_node or 1, limit)  # what a pod uses is unknown: nothing can be subtracted
        evicted: list[Pod] = []
        for pod in pods:
            if len(evicted) >= most:
                break
            evicted += [pod] if evictor.take(pod) else []
        return evicted

    def _pod_usage(self, context: StrategyContext, pod: Pod) -> Floats | None:
        if self.metrics_source == REQUESTS:
            return np.array([pod.requests.of(CPU), pod.requests.of(MEMORY), 1], dtype=np.float64)
        slot = context.cluster.pod_table.slot[pod.uid]
        used = [context.cluster.load.pod_usage(name).sample.item(slot) for name in (CPU, MEMORY)]
        return None if np.isnan(used).any() else np.array([*used, 1.0])

    def _may_evict(self, context: StrategyContext, targets: Index) -> Callable[[Pod], bool]:
        """The pod tolerates all taints of some target; with `nodeFit` it fits on some other node, too."""
        nodes = context.cluster.view.nodes
        taints = {nodes[int(row)].taints for row in targets}
        rehearsal = Rehearsal(context.cluster.fork(), context.profile_of)

        def may_evict(pod: Pod) -> bool:
            if not any(all(tolerated(each, pod.spec.tolerations) for each in every) for every in taints):
                return False
            feasible = rehearsal.feasible(pod) if self.node_fit else None
            others = context.cluster.view.rows_named([pod.node])
            return not self.node_fit or (feasible is not None and bool((feasible & ~others).any()))

        return may_evict


def _order(pod: Pod) -> tuple[int, int]:
    return pod.priority, qos_class(pod)


def _percent(usage: Floats, capacity: Floats) -> Floats:
    return np.asarray(np.divide(100 * usage, capacity, out=np.zeros_like(usage), where=capacity > 0))


def _amounts(percents: Floats, capacity: Floats) -> Floats:
    """Thresholds as amounts, rounded down; the whole capacity without one."""
    return np.asarray(np.floor(np.where(np.isinf(percents), 100.0, percents) * 0.01 * capacity))
