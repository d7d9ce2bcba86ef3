"""Consolidate: all pods leave the coldest nodes, if the others have room for them at all times.

It works against strategies that spread load, so it is not enabled unless it is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.model.pod import NODE_BOUND, Pod
from trimtab.core.model.setting import PERCENTAGE, check_ranges, setting
from trimtab.core.rescheduling.objective import LIMIT, NodeLoad, PodLoad
from trimtab.core.rescheduling.rehearsal import Rehearsal
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.tables import Bools, Floats

TRIES = 3  # nodes that are rehearsed for each one that may be emptied
WORTH = 2.0  # times the cost: targets may well become fuller than the emptied node was


@dataclass(frozen=True, slots=True)
class Consolidate:
    """A node is emptied only if every pod on it may be moved, but for those that belong to the node."""

    name: ClassVar[str] = "Consolidate"
    reads_snapshots: ClassVar[bool] = True

    threshold: float = setting(
        30.0, "30 unless set: percent of its limits that a node has used in no snapshot, to be cold", **PERCENTAGE
    )
    headroom: float = setting(
        10.0, "10 unless set: percent of its limits that a target must have left in every snapshot", between=(0, 100)
    )
    max_nodes: int = setting(1, "1 unless set: how many nodes are emptied at the same time", between=(1, 1000))

    def __post_init__(self) -> None:
        check_ranges(self)

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        packing, emptied = Packing(context, LIMIT * (1 - self.headroom / 100)), 0
        for row in self._coldest(context)[: TRIES * self.max_nodes]:
            node, pods = context.cluster.view.nodes[row].name, leaving_pods(context, row)
            targets = packing.targets(row, pods) if pods else None
            if targets and emptied < self.max_nodes:
                emptied += 1
                reason = f"the node is nearly idle, and its {len(pods)} pods fit elsewhere at all times"
                worth, uids = WORTH * context.cost, frozenset(pod.uid for pod in pods)
                yield Suggestion(self.name, node, reason, uids, worth, targets)

    def _coldest(self, context: StrategyContext) -> list[int]:
        """Rows of cold nodes, those that use least on average first."""
        load, view = context.load.load(np.arange(context.cluster.view.count)), context.cluster.view
        known = ~view.unschedulable
        for name in context.load.resources:
            known &= view.load.trust(name) > 0
        cold = np.flatnonzero(known & (load.max(axis=1, initial=0.0) < LIMIT * self.threshold / 100))
        return [int(row) for row in cold[np.argsort(load[cold].mean(axis=1), kind="stable")]]


def leaving_pods(context: StrategyContext, row: int) -> list[Pod]:
    """All pods that must leave for the node to be empty; none if one of them may not."""
    pods = context.cluster.on_node.get(context.cluster.view.nodes[row].name, {}).values()
    staying = (pod.terminating or (pod.owner is not None and pod.owner.kind in NODE_BOUND) for pod in pods)
    leaving = [pod for pod, stays in zip(pods, staying, strict=True) if not stays]
    return leaving if all(map(context.movable, leaving)) else []


class Packing:
    """Rehearses where the pods of emptied nodes would go: each to the fullest node that has room."""

    def __init__(self, context: StrategyContext, highest: float) -> None:
        self._context, self._highest = context, highest
        self._rehearsal = Rehearsal(context.cluster.fork(), context.profile_of)
        view, load = context.cluster.view, context.load
        self._usage: Floats = load.usage.astype(np.float64)
        self._allowed: Bools = ~view.unschedulable
        for name in load.resources:
            self._allowed &= (view.load.trust(name) > 0) & ~view.load.node_metrics_only(name)

    def targets(self, row: int, pods: Sequence[Pod]) -> frozenset[str] | None:
        """The names of the nodes that take these pods; None, and nothing is changed, if one finds no node."""
        load, slots = self._context.load, self._context.cluster.pod_table.slot
        usage, found, allowed = self._usage.copy(), dict[str, str](), self._allowed.copy()
        allowed[row] = False
        pod_loads = {pod.uid: load.pods(np.array([slots[pod.uid]], dtype=np.intp)) for pod in pods}
        for pod in sorted(pods, key=lambda pod: (-_size(load, row, pod_loads[pod.uid]), pod.uid)):
            target = self._fullest(pod, pod_loads[pod.uid], usage, allowed)
            if target is None:
                self._put_back(pods, found)
                return None
            usage[:, target] += pod_loads[pod.uid].usage[:, 0]
            found[pod.uid] = self._context.cluster.view.nodes[target].name
            self._rehearsal.move(pod, found[pod.uid])
        self._usage, self._allowed = usage, allowed
        return frozenset(found.values())

    def _fullest(self, pod: Pod, pod_load: PodLoad, usage: Floats, allowed: Bools) -> int | None:
        feasible = self._rehearsal.feasible(pod)
        if feasible is None:
            return None
        after = ((usage + pod_load.usage) * self._context.load.per_unit[:, :, None]).max(axis=0).max(axis=1)
        fits = feasible & allowed & (after <= self._highest)
        return int(np.where(fits, after, -1.0).argmax()) if fits.any() else None

    def _put_back(self, pods: Sequence[Pod], moved: dict[str, str]) -> None:
        for pod in pods:
            if pod.uid in moved:
                self._rehearsal.move(pod, pod.node)


def _size(load: NodeLoad, row: int, pod_load: PodLoad) -> float:
    return float((pod_load.usage[:, 0] * load.per_unit[:, [row]]).max())
