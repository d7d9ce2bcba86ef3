"""PodCountBalancing: pods leave nodes that run many more pods than others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.model.setting import INT32, check_ranges, setting
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.utilisation import highest_first
from trimtab.core.tables import Bools


@dataclass(frozen=True, slots=True)
class PodCountBalancing:
    """A few pods at a time go to nodes below the mean: those that use least, because the number is all that matters."""

    name: ClassVar[str] = "PodCountBalancing"
    reads_snapshots: ClassVar[bool] = True

    threshold: int = setting(
        20, "20 unless set: the difference in pods between two nodes above which pods should leave", between=(1, INT32)
    )
    max_pods: int = setting(3, "3 unless set: how many pods may leave a node in one plan", between=(1, INT32))

    def __post_init__(self) -> None:
        check_ranges(self)

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        view = context.cluster.view
        counts, targets = view.pod_count, ~view.unschedulable
        if not targets.any():
            return
        lowest, mean = int(counts[targets].min()), float(counts[targets].mean())
        names = self._targets(context, targets & (counts < mean))
        for row in highest_first(counts - lowest > self.threshold, counts.astype(np.float64)):
            node = view.nodes[row].name
            leaving = self._smallest(context, node, min(self.max_pods, int(counts[row] - mean)))
            if leaving and names:
                reason = f"{counts[row]} pods, another node has {lowest}"
                yield Suggestion(self.name, node, reason, leaving, context.worth_a_move, names)

    def _targets(self, context: StrategyContext, below: Bools) -> frozenset[str]:
        nodes = context.cluster.view.nodes
        return frozenset(nodes[int(row)].name for row in np.flatnonzero(below))

    def _smallest(self, context: StrategyContext, node: str, count: int) -> frozenset[str]:
        cluster = context.cluster
        on_node = cluster.on_node.get(node, {}).values()
        movable = [pod for pod in on_node if not pod.terminating and context.movable(pod)]
        slots = np.array([cluster.pod_table.slot[pod.uid] for pod in movable], dtype=np.intp)
        usage = context.load.pods(slots).usage.mean(axis=2) * context.load.per_unit[:, [cluster.node_table.row[node]]]
        order = np.argsort(usage.max(axis=0), kind="stable")[: max(count, 0)]
        return frozenset(movable[int(number)].uid for number in order)
