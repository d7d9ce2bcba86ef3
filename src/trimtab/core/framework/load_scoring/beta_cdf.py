"""How likely a share that varies around a mean stays within a bound, by a Beta distribution; what follows is for plugins.

The distribution has the mean and the deviation that were measured. Its function is a continued fraction, which is taken
level by level until it stands still: for many rows as arrays, for a few as plain numbers, which cost a tenth there. Both
ways do the same arithmetic in the same order, so that a row's answer never depends on how many were asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trimtab.core.cluster.view import Floats

MAX_SCALAR_ROWS = 16  # up to so many rows, plain numbers are cheaper than arrays
MAX_ITERATIONS = 3000
TOLERANCE = 1e-8
MAX_DEVIATION = math.sqrt(0.99)  # of the most that a share can deviate: with all of it there would be no distribution
MIN_DEVIATION = 1e-9  # a deviation below this is none
NORMAL_FROM = 1e6  # from here on the sum of both shapes is so large that the distribution is a normal one


def beta_cdf(mean: Floats, deviation: Floats, bound: Floats, top: Floats) -> Floats:
    """The probability of at most `bound`, for a share that cannot pass `top` (1 or more: nothing else holds it).

    A deviation beyond what a share with this mean can have is cut. A share that does not vary is below the bound or is
    not; what cannot pass 0 is never above anything. NaN stays NaN.
    """
    asked = (mean, deviation, bound, top)
    return _beta_cdf_scalar(*asked) if len(mean) <= MAX_SCALAR_ROWS else _beta_cdf_array(*asked)


class CachedCdf:
    """The same for all rows again and again: only those whose figures have changed are worked out anew.

    What is remembered alters no answer, only the time that it takes.
    """

    __slots__ = ("_inputs", "_result")

    def __init__(self) -> None:
        self._inputs: tuple[Floats, ...] = ()
        self._result: Floats = np.zeros(0)

    def beta_cdf(self, mean: Floats, deviation: Floats, bound: Floats, top: Floats) -> Floats:
        asked = (mean, deviation, bound, top)
        if len(self._result) != len(mean) or not self._inputs:
            self._result = beta_cdf(*asked)
        else:
            pairs = zip(self._inputs, asked, strict=True)
            changed = np.flatnonzero(np.logical_or.reduce([before != now for before, now in pairs]))
            self._result = self._result.copy()
            self._result[changed] = beta_cdf(*(each[changed] for each in asked))
        self._inputs = asked
        return self._result


def _beta_cdf_scalar(*columns: Floats) -> Floats:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.array([beta_cdf_one(*row) for row in rows], dtype=np.float64)


def beta_cdf_one(mean: float, deviation: float, bound: float, top: float) -> float:
    """The same for one row."""
    deviation = min(deviation, MAX_DEVIATION * math.sqrt(max(mean * (1.0 - mean), 0.0)))
    answer = _untruncated_one(mean, deviation, bound)
    if top >= 1.0 or answer != answer:
        return answer
    if top <= 0.0:
        return 1.0
    likely = _untruncated_one(mean, deviation, top)
    return min(answer / likely, 1.0) if likely > 0.0 else answer


def _beta_cdf_array(mean: Floats, deviation: Floats, bound: Floats, top: Floats) -> Floats:
    deviation = np.minimum(deviation, MAX_DEVIATION * np.sqrt(np.maximum(mean * (1.0 - mean), 0.0)))
    answer = _untruncated(mean, deviation, bound)
    held = np.flatnonzero((top < 1.0) & (answer == answer))
    likely = _untruncated(mean[held], deviation[held], top[held])
    likely[~(likely > 0.0)] = 1.0
    answer[held] = np.where(top[held] <= 0.0, 1.0, np.minimum(answer[held] / likely, 1.0))
    return answer


def _untruncated_one(mean: float, deviation: float, bound: float) -> float:
    if not (mean > 0.0 and deviation > MIN_DEVIATION and 0.0 < bound < 1.0):
        return _step(mean, deviation, bound)
    size = mean * (1.0 - mean) / (deviation * deviation) - 1.0
    if size > NORMAL_FROM:
        return _normal(mean, deviation, bound)
    one, other = mean * size, (1.0 - mean) * size
    turned = bound > (one + 1.0) / (size + 2.0)
    if turned:
        one, other, bound = other, one, 1.0 - bound
    front = _prefactor(one, other, bound)
    part = front * _continued_fraction(one, other, bound) / one
    return min(max(1.0 - part if turned else part, 0.0), 1.0)


def _untruncated(mean: Floats, deviation: Floats, bound: Floats) -> Floats:
    answer = np.empty(len(mean))
    varies = (mean > 0.0) & (deviation > MIN_DEVIATION) & (bound > 0.0) & (bound < 1.0)
    size = mean * (1.0 - mean) / np.where(varies, deviation * deviation, 1.0) - 1.0
    for way, some in ((_step, ~varies), (_normal, varies & (size > NORMAL_FROM))):
        if some.any():
            answer[some] = _map_rows(way, mean[some], deviation[some], bound[some])
    rows = np.flatnonzero(varies & ~(size > NORMAL_FROM))
    size, mean, bound = size[rows], mean[rows], bound[rows]
    one, other = mean * size, (1.0 - mean) * size
    turned = bound > (one + 1.0) / (size + 2.0)
    one, other = np.where(turned, other, one), np.where(turned, one, other)
    bound = np.where(turned, 1.0 - bound, bound)
    part = _map_rows(_prefactor, one, other, bound) * _continued_fractions(one, other, bound) / one
    answer[rows] = np.minimum(np.maximum(np.where(turned, 1.0 - part, part), 0.0), 1.0)
    return answer


def _step(mean: float, deviation: float, bound: float) -> float:
    if math.isnan(mean) or math.isnan(deviation):
        return math.nan
    varies = mean > 0.0 and deviation > MIN_DEVIATION
    return float(bound >= 1.0 if varies else mean <= max(bound, 0.0))


def _normal(mean: float, deviation: float, bound: float) -> float:
    return 0.5 * math.erfc((mean - bound) / (deviation * math.sqrt(2.0)))


def _prefactor(one: float, other: float, bound: float) -> float:
    """What stands before the fraction; numpy has no gamma function, and its own exponential differs in the last digit."""
    shapes = math.lgamma(one + other) - math.lgamma(one) - math.lgamma(other)
    return math.exp(shapes + one * math.log(bound) + other * math.log(1.0 - bound))


def _continued_fraction(one: float, other: float, bound: float) -> float:
    """Level by level from above, as Lentz has it: `lower` and `upper` are ratios of neighbouring convergents."""
    upper, lower = 1.0, 1.0 / (1.0 - (one + other) * bound / (one + 1.0))
    value = lower
    for level in range(1, MAX_ITERATIONS):
        even = one + 2.0 * level
        step = level * (other - level) * bound / ((even - 1.0) * even)
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        step = -(one + level) * (one + other + level) * bound / (even * (even + 1.0))
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        if abs(lower * upper - 1.0) < TOLERANCE:
            break
    return value


def _continued_fractions(one: Floats, other: Floats, bound: Floats) -> Floats:
    """The same for arrays; rows that stand still are left behind."""
    answer = np.zeros(len(one))
    rows, upper = np.arange(len(one)), np.ones(len(one))
    lower = 1.0 / (1.0 - (one + other) * bound / (one + 1.0))
    value = lower
    for level in range(1, MAX_ITERATIONS):
        even = one + 2.0 * level
        step = level * (other - level) * bound / ((even - 1.0) * even)
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        step = -(one + level) * (one + other + level) * bound / (even * (even + 1.0))
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        still = np.abs(lower * upper - 1.0) < TOLERANCE
        if still.any():
            answer[rows[still]] = value[still]
            on = ~still
            rows, one, other, bound = rows[on], one[on], other[on], bound[on]
            lower, upper, value = lower[on], upper[on], value[on]
        if not len(rows):
            break
    answer[rows] = value
    return answer


def _map_rows(function: Callable[..., float], *columns: Floats) -> Floats:
    values = map(function, *(column.tolist() for column in columns))
    return np.fromiter(values, dtype=np.float64, count=len(columns[0]))
