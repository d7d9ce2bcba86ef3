"""PeakRisk: prefers nodes whose load is unlikely to exceed a limit once the pod runs there.

For each resource the load of a node is taken as the sum of many pods' loads, and so as normally distributed: with mean
μ (the last hour's means of its pods, estimates for pods not yet measured, and this pod's own) and deviation σ (from
their variances, as if they were independent). Where the load is above that mean now, it counts as it is, and the rise
adds to σ: it may go on. Two things count, each for the resource where it is highest, because a mean over resources
would hide the one that is running out: the probability that the sum exceeds the limit, and by how much it is expected
to exceed it. The first tells safe nodes apart, the second overloaded ones.

While no node is at risk, a pod whose siblings are measured goes where the load is lower. For a pod of which nothing is
known the lower requests decide, and of equal requests the lower load: if load decided there, all nodes would come to
have the same, and none would be left for a pod that uses more than was expected of it; requests spread pods as well,
and leave what is not used where it is.

Assumptions, and when they fail: the next hour is like the last one (a daily peak is seen when it begins); pods of a
node do not peak together (σ is then too small: raise `floor`); a pod not yet measured is like its siblings, or else
like the cluster's pods. Requests need not be right, since what is measured decides before a node becomes hot.

With little or no data:

    trust   mean                            deviation
    1       forecast                        forecast's; of one sample only, half of `spread`
    1/2     forecast                        forecast's, and half of `spread`
    0       requests of the node's pods     `spread`

A wide deviation only ever adds risk: where the mean itself is above the limit it would lower the probability, and pods
would pile up on the least known node; there `floor` replaces it. So a node without metrics is never better than one
with the same known load; and where nothing is measured at all nodes rank by requests, the fuller resource first.
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
from trimtab.core.load.settings import SIBLINGS
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import PERCENTAGE, ArgumentError, check_ranges, setting
from trimtab.core.tables import Floats

# Of what `lean` adds. For an unknown pod: enough to rank nodes with equal requests, too little to even out their loads.
UNKNOWN_LOAD_SHARE, LOAD_SHARE = 0.01, 0.99
HALF_EXCESS = 0.1  # the expected excess, relative to capacity, that costs half of its points
MAX_DEVIATIONS = 8.0  # beyond this a probability is 0 or 1
STEPS = 256  # table entries per deviation: errors stay below a millionth
AT = [i / STEPS - MAX_DEVIATIONS for i in range(int(2 * MAX_DEVIATIONS * STEPS) + 2)]
CDF = [math.erfc(-each / math.sqrt(2)) / 2 for each in AT]
LOSS = [math.exp(-each * each / 2) / math.sqrt(2 * math.pi) + each * cdf for each, cdf in zip(AT, CDF, strict=True)]
CDF_ARRAY: Floats = np.array(CDF)
LOSS_ARRAY: Floats = np.array(LOSS)


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
    """Arguments in percent. An empty node has 100 points; its requests cost up to `lean` of them, the risk the rest.

    floor: the smallest deviation of a node's load, relative to capacity.
    spread: the deviation of a node without metrics, relative to capacity.
    lean: how many points depend on requests instead of the risk. A high value keeps requests even until the risk is
    considerable; with other score plugins, a low one lets them decide among nodes without risk.
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
        1.0,
        "1 unless set, above 0 to 100: the percentage of the score that depends on requests instead of the risk",
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
        mean, variance = mean_and_variance(view, name, rows)
        pod_mean, deviation, rule = load.estimate(pod, name)
        return RiskInputs(
            mean,
            variance,
            load.trust(name)[: view.count][rows],
            utilisation.requested_with(view, name, rows, pod),
            view.capacity(name)[rows].astype(np.float64),
            pod_mean,
            deviation * deviation,
            risk.limit / 100,
            self.floor / 100,
            self.spread / 100,
            LOAD_SHARE if rule == SIBLINGS else UNKNOWN_LOAD_SHARE,
        )

    def _score_all(self, inputs: list[RiskInputs]) -> Ints:
        probability, excess, fullness = (np.maximum.reduce(each) for each in zip(*map(risk, inputs), strict=True))
        at_risk = (probability + excess / (excess + HALF_EXCESS)) * (1 - self.lean / 100) / 2
        points: Floats = (1 - at_risk - np.minimum(fullness, 1.0) * (self.lean / 100)) * self._all_points
        return points.astype(np.int64)

    def _score_few(self, inputs: list[RiskInputs]) -> Ints:
        """The same in plain numbers."""
        scores = []
        for resources in zip(*map(risk_by_row, inputs), strict=True):
            probability, excess, fullness = map(max, zip(*resources, strict=True))
            at_risk = (probability + excess / (excess + HALF_EXCESS)) * (1 - self.lean / 100) / 2
            scores.append(int((1 - at_risk - min(fullness, 1.0) * (self.lean / 100)) * self._all_points))
        return np.array(scores, dtype=np.int64)

    @property
    def _all_points(self) -> int:
        return MAX_SCORE * self.score_scale


