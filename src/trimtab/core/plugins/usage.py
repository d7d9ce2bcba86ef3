"""Usage: refuses nodes that use more than a threshold, and prefers those that use the least; room is Fit's business.

After the plugin `usage` of Volcano, whose arguments `usage.weight`, `cpu.weight` and `memory.weight` are `usageWeight` and so
on here. What was fixed:

- A query that failed was stored as an idle node with a fresh date. Here a node without data passes the thresholds and is
  scored by requests.
- The filter did not see what had been placed since the last sample, nor the pod itself; both count, in the score too.
- It called every refusal unresolvable; here those that an eviction could cure are told apart, so preemption can help.
- The average over ten minutes hid what had just begun: what a node is expected to use counts, where that is more.

`strict` takes the average alone, pods not yet seen in the score only, and whole points.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from operator import gt
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import Ints, Normalise, Rows
from trimtab.core.placing.measured import few, usage
from trimtab.core.placing.measured.limits import codes_above, passed

PERIOD = 600.0


@dataclass(frozen=True, slots=True)
class Thresholds:
    """In percent; 0 is no threshold."""

    cpu: float = 80.0
    mem: float = 80.0

    def __post_init__(self) -> None:
        for name, percent in (("cpu", self.cpu), ("mem", self.mem)):
            if not 0 <= percent <= 100:
                raise ValueError(f"{name} is {percent:g}: it must be from 0 to 100")


EIGHTY = Thresholds()


@dataclass(frozen=True, slots=True)
class Usage:
    """`usage_weight` is what Volcano multiplies scores by: here the profile says the weight, where it enables the plugin."""

    name: ClassVar[str] = "Usage"
    woken_by: ClassVar[Change] = (
        Change.LOAD | Change.POD_LEFT | Change.POD_ALTERED | Change.NODE_ADDED | Change.ALLOCATABLE
    )
    reads: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    parts: ClassVar[int] = usage.PARTS

    thresholds: Thresholds = EIGHTY
    usage_weight: int = 5
    cpu_weight: int = 1
    memory_weight: int = 1
    strict: bool = False

    def __post_init__(self) -> None:
        if min(self.usage_weight, self.cpu_weight, self.memory_weight) < 0:
            raise ValueError("usageWeight, cpuWeight and memoryWeight must be 0 or more")
        if self.cpu_weight + self.memory_weight == 0:
            raise ValueError("cpuWeight and memoryWeight are both 0: one must be above")

    def signs(self, pod: Pod) -> Hashable:
        return () if self.strict else usage.asks_and_kin(pod)

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        if not self.strict and (some := few.few(view, rows)):
            own = few.own(view, pod)
            return few.column(lambda row: self._code(view, own, row), some)
        return self._codes(view, pod, rows)

    def _codes(self, view: View, pod: Pod, rows: Rows) -> Ints:
        limits = np.array(((self.thresholds.cpu or np.inf,), (self.thresholds.mem or np.inf,))) / 100
        offered = usage.offered_pair(view.capacity, rows)
        if self.strict:
            return codes_above(usage.share_of(_average(view, rows), offered) > limits)
        own = usage.own_pair(view, pod)
        above = usage.share_of(_real(view, rows) + own, offered) > limits
        return codes_above(above, lambda: usage.share_of(own, offered) > limits)

    def _code(self, view: View, own: tuple[float, float], row: int) -> int:
        """The same for one row."""
        limits = ((self.thresholds.cpu or inf) / 100, (self.thresholds.mem or inf) / 100)
        above = map(gt, _shares_of(view, own, row), limits)
        capacity = (view.capacity(resource).item(row) for resource in usage.PAIR)
        return few.code(above, lambda: map(gt, map(few.share, own, capacity), limits))

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        words = (f"CPU is used above {self.thresholds.cpu:g}%", f"memory is used above {self.thresholds.mem:g}%")
        return tuple(f"node(s) whose {words[bit]}" for bit in passed(code))

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not self.strict and (some := few.few(view, rows)):
            own = few.own(view, pod)
            return few.column(lambda row: self._points(view, pod, own, row), some)
        known = _average(view, rows) + usage.pair(view.load.pending, view, rows) if self.strict else _real(view, rows)
        used = known if self.strict else known + usage.own_pair(view, pod)
        shares = usage.share_of(used, usage.offered_pair(view.capacity, rows))
        free = 1.0 - np.minimum(usage.by_requests(view, rows, pod, shares), 1.0)
        mean = usage.weighted(self.cpu_weight, self.memory_weight, free) / (self.cpu_weight + self.memory_weight)
        return usage.in_parts(mean * 100) if self.strict else usage.points(1.0 - mean)

    def _points(self, view: View, pod: Pod, own: tuple[float, float], row: int) -> int:
        """The same for one row."""
        shares = few.known(view, pod, row, _shares_of(view, own, row))
        cpu, memory = (1.0 - min(share, 1.0) for share in shares)
        mean = (self.cpu_weight * cpu + self.memory_weight * memory) / (self.cpu_weight + self.memory_weight)
        return few.points(1.0 - mean)

    def remark(self, view: View, pod: Pod) -> str:
        return usage.blind_spots(view)


def _average(view: View, rows: Rows) -> Floats:
    return usage.pair(lambda resource: view.load.average(resource, PERIOD), view, rows)


def _real(view: View, rows: Rows) -> Floats:
    """What was used on average or will be used soon, whichever is more; NaN where nobody knows."""
    return np.fmax(_average(view, rows), usage.expected_pair(view, rows))


def _shares_of(view: View, own: tuple[float, float], row: int) -> list[float]:
    """How full one node will really be with the pod, of CPU and memory."""
    load = view.load
    return [
        few.share(
            few.larger(load.average(resource, PERIOD).item(row), load.expected(resource).item(row)) + amount,
            view.capacity(resource).item(row),
        )
        for resource, amount in zip(usage.PAIR, own, strict=True)
    ]
