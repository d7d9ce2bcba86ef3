"""LowestLoad: prefers the node that really uses the least CPU and memory; without any metrics, nodes take turns.

After 1006tiger/MyScheduler, which binds each pod to the node with the lowest sum of both percentages. Fixed here:

- It was the whole scheduler, without any filter; here it scores the nodes that pass the profile's filters.
- Pods that no sample shows yet count with their expected usage, so a burst does not all go to the least loaded node.
- An unreadable value is not 0. A node without metrics is scored by requests, as long as others have metrics.
- Its round robin always picked the first node. Here, when no node has metrics, the node chosen longest ago goes first
  among those that pass all filters, and a pod whose binding fails returns its turn. So n pods on m equally feasible
  nodes differ by at most one, if no other plugin scores.

`strict` restores the sum of the five-minute average of CPU and the latest memory, the lowest score for a node without
them while others have them, and the first node by name when none has. Filters are those of the profile all the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework import round_robin
from trimtab.core.framework.interface import ALL_ROWS, MAX_SCORE, Ints, Normalise, Reject, Rows, StageStatus
from trimtab.core.framework.load_scoring import utilisation
from trimtab.core.framework.round_robin import RoundRobin
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import check_ranges, setting

WINDOW = 300.0  # of the original's query for CPU


@dataclass(frozen=True, slots=True)
class LowestLoad:
    """The weight of each resource. Without the reserve point turns are not counted, and the fewest pods go first."""

    name: ClassVar[str] = "LowestLoad"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE | Change.PLUGIN_STATE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE
    takes_turns: ClassVar[bool] = True  # what it does without data, for those who report on a configuration

    cpu_weight: float = setting(1.0, "1 unless set, 0 to 100: the weight of CPU in a node's load", between=(0, 100))
    memory_weight: float = setting(1.0, "1 unless set, 0 to 100: the same for memory", between=(0, 100))

    strict: bool = setting(False, "false unless set: true uses measured values only, as the original does")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.cpu_weight + self.memory_weight == 0:
            raise ValueError("cpuWeight and memoryWeight are both 0: set at least one of them")

    def signature(self, pod: Pod) -> Hashable:
        return () if self.strict else utilisation.estimate_signature(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if self.strict:
            return self._strict_score(view)[rows]
        if not _any_measured(view):
            return round_robin.score(view, view.plugin_state(self.name), rows, self.score_scale)
        used = utilisation.weighted_sum(self.cpu_weight, self.memory_weight, utilisation.utilisations(view, rows, pod))
        return utilisation.free_score(used / (self.cpu_weight + self.memory_weight))

    def _strict_score(self, view: View) -> Ints:
        """Of all rows."""
        load, count = view.load, view.count
        cpu, memory = load.recent_mean(CPU, WINDOW)[:count], load.latest(MEMORY)[:count]
        shares = utilisation.ratios(np.array((cpu, memory)), utilisation.quantities(view.capacity, ALL_ROWS))
        used = utilisation.weighted_sum(self.cpu_weight, self.memory_weight, shares)
        if np.isnan(used).all():
            return _first_by_name(view, self.score_scale)
        return utilisation.free_score(np.nan_to_num(used / (self.cpu_weight + self.memory_weight), nan=1.0))

    def reserve(
        self, view: View, state: RoundRobin | None, pod: Pod, node: str
    ) -> tuple[RoundRobin | None, StageStatus | Reject]:
        return state if self.strict or _any_measured(view) else round_robin.take(
            view, state, pod, node
        ), StageStatus.SUCCESS

    def unreserve(self, state: RoundRobin | None, pod: Pod, node: str) -> RoundRobin | None:
        return round_robin.give_back(state, pod, node)

    def observe_pod(self, state: RoundRobin | None, pod: Pod, added: bool) -> RoundRobin | None:
        return state and state.confirmed(pod.uid)

    def explain_note(self, view: View, pod: Pod) -> str:
        return (
            utilisation.unmeasured_note(view)
            if _any_measured(view)
            else "no node has trusted metrics: nodes take turns"
        )


def _first_by_name(view: View, score_scale: int) -> Ints:
    """The most points for the first node, and the fewest for the last."""
    rank = np.empty(view.count, dtype=np.int64)
    rank[sorted(range(view.count), key=lambda row: view.nodes[row].name)] = np.arange(view.count)
    return (view.count - rank) * MAX_SCORE * score_scale // max(view.count, 1)


def _any_measured(view: View) -> bool:
    return any(not np.isnan(utilisation.expected(view, resource, ALL_ROWS)).all() for resource in (CPU, MEMORY))
