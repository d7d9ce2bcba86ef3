"""The probability that a share stays below a bound, for a Beta distribution with a given mean and deviation.

The CDF is a continued fraction, evaluated level by level until it converges: with arrays for many rows, in plain
numbers for a few, which cost a tenth there. Both do the same arithmetic in the same order, so a row's result never
depends on how many rows were requested.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trimtab.core.tables import Floats

MAX_SCALAR_ROWS = 16  # up to so many rows, plain numbers are cheaper than arrays
MAX_ITERATIONS = 3000
TOLERANCE = 1e-8
MAX_DEVIATION = math.sqrt(0.99)  # relative to the maximum, at which there is no distribution
MIN_DEVIATION = 1e-9  # a smaller deviation counts as 0
NORMAL_FROM = 1e6  # above this sum of both shape parameters the distribution is normal


def beta_cdf(mean: Floats, deviation: Floats, bound: Floats, top: Floats) -> Floats:
    """The probability of at most `bound`, for a share that cannot exceed `top` (1 or more: no further limit).

    A deviation larger than a share with this mean can have is cut. A share that does not vary is below the bound or
    not; with a `top` of 0 it is never above anything. NaN stays NaN.
    """
    inputs = (mean, deviation, bound, top)
    return _beta_cdf_scalar(*inputs) if len(mean) <= MAX_SCALAR_ROWS else _beta_cdf_array(*inputs)


class CachedCdf:
    """The CDF of all rows, recomputed only for rows whose inputs have changed.

    Results are the same as without the cache.
    """

    __slots__ = ("_inputs", "_result")

    def __init__(self) -> None:
        self._inputs: tuple[Floats, ...] = ()
        self._result: Floats = np.zeros(0)

    def beta_cdf(self, mean: Floats, deviation: Floats, bound: Floats, top: Floats) -> Floats:
        inputs = (mean, deviation, bound, top)
        if len(self._result) != len(mean) or not self._inputs:
            self._result = beta_cdf(*inputs)
        else:
            pairs = zip(self._inputs, inputs, strict=True)
            changed = np.flatnonzero(np.logical_or.reduce([before != after for before, after in pairs]))
            self._result = self._result.copy()
            self._result[changed] = beta_cdf(*(each[changed] for each in inputs))
        self._inputs = inputs
        return self._result


def _beta_cdf_scalar(*columns: Floats) -> Floats:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.array([beta_cdf_one(*row) for row in rows], dtype=np.float64)


def beta_cdf_one(mean: float, deviation: float, bound: float, top: float) -> float:
    """The same for one row."""
    deviation = min(deviation, MAX_DEVIATION * math.sqrt(max(mean * (1.0 - mean), 0.0)))
    result = _untruncated_one(mean, deviation, bound)
    if top >= 1.0 or result != result:
        return result
    if top <= 0.0:
        return 1.0
    below_top = _untruncated_one(mean, deviation, top)
    return min(result / below_top, 1.0) if below_top > 0.0 else result


def _beta_cdf_array(mean: Floats, deviation: Floats, bound: Floats, top: Floats) -> Floats:
    deviation = np.minimum(deviation, MAX_DEVIATION * np.sqrt(np.maximum(mean * (1.0 - mean), 0.0)))
    result = _untruncated(mean, deviation, bound)
    truncated = np.flatnonzero((top < 1.0) & (result == result))
    below_top = _untruncated(mean[truncated], deviation[truncated], top[truncated])
    below_top[~(below_top > 0.0)] = 1.0
    result[truncated] = np.where(top[truncated] <= 0.0, 1.0, np.minimum(result[truncated] / below_top, 1.0))
    return result


def _untruncated_one(mean: float, deviation: float, bound: float) -> float:
    if not (mean > 0.0 and deviation > MIN_DEVIATION and 0.0 < bound < 1.0):
        return _step(mean, deviation, bound)
    size = mean * (1.0 - mean) / (deviation * deviation) - 1.0
    if size > NORMAL_FROM:
        return _normal(mean, deviation, bound)
    alpha, beta = mean * size, (1.0 - mean) * size
    swapped = bound > (alpha + 1.0) / (size + 2.0)
    if swapped:
        alpha, beta, bound = beta, alpha, 1.0 - bound
    front = _prefactor(alpha, beta, bound)
    part = front * _continued_fraction(alpha, beta, bound) / alpha
    return min(max(1.0 - part if swapped else part, 0.0), 1.0)


def _untruncated(mean: Floats, deviation: Floats, bound: Floats) -> Floats:
    result = np.empty(len(mean))
    varies = (mean > 0.0) & (deviation > MIN_DEVIATION) & (bound > 0.0) & (bound < 1.0)
    size = mean * (1.0 - mean) / np.where(varies, deviation * deviation, 1.0) - 1.0
    for function, selected in ((_step, ~varies), (_normal, varies & (size > NORMAL_FROM))):
        if selected.any():
            result[selected] = _map_rows(function, mean[selected], deviation[selected], bound[selected])
    rows = np.flatnonzero(varies & ~(size > NORMAL_FROM))
    size, mean, bound = size[rows], mean[rows], bound[rows]
    alpha, beta = mean * size, (1.0 - mean) * size
    swapped = bound > (alpha + 1.0) / (size + 2.0)
    alpha, beta = np.where(swapped, beta, alpha), np.where(swapped, alpha, beta)
    bound = np.where(swapped, 1.0 - bound, bound)
    part = _map_rows(_prefactor, alpha, beta, bound) * _continued_fractions(alpha, beta, bound) / alpha
    result[rows] = np.minimum(np.maximum(np.where(swapped, 1.0 - part, part), 0.0), 1.0)
    return result


def _step(mean: float, deviation: float, bound: float) -> float:
    if math.isnan(mean) or math.isnan(deviation):
        return math.nan
    varies = mean > 0.0 and deviation > MIN_DEVIATION
    return float(bound >= 1.0 if varies else mean <= max(bound, 0.0))


def _normal(mean: float, deviation: float, bound: float) -> float:
    return 0.5 * math.erfc((mean - bound) / (deviation * math.sqrt(2.0)))


def _prefactor(alpha: float, beta: float, bound: float) -> float:
    """The factor before the continued fraction; numpy has no gamma function, and its exp differs in the last digit."""
    shapes = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    return math.exp(shapes + alpha * math.log(bound) + beta * math.log(1.0 - bound))


def _continued_fraction(alpha: float, beta: float, bound: float) -> float:
    """Lentz's algorithm: `lower` and `upper` are ratios of neighbouring convergents."""
    upper, lower = 1.0, 1.0 / (1.0 - (alpha + beta) * bound / (alpha + 1.0))
    value = lower
    for level in range(1, MAX_ITERATIONS):
        even = alpha + 2.0 * level
        step = level * (beta - level) * bound / ((even - 1.0) * even)
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        step = -(alpha + level) * (alpha + beta + level) * bound / (even * (even + 1.0))
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        if abs(lower * upper - 1.0) < TOLERANCE:
            break
    return value


def _continued_fractions(alpha: Floats, beta: Floats, bound: Floats) -> Floats:
    """The same for arrays; rows that have converged are left out."""
    result = np.zeros(len(alpha))
    rows, upper = np.arange(len(alpha)), np.ones(len(alpha))
    lower = 1.0 / (1.0 - (alpha + beta) * bound / (alpha + 1.0))
    value = lower
    for level in range(1, MAX_ITERATIONS):
        even = alpha + 2.0 * level
        step = level * (beta - level) * bound / ((even - 1.0) * even)
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        step = -(alpha + level) * (alpha + beta + level) * bound / (even * (even + 1.0))
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        converged = np.abs(lower * upper - 1.0) < TOLERANCE
        if converged.any():
            result[rows[converged]] = value[converged]
            open_rows = ~converged
            rows, alpha, beta, bound = rows[open_rows], alpha[open_rows], beta[open_rows], bound[open_rows]
            lower, upper, value = lower[open_rows], upper[open_rows], value[open_rows]
        if not len(rows):
            break
    result[rows] = value
    return result


def _map_rows(function: Callable[..., float], *columns: Floats) -> Floats:
    values = map(function, *(column.tolist() for column in columns))
    return np.fromiter(values, dtype=np.float64, count=len(columns[0]))
