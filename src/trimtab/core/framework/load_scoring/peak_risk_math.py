"""How many deviations the mean of a load is from its limit, and how likely the load passes it; scores are for plugins.

Everything is there twice: as arrays for many rows, as plain numbers for a few, which cost a tenth there. Both ways do the
same arithmetic in the same order, so that a row's answer never depends on how many were asked for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import Floats

MAX_DEVIATIONS = 8.0  # deviations, beyond which a probability is 0 or 1
STEPS = 256  # of the table within one deviation: errors stay below a millionth
TABLE = [math.erfc((MAX_DEVIATIONS - i / STEPS) / math.sqrt(2)) / 2 for i in range(int(2 * MAX_DEVIATIONS * STEPS) + 2)]
TABLE_ARRAY: Floats = np.array(TABLE)


class RiskInputs(NamedTuple):
    """One resource: by row what is forecast, how far that is trusted, what is asked for instead, and the capacity.

    For all rows what the pod itself will use and its variance; and as shares of capacity the limit, the least deviation
    (`floor`), and that of a node that nobody measures (`spread`).
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
    """By how many deviations the mean with the pod passes the limit, and that mean as a share of the limit."""
    capacity = np.maximum(inputs.capacity, 1.0)
    mean, variance = (
        (inputs.mean + inputs.pod_mean) / capacity,
        (inputs.variance + inputs.pod_variance) / (capacity * capacity),
    )
    doubt = (1.0 - inputs.trust) * inputs.unmeasured_deviation
    if (rough := np.isnan(variance)).any():
        variance[rough], doubt[rough] = 0.0, np.maximum(doubt[rough], inputs.unmeasured_deviation / 2)
    if (blind := np.isnan(mean)).any():
        mean[blind], doubt[blind] = (inputs.requested / capacity)[blind], inputs.unmeasured_deviation
    gap = mean - inputs.limit
    variance = np.where(gap < 0, variance + doubt * doubt, 0.0)
    return gap / np.sqrt(np.maximum(variance, inputs.min_deviation * inputs.min_deviation)), mean / inputs.limit


def distance_to_limit_by_row(inputs: RiskInputs) -> list[tuple[float, float]]:
    """The same row by row."""
    answers = []
    columns = (inputs.mean, inputs.variance, inputs.trust, inputs.requested, inputs.capacity)
    for mean, variance, trust, asked, holds in zip(*(column.tolist() for column in columns), strict=True):
        capacity, doubt = max(holds, 1.0), (1.0 - trust) * inputs.unmeasured_deviation
        share, squared = (mean + inputs.pod_mean) / capacity, (variance + inputs.pod_variance) / (capacity * capacity)
        if squared != squared:
            squared, doubt = 0.0, max(doubt, inputs.unmeasured_deviation / 2)
        if share != share:
            share, doubt = asked / capacity, inputs.unmeasured_deviation
        gap = share - inputs.limit
        squared = squared + doubt * doubt if gap < 0 else 0.0
        answers.append(
            (gap / math.sqrt(max(squared, inputs.min_deviation * inputs.min_deviation)), share / inputs.limit)
        )
    return answers


def normal_cdf(deviations: Floats) -> Floats:
    """That a normal value is below so many deviations above its mean: Φ by table, since arrays have no error function."""
    place = (np.clip(deviations, -MAX_DEVIATIONS, MAX_DEVIATIONS) + MAX_DEVIATIONS) * STEPS
    below = place.astype(np.intp)
    low = TABLE_ARRAY[below]
    return low + (place - below) * (TABLE_ARRAY[below + 1] - low)


def normal_cdf_one(deviation: float) -> float:
    """The same for one."""
    place = (min(max(deviation, -MAX_DEVIATIONS), MAX_DEVIATIONS) + MAX_DEVIATIONS) * STEPS
    below = int(place)
    return TABLE[below] + (place - below) * (TABLE[below + 1] - TABLE[below])
