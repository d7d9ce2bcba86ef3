"""PeakRisk: likes nodes whose load is unlikely to pass a limit once the pod runs there; what is measured is left to `load`.

For each resource the load of a node is taken as a sum of many pods' loads, and so as normal: with mean μ (the last hour's
means of its pods, estimates of those not measured yet, and this pod's own) and deviation σ (from their variances, as if they
rose and fell independently). The risk is the probability that the sum is above the limit, Φ((μ - limit) / σ), for the
resource where that is worst: a mean over resources would hide the one that is running out. As long as no node is at risk
the lower load decides, so that equal pods spread.

What is assumed, and when it fails: the next hour is like the last one (a daily peak is seen when it begins); pods of one
node do not peak together (σ is then too small: raise `floor`); a pod not measured yet is like its siblings, or else like
the cluster's pods. Requests play no part where there are measurements.

With little or no data:

    trust   mean                            deviation
    1       forecast                        forecast's; of one sample only, half of `spread`
    1/2     forecast                        forecast's, and half of `spread`
    0       what the pods there ask for     `spread`

A wide deviation only ever adds risk: where the mean itself is above the limit it would flatter, and pods would pile up on
the node that is known least; there `floor` stands for it. So a node that nobody measures is not better than one of which
the same is known; and where nothing is measured at all the order is that of requests, the fuller resource first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.placing.contract import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.placing.measured import usage

FURTHEST = 8.0  # deviations, beyond which a probability is 0 or 1
STEPS = 256  # of the table within one deviation: errors stay below a millionth
TABLE: Floats = np.array(
    [math.erfc((FURTHEST - i / STEPS) / math.sqrt(2)) / 2 for i in range(int(2 * FURTHEST * STEPS) + 2)]
)
OVERFULL = 2.0  # times the limit, from which on loads count as equal


@dataclass(frozen=True, slots=True)
class RiskLimit:
    """A resource, and the percentage of the machine's capacity that its load should not pass."""

    name: str
    limit: float = 80.0

    def __post_init__(self) -> None:
        if self.name not in (CPU, MEMORY):
            raise ValueError(f"resources[].name: only cpu and memory are measured by themselves, not {self.name!r}")
        if not 0 < self.limit <= 100:
            raise ValueError(f"resources[].limit: {self.limit:g} is not a percentage above 0 and up to 100")


@dataclass(frozen=True, slots=True)
class PeakRisk:
    """Arguments in percent. An idle node has 100 points; up to `lean` are lost by its mean load, and the rest by the risk.

    floor: the least deviation that a node's load is taken to have, of its capacity.
    spread: the deviation of a node that nobody measures, of its capacity.
    lean: how much of the score goes by the mean load instead of by the risk. Alone, the plugin does about as well with any;
    beside others, a small share lets them decide among all nodes without risk, and a large one keeps the balance.
    """

    name: ClassVar[str] = "PeakRisk"
    woken_by: ClassVar[Change] = Change.NOTHING
    reads: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    parts: ClassVar[int] = 1_000_000

    resources: tuple[RiskLimit, ...] = (RiskLimit(CPU, 80.0), RiskLimit(MEMORY, 90.0))
    floor: float = 2.0
    spread: float = 25.0
    lean: float = 30.0

    def __post_init__(self) -> None:
        names = [each.name for each in self.resources]
        if not names or len({*names}) < len(names):
            raise ValueError("resources: name cpu, memory or both, each once")
        if not 0 < self.floor <= self.spread <= 100:
            raise ValueError(
                f"floor ({self.floor:g}) must be above 0 and at most spread ({self.spread:g}), and that 100"
            )
        if not 0 < self.lean <= 100:
            raise ValueError(f"lean: {self.lean:g} is not a percentage above 0 and up to 100")

    def signs(self, pod: Pod) -> Hashable:
        return usage.kin(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        first, *others = [self._passing(view, pod, each, rows) for each in self.resources]
        deviations, fullness = first
        for further, fuller in others:
            np.maximum(deviations, further, out=deviations)
            np.maximum(fullness, fuller, out=fullness)
        lean = self.lean / 100
        lost = probability(deviations) * (1 - lean)
        lost += np.minimum(fullness, OVERFULL) * (lean / OVERFULL)
        return ((1 - lost) * (MAX_SCORE * self.parts)).astype(np.int64)

    def remark(self, view: View, pod: Pod) -> str:
        return usage.blind_spots(view, tuple(each.name for each in self.resources))

    def _passing(self, view: View, pod: Pod, risk: RiskLimit, rows: Rows) -> tuple[Floats, Floats]:
        """By how many deviations the mean passes the limit, and the mean as a share of the limit."""
        limit, floor = risk.limit / 100, self.floor / 100
        mean, variance = self._expected(view, pod, risk.name, rows)
        beyond = mean - limit
        beyond /= np.sqrt(np.where(beyond < 0, np.maximum(variance, floor * floor), floor * floor))
        return beyond, mean / limit

    def _expected(self, view: View, pod: Pod, resource: str, rows: Rows) -> tuple[Floats, Floats]:
        """Mean and variance with the pod there, as shares of capacity; doubt is in the variance."""
        capacity = np.maximum(view.capacity(resource)[rows], 1).astype(np.float64)
        own, deviation, _ = view.load.estimate(pod, resource)
        known, about = view.load.forecast(resource)
        mean = (known[: view.count][rows] + own) / capacity
        variance = (about[: view.count][rows] + deviation * deviation) / (capacity * capacity)
        doubt = (1.0 - view.load.trust(resource)[: view.count][rows]) * (self.spread / 100)
        if (rough := np.isnan(variance)).any():  # of one sample there is no deviation
            variance[rough] = 0.0
            doubt[rough] = np.maximum(doubt[rough], self.spread / 200)
        if (blind := np.isnan(mean)).any():
            mean[blind] = (usage.asked(view, resource, rows, pod) / capacity)[blind]
            doubt[blind] = self.spread / 100
        variance += doubt * doubt
        return mean, variance


def probability(deviations: Floats) -> Floats:
    """That a normal value is below so many deviations above its mean: Φ by table, since arrays have no error function."""
    place = np.clip(deviations, -FURTHEST, FURTHEST)
    place += FURTHEST
    place *= STEPS
    below = place.astype(np.intp)
    low = TABLE[below]
    place -= below
    return low + place * (TABLE[below + 1] - low)
