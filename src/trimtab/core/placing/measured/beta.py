"""How likely a share that varies around a mean stays below a bound, by a Beta distribution; what follows is for plugins.

The distribution has the mean and the deviation that were measured. Its function is a continued fraction, which is taken
level by level until it stands still: for many rows as arrays, for a few as plain numbers, which cost a tenth there. Both
ways do the same arithmetic in the same order, so that a row's answer never depends on how many were asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trimtab.core.cluster.view import Floats

FEW = 16  # up to so many rows, plain numbers are cheaper than arrays
LEVELS = 3000
STILL = 1e-8
NARROW = 1e6  # from here on the sum of both shapes is so large that the distribution is a normal one


def below(mean: Floats, deviation: Floats, bound: Floats) -> Floats:
    """The probability of at most `bound`; means and deviations must be above 0 and such that a Beta can have them."""
    return _of_few(mean, deviation, bound) if len(mean) <= FEW else _of_many(mean, deviation, bound)


class Remembered:
    """The same for all rows again and again: only those whose figures have changed are worked out anew.

    What is remembered alters no answer, only the time that it takes.
    """

    __slots__ = ("_answer", "_asked")

    def __init__(self) -> None:
        self._asked: tuple[Floats, ...] = ()
        self._answer: Floats = np.zeros(0)

    def below(self, mean: Floats, deviation: Floats, bound: Floats) -> Floats:
        asked = (mean, deviation, bound)
        if len(self._answer) != len(mean) or not self._asked:
            self._answer = below(*asked)
        else:
            pairs = zip(self._asked, asked, strict=True)
            changed = np.flatnonzero(np.logical_or.reduce([before != now for before, now in pairs]))
            self._answer = self._answer.copy()
            self._answer[changed] = below(*(each[changed] for each in asked))
        self._asked = asked
        return self._answer


def _of_few(mean: Floats, deviation: Floats, bound: Floats) -> Floats:
    each = zip(mean.tolist(), deviation.tolist(), bound.tolist(), strict=True)
    return np.array([_of_one(*figures) for figures in each], dtype=np.float64)


def _of_one(mean: float, deviation: float, bound: float) -> float:
    if not 0.0 < bound < 1.0:
        return float(bound >= 1.0)
    size = mean * (1.0 - mean) / (deviation * deviation) - 1.0
    if size > NARROW:
        return _normal(mean, deviation, bound)
    one, other = mean * size, (1.0 - mean) * size
    turned = bound > (one + 1.0) / (size + 2.0)
    if turned:
        one, other, bound = other, one, 1.0 - bound
    front = _front(one, other, bound)
    part = front * _fraction(one, other, bound) / one
    return min(max(1.0 - part if turned else part, 0.0), 1.0)


def _of_many(mean: Floats, deviation: Floats, bound: Floats) -> Floats:
    answer = (bound >= 1.0).astype(np.float64)
    size = mean * (1.0 - mean) / (deviation * deviation) - 1.0
    inside = (bound > 0.0) & (bound < 1.0)
    narrow = np.flatnonzero(inside & (size > NARROW))
    if len(narrow):
        answer[narrow] = _mapped(_normal, mean[narrow], deviation[narrow], bound[narrow])
    rows = np.flatnonzero(inside & ~(size > NARROW))
    size, mean, bound = size[rows], mean[rows], bound[rows]
    one, other = mean * size, (1.0 - mean) * size
    turned = bound > (one + 1.0) / (size + 2.0)
    one, other = np.where(turned, other, one), np.where(turned, one, other)
    bound = np.where(turned, 1.0 - bound, bound)
    part = _mapped(_front, one, other, bound) * _fractions(one, other, bound) / one
    answer[rows] = np.minimum(np.maximum(np.where(turned, 1.0 - part, part), 0.0), 1.0)
    return answer


def _normal(mean: float, deviation: float, bound: float) -> float:
    return 0.5 * math.erfc((mean - bound) / (deviation * math.sqrt(2.0)))


def _front(one: float, other: float, bound: float) -> float:
    """What stands before the fraction; numpy has no gamma function, and its own exponential differs in the last digit."""
    shapes = math.lgamma(one + other) - math.lgamma(one) - math.lgamma(other)
    return math.exp(shapes + one * math.log(bound) + other * math.log(1.0 - bound))


def _fraction(one: float, other: float, bound: float) -> float:
    """Level by level from above, as Lentz has it: `lower` and `upper` are ratios of neighbouring convergents."""
    upper, lower = 1.0, 1.0 / (1.0 - (one + other) * bound / (one + 1.0))
    value = lower
    for level in range(1, LEVELS):
        even = one + 2.0 * level
        step = level * (other - level) * bound / ((even - 1.0) * even)
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        step = -(one + level) * (one + other + level) * bound / (even * (even + 1.0))
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        if abs(lower * upper - 1.0) < STILL:
            break
    return value


def _fractions(one: Floats, other: Floats, bound: Floats) -> Floats:
    """The same for arrays; rows that stand still are left behind."""
    answer = np.zeros(len(one))
    rows, upper = np.arange(len(one)), np.ones(len(one))
    lower = 1.0 / (1.0 - (one + other) * bound / (one + 1.0))
    value = lower
    for level in range(1, LEVELS):
        even = one + 2.0 * level
        step = level * (other - level) * bound / ((even - 1.0) * even)
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        step = -(one + level) * (one + other + level) * bound / (even * (even + 1.0))
        lower, upper = 1.0 / (1.0 + step * lower), 1.0 + step / upper
        value = value * (lower * upper)
        still = np.abs(lower * upper - 1.0) < STILL
        if still.any():
            answer[rows[still]] = value[still]
            on = ~still
            rows, one, other, bound = rows[on], one[on], other[on], bound[on]
            lower, upper, value = lower[on], upper[on], value[on]
        if not len(rows):
            break
    answer[rows] = value
    return answer


def _mapped(function: Callable[..., float], *columns: Floats) -> Floats:
    values = map(function, *(column.tolist() for column in columns))
    return np.fromiter(values, dtype=np.float64, count=len(columns[0]))
