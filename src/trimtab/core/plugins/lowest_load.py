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

from trimtab.core.cluster.columns import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.placing.contract import ALL, MAX_SCORE, Go, Ints, Normalise, Refuse, Rows
from trimtab.core.placing.measured import usage
from trimtab.core.placing.measured.turns import NOBODY_YET, Turns

TOP = MAX_SCORE * usage.PARTS


@dataclass(frozen=True, slots=True)
class LowestLoad:
    """How much each resource counts. Without the reserve point nobody counts turns, and the fewest pods go first."""

    name: ClassVar[str] = "LowestLoad"
    woken_by: ClassVar[Change] = Change.NOTHING
    reads: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE | Change.MEMORY
    normalise: ClassVar[Normalise] = Normalise.NONE
    parts: ClassVar[int] = usage.PARTS

    cpu_weight: float = 1.0
    memory_weight: float = 1.0

    def __post_init__(self) -> None:
        for name, weight in (("cpuWeight", self.cpu_weight), ("memoryWeight", self.memory_weight)):
            if not 0 <= weight <= 100:
                raise ValueError(f"{name} is {weight:g}: it must be from 0 to 100")
        if self.cpu_weight + self.memory_weight == 0:
            raise ValueError("cpuWeight and memoryWeight are both 0: one must be above")

    def signs(self, pod: Pod) -> Hashable:
        return usage.asks_and_kin(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not _measured(view):
            return _in_turn(view, view.memory(self.name), rows)
        used = usage.weighted(self.cpu_weight, self.memory_weight, usage.share_pair(view, rows, pod))
        return usage.points(used / (self.cpu_weight + self.memory_weight))

    def reserve(self, view: View, memory: Turns | None, pod: Pod, node: str) -> tuple[Turns | None, Go | Refuse]:
        row = view.row(node)
        if row is None or _measured(view):
            return memory, Go.GO
        return (memory or NOBODY_YET).among(view.name_hash).taken(row, pod.uid), Go.GO

    def unreserve(self, memory: Turns | None, pod: Pod, node: str) -> Turns | None:
        return memory and memory.given_back(name_hash(node), pod.uid)

    def observed(self, memory: Turns | None, pod: Pod, came: bool) -> Turns | None:
        return memory and memory.landed(pod.uid)

    def remark(self, view: View, pod: Pod) -> str:
        return (
            usage.blind_spots(view) if _measured(view) else "no node has metrics that can be believed: nodes take turns"
        )


def _measured(view: View) -> bool:
    return any(not np.isnan(usage.expected(view, resource, ALL)).all() for resource in (CPU, MEMORY))


def _in_turn(view: View, memory: Turns | None, rows: Rows) -> Ints:
    if memory is None:
        return np.maximum(TOP - view.pod_count[rows], 0)
    return (view.count - memory.among(view.name_hash).ahead[rows]) * TOP // max(view.count, 1)
