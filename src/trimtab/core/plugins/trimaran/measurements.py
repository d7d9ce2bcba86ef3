"""What Trimaran's policies share: observed usage, and how it is combined with requests.

A node without trusted metrics is scored by requests and gets half of those points: it is neither idle nor the best, and
where nothing is measured at all, nodes rank by their requests. While metrics are ageing, both scores count for half.
Values of CPU and memory are in one array with a line each, as in `utilisation`; the `*_row` functions do the same for
one row in plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Rows
from trimtab.core.framework.load_scoring.scalar import nanmax
from trimtab.core.framework.load_scoring.utilisation import (
    RESOURCES,
    SCORE_SCALE,
    cpu_and_memory,
    quantities,
    ratios,
    requested_with,
)
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Statistic
from trimtab.core.plugins.trimaran import PROMETHEUS, MetricProvider
from trimtab.core.tables import Floats

UNMEASURED_WEIGHT = 0.5


def observed_usage(view: View, rows: Rows) -> Floats:
    """Usage of nodes, including pods that no sample shows yet; NaN where no sample is trusted.

    The window's mean is slow to show new pods and the latest sample is not, so the higher of the two counts.
    """
    load = view.load
    seen = np.fmax(cpu_and_memory(load.mean, view, rows), cpu_and_memory(load.latest, view, rows))
    seen += cpu_and_memory(load.unsampled, view, rows)
    return np.maximum(seen, 0.0)


def reported_load(view: View, rows: Rows, provider: MetricProvider) -> tuple[Floats, Floats]:
    """Mean and deviation as load-watcher reports them, whatever their age; NaN where it reports none.

    Prometheus has both over the window. metrics-server has the latest values only, which stand for the mean.
    """
    load = view.load

    def column(read: Callable[..., Floats], *arguments: Statistic) -> Floats:
        return cpu_and_memory(lambda resource: read(resource, *arguments, trusted=False), view, rows)

    if provider.type == PROMETHEUS:
        mean, deviation = column(load.mean), column(load.deviation)
    else:
        mean, deviation = (column(load.reported, each) for each in (Statistic.MEAN, Statistic.DEVIATION))
    return np.where(np.isnan(mean), column(load.latest), mean), deviation


def deviation(view: View, rows: Rows, mean: Floats, capacity: Ints, factor: float = 1.0) -> Floats:
    """The deviation of the load relative to capacity, times `factor`.

    Where it is unknown, it is half of the maximum that a load with this mean can have.
    """
    share = cpu_and_memory(view.load.deviation, view, rows)
    share *= factor
    share /= np.maximum(capacity, 1)
    unknown = np.isnan(share)
    if np.count_nonzero(unknown):
        inside = np.minimum(np.maximum(mean[unknown], 0.0), 1.0)
        share[unknown] = np.sqrt(inside * (1.0 - inside)) / 2.0
    return share


def requested_ratios(view: View, pod: Pod, rows: Rows) -> Floats:
    """Requests including the pod's own over allocatable, with a default for containers without requests."""
    taken = np.array([requested_with(view, resource, rows, pod) for resource in RESOURCES])
    return ratios(taken, quantities(view.allocatable, rows))


def blend_with_requests(trust: Floats, measured: Floats, by_requests: Callable[[], Floats]) -> Floats:
    """Points by measurement as far as they are trusted, and by requests for the rest, computed only if needed."""
    known = measured == measured
    if np.count_nonzero(known & (trust >= 1.0)) == known.size:
        return measured
    weight = np.where(known, np.where(trust > 0, trust, 1.0), 0.0)  # a mean may be trusted without a sample
    return weight * np.where(known, measured, 0.0) + (1.0 - weight) * UNMEASURED_WEIGHT * by_requests()


def scaled_score(points: Floats) -> Ints:
    """Points as a scaled score."""
    parts: Ints = np.rint(np.minimum(np.maximum(points, 0.0), MAX_SCORE) * SCORE_SCALE).astype(np.int64)
    return parts


def rounded_score(points: Floats) -> Ints:
    """Whole points, halves rounded up as Go rounds them, scaled; 0 where unknown."""
    return np.floor(np.where(points == points, points, 0.0) + 0.5).astype(np.int64) * SCORE_SCALE


# --- one row, one resource


def observed_usage_row(view: View, resource: str, row: int) -> float:
    load = view.load
    seen = nanmax(load.mean(resource).item(row), load.latest(resource).item(row))
    return max(seen + load.unsampled(resource).item(row), 0.0)


def deviation_row(view: View, resource: str, row: int, mean: float, capacity: int, factor: float = 1.0) -> float:
    share: float = view.load.deviation(resource).item(row) * factor / max(capacity, 1)
    if share == share:
        return share
    inside = min(max(mean, 0.0), 1.0)
    return math.sqrt(inside * (1.0 - inside)) / 2.0


def blend_with_requests_row(trust: float, measured: float, by_requests: Callable[[], float]) -> float:
    known = measured == measured
    if known and (trust >= 1.0 or trust <= 0.0):  # a mean may be trusted without a sample
        return measured
    weight = trust if known else 0.0
    return weight * (measured if known else 0.0) + (1.0 - weight) * UNMEASURED_WEIGHT * by_requests()


def scaled_score_row(points: float) -> int:
    return round(min(max(points, 0.0), MAX_SCORE) * SCORE_SCALE)
