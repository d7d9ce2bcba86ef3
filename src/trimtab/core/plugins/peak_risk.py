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

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.framework.load_scoring import utilisation
from trimtab.core.framework.load_scoring.peak_risk_math import (
    RiskInputs,
    distance_to_limit,
    distance_to_limit_by_row,
    normal_cdf,
    normal_cdf_one,
)
from trimtab.core.framework.load_scoring.scalar import SMALL_SELECTION
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import setting

MAX_LOAD_RATIO = 2.0  # times the limit, from which on loads count as equal


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
    lean: how many of the points go by the mean load instead of by the risk. Beside other plugins, a small share lets them
    decide among all nodes without risk, and a large one keeps loads even.
    """

    name: ClassVar[str] = "PeakRisk"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = 1_000_000

    resources: tuple[RiskLimit, ...] = setting(
        (RiskLimit(CPU, 80.0), RiskLimit(MEMORY, 90.0)),
        "cpu at 80 and memory at 90 unless set: each with `name`, and `limit`, the target for its load in"
        " percent of capacity",
    )
    floor: float = setting(2.0, "2 unless set: the minimum deviation of a node's load, in percent of its capacity")
    spread: float = setting(25.0, "25 unless set, at least floor: the same for a node without measurements")
    lean: float = setting(
        10.0,
        "10 unless set, above 0 to 100: the percentage of the score that depends on the mean load instead of the risk",
    )

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

    def signature(self, pod: Pod) -> Hashable:
        return utilisation.estimate_signature(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        looks = [self._inputs(view, pod, each, rows) for each in self.resources]
        return self._score_few(looks) if len(looks[0].mean) <= SMALL_SELECTION else self._score_all(looks)

    def explain_note(self, view: View, pod: Pod) -> str:
        return utilisation.unmeasured_note(view, tuple(each.name for each in self.resources))

    def _inputs(self, view: View, pod: Pod, risk: RiskLimit, rows: Rows) -> RiskInputs:
        name, load = risk.name, view.load
        mean, variance = load.forecast(name)
        own, deviation, _ = load.estimate(pod, name)
        return RiskInputs(
            mean[: view.count][rows],
            variance[: view.count][rows],
            load.trust(name)[: view.count][rows],
            utilisation.requested_with(view, name, rows, pod),
            view.capacity(name)[rows].astype(np.float64),
            own,
            deviation * deviation,
            risk.limit / 100,
            self.floor / 100,
            self.spread / 100,
        )

    def _score_all(self, looks: list[RiskInputs]) -> Ints:
        first, *others = map(distance_to_limit, looks)
        beyond, fullness = first
        for further, fuller in others:
            beyond, fullness = np.maximum(beyond, further), np.maximum(fullness, fuller)
        lean = self.lean / 100
        lost = normal_cdf(beyond) * (1 - lean) + np.minimum(fullness, MAX_LOAD_RATIO) * (lean / MAX_LOAD_RATIO)
        return ((1 - lost) * (MAX_SCORE * self.score_scale)).astype(np.int64)

    def _score_few(self, looks: list[RiskInputs]) -> Ints:
        """The same in plain numbers."""
        lean, top, answer = self.lean / 100, MAX_SCORE * self.score_scale, []
        for figures in zip(*map(distance_to_limit_by_row, looks), strict=True):
            beyond, fullness = max(each for each, _ in figures), max(each for _, each in figures)
            lost = normal_cdf_one(beyond) * (1 - lean) + min(fullness, MAX_LOAD_RATIO) * (lean / MAX_LOAD_RATIO)
            answer.append(int((1 - lost) * top))
        return np.array(answer, dtype=np.int64)
