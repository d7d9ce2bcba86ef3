"""Compares policies over seeds: means, deviations, and paired ratios to the first policy with their 95 % intervals.

All policies run with the same seeds, so pods, arrivals and usage are the same, and only the difference between two runs
of one seed counts. The interval is Student's over these differences, relative to the baseline's mean. Ratios pooled over
scenarios have an interval over these instead: it says what to expect of another scenario of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

# Two-sided 95 % quantiles of Student's t by degrees of freedom, from 1 on.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
       2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip
NORMAL95 = 1.96
# The same with 90 %, for as many scenarios as are pooled.
T90 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753)


class Ratio(Struct, frozen=True):
    """A policy's mean relative to the baseline's, with its interval; None where one seed gives no interval."""

    ratio: float
    low: float | None
    high: float | None

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 1: otherwise the difference is within the noise."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


class Summary(Struct, frozen=True):
    """One measure of one policy over all seeds; `ratio` is None for the baseline, and where the baseline has 0."""

    mean: float
    deviation: float | None
    ratio: Ratio | None


def summarise(values: Mapping[str, Mapping[int, float]]) -> dict[str, Summary]:
    """By policy: the summary of one measure, from its values by policy and seed; the first policy is the baseline."""
    baseline = next(iter(values.values()))
    return {
        policy: Summary(
            mean(list(of_seed.values())),
            deviation(list(of_seed.values())),
            paired_ratio(of_seed, baseline) if of_seed is not baseline else None,
        )
        for policy, of_seed in values.items()
    }


def paired_ratio(values: Mapping[int, float], baseline: Mapping[int, float]) -> Ratio | None:
    """None without a common seed, or where the baseline's mean is 0."""
    seeds = [seed for seed in values if seed in baseline]
    base = mean([baseline[seed] for seed in seeds])
    if not seeds or not base:
        return None
    differences = [values[seed] - baseline[seed] for seed in seeds]
    centre, spread = mean(differences), deviation(differences)
    if spread is None:
        return Ratio(1 + centre / base, None, None)
    half = t95(len(seeds) - 1) * spread / math.sqrt(len(seeds))
    low = max(1 + (centre - half) / base, 0.0)  # no measure is negative
    return Ratio(1 + centre / base, low, 1 + (centre + half) / base)


def pooled_ratio(values: Sequence[float], baseline: Sequence[float]) -> Ratio | None:
    """The ratio of two sums over the same scenarios, with its 90 % interval; None where the baseline's sum is 0.

    A scenario counts by how much it adds to the sum. The interval follows from how far each one is from the common ratio.
    """
    total = math.fsum(baseline)
    if not total:
        return None
    ratio, freedom = math.fsum(values) / total, len(baseline) - 1
    if not 1 <= freedom <= len(T90):
        return Ratio(ratio, None, None)
    squares = math.fsum((value - ratio * base) ** 2 for value, base in zip(values, baseline, strict=True))
    half = T90[freedom - 1] * math.sqrt(squares * len(baseline) / freedom) / total
    return Ratio(ratio, max(ratio - half, 0.0), ratio + half)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def deviation(values: Sequence[float]) -> float | None:
    """The sample's standard deviation; None for fewer than two values."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def t95(freedom: int) -> float:
    if freedom <= len(T95):
        return T95[freedom - 1]
    return NORMAL95 + (NORMAL95**3 + NORMAL95) / (4 * freedom)  # the first terms of its expansion
