"""How many deviations the mean of a load is from its limit, and how likely the load passes it; scores are for plugins.

Everything is there twice: as arrays for many rows, as plain numbers for a few, which cost a tenth there. Both ways do the
same arithmetic in the same order, so that a row's answer never depends on how many were asked for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import Floats

FURTHEST = 8.0  # deviations, beyond which a probability is 0 or 1
STEPS = 256  # of the table within one deviation: errors stay below a millionth
TABLE = [math.erfc((FURTHEST - i / STEPS) / math.sqrt(2)) / 2 for i in range(int(2 * FURTHEST * STEPS) + 2)]
COLUMN: Floats = np.array(TABLE)


class Look(NamedTuple):
    """One resource: by row what is forecast, how far that is trusted, what is asked for instead, and the capacity.

    For all rows what the pod itself will use and its variance; and as shares of capacity the limit, the least deviation
    (`floor`), and that of a node that nobody measures (`spread`).
    """

    mean: Floats
    variance: Floats
    trust: Floats
    asked: Floats
    capacity: Floats
    own: float
    own_variance: float
    limit: float
    floor: float
    spread: float


def passing(look: Look) -> tuple[Floats, Floats]:
    """By how many deviations the mean with the pod passes the limit, and that mean as a share of the limit."""
    capacity = np.maximum(look.capacity, 1.0)
    mean, variance = (look.mean + look.own) / capacity, (look.variance + look.own_variance) / (capacity * capacity)
    doubt = (1.0 - look.trust) * look.spread
    if (rough := np.isnan(variance)).any():
        variance[rough], doubt[rough] = 0.0, np.maximum(doubt[rough], look.spread / 2)
    if (blind := np.isnan(mean)).any():
        mean[blind], doubt[blind] = (look.asked / capacity)[blind], look.spread
    gap = mean - look.limit
    variance = np.where(gap < 0, variance + doubt * doubt, 0.0)
    return gap / np.sqrt(np.maximum(variance, look.floor * look.floor)), mean / look.limit


def passing_each(look: Look) -> list[tuple[float, float]]:
    """The same row by row."""
    answers = []
    columns = (look.mean, look.variance, look.trust, look.asked, look.capacity)
    for mean, variance, trust, asked, holds in zip(*(column.tolist() for column in columns), strict=True):
        capacity, doubt = max(holds, 1.0), (1.0 - trust) * look.spread
        share, squared = (mean + look.own) / capacity, (variance + look.own_variance) / (capacity * capacity)
        if squared != squared:
            squared, doubt = 0.0, max(doubt, look.spread / 2)
        if share != share:
            share, doubt = asked / capacity, look.spread
        gap = share - look.limit
        squared = squared + doubt * doubt if gap < 0 else 0.0
        answers.append((gap / math.sqrt(max(squared, look.floor * look.floor)), share / look.limit))
    return answers


def probability(deviations: Floats) -> Floats:
    """That a normal value is below so many deviations above its mean: Φ by table, since arrays have no error function."""
    place = (np.clip(deviations, -FURTHEST, FURTHEST) + FURTHEST) * STEPS
    below = place.astype(np.intp)
    low = COLUMN[below]
    return low + (place - below) * (COLUMN[below + 1] - low)


def probability_of(deviation: float) -> float:
    """The same for one."""
    place = (min(max(deviation, -FURTHEST), FURTHEST) + FURTHEST) * STEPS
    below = int(place)
    return TABLE[below] + (place - below) * (TABLE[below + 1] - TABLE[below])
