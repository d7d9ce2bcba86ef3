"""LowestLoad: prefers the node that really uses the least CPU and memory; where nothing is measured, nodes take turns.

After 1006tiger/MyScheduler, which binds each pod to the node with the lowest sum of both percentages. What was fixed:

- It was the whole scheduler, without any filter; here it scores what the filters of the profile have left.
- Pods that no sample shows yet count with what they are expected to use, so a burst does not all go to the coldest node.
- A value that cannot be read is not 0. A node without data is scored by requests, as long as others have data.
- Its round robin was always the first node. Here, when no node has data, the node that was chosen longest ago goes first,
  among those that pass all filters, and a pod that was turned back gives its node the turn back. So n pods on m nodes
  that would all do differ by at most one, if no other plugin scores.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.node_table import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import ALL_ROWS, MAX_SCORE, Ints, Normalise, Reject, Rows, StageStatus
from trimtab.core.framework.load_scoring import utilisation
from trimtab.core.framework.load_scoring.round_robin import EMPTY, RoundRobin
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import setting

MAX_SCALED_SCORE = MAX_SCORE * utilisation.SCORE_SCALE


@dataclass(frozen=True, slots=True)
class LowestLoad:
    """How much each resource counts. Without the reserve point nobody counts turns, and the fewest pods go first."""

    name: ClassVar[str] = "LowestLoad"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE | Change.PLUGIN_STATE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE

    cpu_weight: float = setting(1.0, "1 unless set, 0 to 100: the weight of CPU in a node's load")
    memory_weight: float = setting(1.0, "1 unless set, 0 to 100: the same for memory")

    def __post_init__(self) -> None:
        for name, weight in (("cpuWeight", self.cpu_weight), ("memoryWeight", self.memory_weight)):
            if not 0 <= weight <= 100:
                raise ValueError(f"{name} is {weight:g}: it must be from 0 to 100")
        if self.cpu_weight + self.memory_weight == 0:
            raise ValueError("cpuWeight and memoryWeight are both 0: one must be above")

    def signature(self, pod: Pod) -> Hashable:
        return utilisation.estimate_signature(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not _any_measured(view):
            return _round_robin_score(view, view.plugin_state(self.name), rows)
        used = utilisation.weighted_sum(self.cpu_weight, self.memory_weight, utilisation.utilisations(view, rows, pod))
        return utilisation.free_score(used / (self.cpu_weight + self.memory_weight))

    def reserve(
        self, view: View, state: RoundRobin | None, pod: Pod, node: str
    ) -> tuple[RoundRobin | None, StageStatus | Reject]:
        row = view.row(node)
        if row is None or _any_measured(view):
            return state, StageStatus.SUCCESS
        return (state or EMPTY).restricted_to(view.name_hash).taken(row, pod.uid), StageStatus.SUCCESS

    def unreserve(self, state: RoundRobin | None, pod: Pod, node: str) -> RoundRobin | None:
        return state and state.returned(name_hash(node), pod.uid)

    def observe_pod(self, state: RoundRobin | None, pod: Pod, added: bool) -> RoundRobin | None:
        return state and state.confirmed(pod.uid)

    def explain_note(self, view: View, pod: Pod) -> str:
        return (
            utilisation.unmeasured_note(view)
            if _any_measured(view)
            else "no node has metrics that can be believed: nodes take turns"
        )


def _any_measured(view: View) -> bool:
    return any(not np.isnan(utilisation.expected(view, resource, ALL_ROWS)).all() for resource in (CPU, MEMORY))


def _round_robin_score(view: View, state: RoundRobin | None, rows: Rows) -> Ints:
    if state is None:
        return np.maximum(MAX_SCALED_SCORE - view.pod_count[rows], 0)
    return (view.count - state.restricted_to(view.name_hash).rank[rows]) * MAX_SCALED_SCORE // max(view.count, 1)