class RiskInputs(NamedTuple):
    """One resource: by row mean and variance of the load, their trust, the requests, and the capacity.

    For all rows the pod's own mean and variance; and relative to capacity the limit, the smallest deviation
    (`min_deviation`), and the deviation of a node without metrics (`unmeasured_deviation`). `load_share`: how much of
    fullness is load; the rest is requests.
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
    load_share: float = UNKNOWN_LOAD_SHARE


def mean_and_variance(view: View, resource: str, rows: Rows) -> tuple[Floats, Floats]:
    """Of the nodes' loads: the forecast's, and where more is used now, that, with the difference as a deviation."""
    mean, variance = (column[: view.count][rows] for column in view.load.forecast(resource))
    rise = np.maximum(utilisation.expected(view, resource, rows) - mean, 0.0)
    return mean + rise, variance + rise * rise


def risk(inputs: RiskInputs) -> tuple[Floats, Floats, Floats]:
    """With the pod, relative to capacity: the probability that the load exceeds the limit, by how much it is expected to
    exceed it, and how full the node is by requests and by load."""
    capacity = np.maximum(inputs.capacity, 1.0)
    mean, requested = (inputs.mean + inputs.pod_mean) / capacity, inputs.requested / capacity
    variance = (inputs.variance + inputs.pod_variance) / (capacity * capacity)
    doubt = (1.0 - inputs.trust) * inputs.unmeasured_deviation
    if (no_variance := np.isnan(variance)).any():
        variance[no_variance], doubt[no_variance] = 0.0, np.maximum(doubt[no_variance], inputs.unmeasured_deviation / 2)
    if (no_mean := np.isnan(mean)).any():
        mean[no_mean], doubt[no_mean] = requested[no_mean], inputs.unmeasured_deviation
    gap = mean - inputs.limit
    deviation = np.sqrt(np.maximum(variance + doubt * doubt, inputs.min_deviation * inputs.min_deviation))
    excess = deviation * normal_loss(gap / deviation)
    probability = normal_cdf(gap / np.where(gap < 0, deviation, inputs.min_deviation))
    return probability, excess, requested * (1.0 - inputs.load_share) + mean * inputs.load_share


def risk_by_row(inputs: RiskInputs) -> list[tuple[float, float, float]]:
    """The same row by row in plain numbers."""
    results = []
    columns = (inputs.mean, inputs.variance, inputs.trust, inputs.requested, inputs.capacity)
    for raw_mean, raw_variance, trust, asked, raw_capacity in zip(*(each.tolist() for each in columns), strict=True):
        capacity, doubt = max(raw_capacity, 1.0), (1.0 - trust) * inputs.unmeasured_deviation
        mean, requested = (raw_mean + inputs.pod_mean) / capacity, asked / capacity
        variance = (raw_variance + inputs.pod_variance) / (capacity * capacity)
        if variance != variance:
            variance, doubt = 0.0, max(doubt, inputs.unmeasured_deviation / 2)
        if mean != mean:
            mean, doubt = requested, inputs.unmeasured_deviation
        gap = mean - inputs.limit
        deviation = math.sqrt(max(variance + doubt * doubt, inputs.min_deviation * inputs.min_deviation))
        excess = deviation * normal_loss_one(gap / deviation)
        probability = normal_cdf_one(gap / (deviation if gap < 0 else inputs.min_deviation))
        results.append((probability, excess, requested * (1.0 - inputs.load_share) + mean * inputs.load_share))
    return results


def normal_cdf(deviations: Floats) -> Floats:
    """The standard normal CDF Φ by table lookup, since numpy has no error function."""
    return _look_up(CDF_ARRAY, deviations)


def normal_loss(deviations: Floats) -> Floats:
    """How far a standard normal value is expected to be above minus this many deviations: φ + z Φ."""
    return _look_up(LOSS_ARRAY, deviations) + np.maximum(deviations - MAX_DEVIATIONS, 0.0)


def _look_up(table: Floats, deviations: Floats) -> Floats:
    place = (np.clip(deviations, -MAX_DEVIATIONS, MAX_DEVIATIONS) + MAX_DEVIATIONS) * STEPS
    below = place.astype(np.intp)
    low = table[below]
    return low + (place - below) * (table[below + 1] - low)


def normal_cdf_one(deviation: float) -> float:
    """The same for one value."""
    return _look_up_one(CDF, deviation)


def normal_loss_one(deviation: float) -> float:
    return _look_up_one(LOSS, deviation) + max(deviation - MAX_DEVIATIONS, 0.0)


def _look_up_one(table: list[float], deviation: float) -> float:
    place = (min(max(deviation, -MAX_DEVIATIONS), MAX_DEVIATIONS) + MAX_DEVIATIONS) * STEPS
    below = int(place)
    return table[below] + (place - below) * (table[below + 1] - table[below])
