"""PeakRisk: prefers nodes whose load is unlikely to exceed a limit once the pod runs there.

For each resource the load of a node is taken as the sum of many pods' loads, and so as normally distributed: with mean
μ (the last hour's means of its pods, estimates for pods not yet measured, and this pod's own) and deviation σ (from
their variances, as if they were independent). The risk is the probability that the sum exceeds the limit, Φ((μ - limit)
/ σ), for the resource where it is highest: a mean over resources would hide the one that is running out. While no node
is at risk the lower load decides, so equal pods spread.

Assumptions, and when they fail: the next hour is like the last one (a daily peak is seen when it begins); pods of a
node do not peak together (σ is then too small: raise `floor`); a pod not yet measured is like its siblings, or else
like the cluster's pods. Requests do not matter where there are metrics.

With little or no data:

    trust   mean                            deviation
    1       forecast                        forecast's; of one sample only, half of `spread`
    1/2     forecast                        forecast's, and half of `spread`
    0       requests of the node's pods     `spread`

A wide deviation only ever adds risk: where the mean itself is above the limit it would lower the risk, and pods would
pile up on the least known node; there `floor` replaces it. So a node without metrics is never better than one with the
same known load; and where nothing is measured at all nodes rank by requests, the fuller resource first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.framework.load_scoring import utilisation
from trimtab.core.framework.load_scoring.scalar import SMALL_SELECTION
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import PERCENTAGE, ArgumentError, check_ranges, setting
from trimtab.core.tables import Floats

MAX_LOAD_RATIO = 2.0  # times the limit, above which loads count as equal
MAX_DEVIATIONS = 8.0  # beyond this a probability is 0 or 1
STEPS = 256  # table entries per deviation: errors stay below a millionth
TABLE = [math.erfc((MAX_DEVIATIONS - i / STEPS) / math.sqrt(2)) / 2 for i in range(int(2 * MAX_DEVIATIONS * STEPS) + 2)]
TABLE_ARRAY: Floats = np.array(TABLE)


@dataclass(frozen=True, slots=True)
class RiskLimit:
    """A resource, and the percentage of capacity that its load should not exceed."""

    name: str
    limit: float = setting(80.0, **PERCENTAGE)

    def __post_init__(self) -> None:
        if self.name not in (CPU, MEMORY):
            raise ValueError(f"resources[].name: must be cpu or memory, not {self.name!r}")
        check_ranges(self)


@dataclass(frozen=True, slots=True)
class PeakRisk:
    """Arguments in percent. An idle node has 100 points; its mean load costs up to `lean` of them, the risk the rest.

    floor: the smallest deviation of a node's load, relative to capacity.
    spread: the deviation of a node without metrics, relative to capacity.
    lean: how many points depend on the mean load instead of the risk. With other score plugins, a low value lets them
    decide among nodes without risk, and a high one keeps loads even.
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
    floor: float = setting(
        2.0, "2 unless set: the minimum deviation of a node's load, in percent of its capacity", **PERCENTAGE
    )
    spread: float = setting(
        25.0, "25 unless set, at least floor: the same for a node without measurements", **PERCENTAGE
    )
    lean: float = setting(
        10.0,
        "10 unless set, above 0 to 100: the percentage of the score that depends on the mean load instead of the risk",
        **PERCENTAGE,
    )

    def __post_init__(self) -> None:
        names = [each.name for each in self.resources]
        if not names or len({*names}) < len(names):
            raise ValueError("resources must name cpu, memory or both, each once")
        check_ranges(self)
        if self.floor > self.spread:
            raise ArgumentError("floor", f"floor ({self.floor:g}) must be at most spread ({self.spread:g})")

    def signature(self, pod: Pod) -> Hashable:
        return utilisation.estimate_signature(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        inputs = [self._inputs(view, pod, each, rows) for each in self.resources]
        return self._score_few(inputs) if len(inputs[0].mean) <= SMALL_SELECTION else self._score_all(inputs)

    def explain_note(self, view: View, pod: Pod) -> str:
        return utilisation.unmeasured_note(view, tuple(each.name for each in self.resources))

    def _inputs(self, view: View, pod: Pod, risk: RiskLimit, rows: Rows) -> RiskInputs:
        name, load = risk.name, view.load
        mean, variance = load.forecast(name)
        pod_mean, deviation, _ = load.estimate(pod, name)
        return RiskInputs(
            mean[: view.count][rows],
            variance[: view.count][rows],
            load.trust(name)[: view.count][rows],
            utilisation.requested_with(view, name, rows, pod),
            view.capacity(name)[rows].astype(np.float64),
            pod_mean,
            deviation * deviation,
            risk.limit / 100,
            self.floor / 100,
            self.spread / 100,
        )

    def _score_all(self, inputs: list[RiskInputs]) -> Ints:
        first, *others = map(distance_to_limit, inputs)
        distance, load = first
        for other_distance, other_load in others:
            distance, load = np.maximum(distance, other_distance), np.maximum(load, other_load)
        lean = self.lean / 100
        cost = normal_cdf(distance) * (1 - lean) + np.minimum(load, MAX_LOAD_RATIO) * (lean / MAX_LOAD_RATIO)
        return ((1 - cost) * (MAX_SCORE * self.score_scale)).astype(np.int64)

    def _score_few(self, inputs: list[RiskInputs]) -> Ints:
        """The same in plain numbers."""
        lean, max_score, scores = self.lean / 100, MAX_SCORE * self.score_scale, []
        for resources in zip(*map(distance_to_limit_by_row, inputs), strict=True):
            distance, load = max(each for each, _ in resources), max(each for _, each in resources)
            cost = normal_cdf_one(distance) * (1 - lean) + min(load, MAX_LOAD_RATIO) * (lean / MAX_LOAD_RATIO)
            scores.append(int((1 - cost) * max_score))
        return np.array(scores, dtype=np.int64)


class RiskInputs(NamedTuple):
    """One resource: by row the forecast, its trust, the requests used instead, and the capacity.

    For all rows the pod's own mean and variance; and relative to capacity the limit, the smallest deviation
    (`min_deviation`), and the deviation of a node without metrics (`unmeasured_deviation`).
    """

    mean: Floats
    variance: Floats
    trust: Floats
    requested: Floats
    capacity: Floats
    pod_mean: float
    pod_variance: float
    limit: float
    min_deviation: float
    unmeasured_deviation: float


def distance_to_limit(inputs: RiskInputs) -> tuple[Floats, Floats]:
    """By how many deviations the mean with the pod exceeds the limit, and that mean relative to the limit."""
    capacity = np.maximum(inputs.capacity, 1.0)
    mean = (inputs.mean + inputs.pod_mean) / capacity
    variance = (inputs.variance + inputs.pod_variance) / (capacity * capacity)
    doubt = (1.0 - inputs.trust) * inputs.unmeasured_deviation
    if (no_variance := np.isnan(variance)).any():
        variance[no_variance], doubt[no_variance] = 0.0, np.maximum(doubt[no_variance], inputs.unmeasured_deviation / 2)
    if (no_mean := np.isnan(mean)).any():
        mean[no_mean], doubt[no_mean] = (inputs.requested / capacity)[no_mean], inputs.unmeasured_deviation
    gap = mean - inputs.limit
    variance = np.where(gap < 0, variance + doubt * doubt, 0.0)
    return gap / np.sqrt(np.maximum(variance, inputs.min_deviation * inputs.min_deviation)), mean / inputs.limit


def distance_to_limit_by_row(inputs: RiskInputs) -> list[tuple[float, float]]:
    """The same row by row in plain numbers."""
    results = []
    columns = (inputs.mean, inputs.variance, inputs.trust, inputs.requested, inputs.capacity)
    for mean, variance, trust, requested, raw_capacity in zip(*(column.tolist() for column in columns), strict=True):
        capacity, doubt = max(raw_capacity, 1.0), (1.0 - trust) * inputs.unmeasured_deviation
        ratio, squared = (mean + inputs.pod_mean) / capacity, (variance + inputs.pod_variance) / (capacity * capacity)
        if squared != squared:
            squared, doubt = 0.0, max(doubt, inputs.unmeasured_deviation / 2)
        if ratio != ratio:
            ratio, doubt = requested / capacity, inputs.unmeasured_deviation
        gap = ratio - inputs.limit
        squared = squared + doubt * doubt if gap < 0 else 0.0
        deviation = math.sqrt(max(squared, inputs.min_deviation * inputs.min_deviation))
        results.append((gap / deviation, ratio / inputs.limit))
    return results


def normal_cdf(deviations: Floats) -> Floats:
    """The standard normal CDF Φ by table lookup, since numpy has no error function."""
    place = (np.clip(deviations, -MAX_DEVIATIONS, MAX_DEVIATIONS) + MAX_DEVIATIONS) * STEPS
    below = place.astype(np.intp)
    low = TABLE_ARRAY[below]
    return low + (place - below) * (TABLE_ARRAY[below + 1] - low)


def normal_cdf_one(deviation: float) -> float:
    """The same for one value."""
    place = (min(max(deviation, -MAX_DEVIATIONS), MAX_DEVIATIONS) + MAX_DEVIATIONS) * STEPS
    below = int(place)
    return TABLE[below] + (place - below) * (TABLE[below + 1] - TABLE[below])
