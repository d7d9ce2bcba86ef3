"""How the Trimaran policies take measurements: what stands in for them, and how far they count; formulas are for plugins.

A node without trusted measurements is judged by requests and has half of those points: it is neither idle nor the best,
and where nothing is measured at all, nodes stand in the order of their requests. While measurements are getting on, both
figures count for half. Figures of CPU and memory stand in one array, a line each, as in `usage`; for a few rows there is
the same in plain numbers, as in `few`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import MAX_SCORE, Ints, Rows
from trimtab.core.placing.measured.few import larger
from trimtab.core.placing.measured.usage import PAIR, PARTS, asked, offered_pair, pair, share_of

UNSEEN = 0.5


def level(view: View, rows: Rows) -> Floats:
    """What nodes use, with pods that no sample shows yet; NaN where nothing is believed.

    The mean of the window is slow to show new pods and the newest sample is not, so the higher of the two counts.
    """
    load = view.load
    seen = np.fmax(pair(load.mean, view, rows), pair(load.latest, view, rows))
    seen += pair(load.pending, view, rows)
    return np.maximum(seen, 0.0)


def deviation(view: View, rows: Rows, mean: Floats, whole: Ints, smoothed: float = 1.0) -> Floats:
    """Of the load as a share of the whole, times `smoothed`.

    Where it is not known, it is half of the most that a load with this mean can have.
    """
    share = pair(view.load.deviation, view, rows)
    share *= smoothed
    share /= np.maximum(whole, 1)
    unknown = np.isnan(share)
    if np.count_nonzero(unknown):
        inside = np.minimum(np.maximum(mean[unknown], 0.0), 1.0)
        share[unknown] = np.sqrt(inside * (1.0 - inside)) / 2.0
    return share


def requested(view: View, pod: Pod, rows: Rows) -> Floats:
    """Requests with the pod's own over allocatable, where containers that ask for nothing count a little."""
    taken = np.array([asked(view, resource, rows, pod) for resource in PAIR])
    return share_of(taken, offered_pair(view.allocatable, rows))


def blended(trust: Floats, measured: Floats, by_requests: Callable[[], Floats]) -> Floats:
    """Points by measurements as far as they are trusted, and by requests for the rest; those are asked for only then."""
    known = measured == measured
    if np.count_nonzero(known & (trust >= 1.0)) == known.size:
        return measured
    weight = np.where(known, np.where(trust > 0, trust, 1.0), 0.0)  # a given mean may be believed without a sample
    return weight * np.where(known, measured, 0.0) + (1.0 - weight) * UNSEEN * by_requests()


def counted(points: Floats) -> Ints:
    """Points in the parts that are added up."""
    parts: Ints = np.rint(np.minimum(np.maximum(points, 0.0), MAX_SCORE) * PARTS).astype(np.int64)
    return parts


def rounded(points: Floats) -> Ints:
    """Whole points, halves rounded up as Go rounds them, in the same parts; 0 where they are not known."""
    return np.floor(np.where(points == points, points, 0.0) + 0.5).astype(np.int64) * PARTS


# --- one row, one resource


def level_of(view: View, resource: str, row: int) -> float:
    load = view.load
    seen = larger(load.mean(resource).item(row), load.latest(resource).item(row))
    return max(seen + load.pending(resource).item(row), 0.0)


def deviation_of(view: View, resource: str, row: int, mean: float, whole: int, smoothed: float = 1.0) -> float:
    share: float = view.load.deviation(resource).item(row) * smoothed / max(whole, 1)
    if share == share:
        return share
    inside = min(max(mean, 0.0), 1.0)
    return math.sqrt(inside * (1.0 - inside)) / 2.0


def blended_of(trust: float, measured: float, by_requests: Callable[[], float]) -> float:
    known = measured == measured
    if known and (trust >= 1.0 or trust <= 0.0):  # a given mean may be believed without a sample
        return measured
    weight = trust if known else 0.0
    return weight * (measured if known else 0.0) + (1.0 - weight) * UNSEEN * by_requests()


def counted_of(points: float) -> int:
    return round(min(max(points, 0.0), MAX_SCORE) * PARTS)
