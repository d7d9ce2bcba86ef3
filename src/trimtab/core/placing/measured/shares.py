"""How the Trimaran policies take measurements: what stands in for them, and how far they count; formulas are for plugins.

A node without trusted measurements is judged by requests and has half of those points: it is neither idle nor the best,
and where nothing is measured at all, nodes stand in the order of their requests. While measurements are getting on, both
figures count for half.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import MAX_SCORE, Ints, Rows
from trimtab.core.placing.measured.usage import asked, share_of

PARTS = 10_000  # of a point: a small pod on a large node must still be seen
UNSEEN = 0.5


def figures(view: View, column: Floats, rows: Rows) -> Floats:
    """The picked rows of a column of load."""
    return column[: view.count][rows]


def level(view: View, resource: str, rows: Rows) -> Floats:
    """What nodes use, with pods that no sample shows yet; NaN where nothing is believed.

    The mean of the window is slow to show new pods and the newest sample is not, so the higher of the two counts.
    """
    load = view.load
    seen = np.fmax(figures(view, load.mean(resource), rows), figures(view, load.latest(resource), rows))
    seen += figures(view, load.pending(resource), rows)
    return np.maximum(seen, 0.0)


def deviation(view: View, resource: str, rows: Rows, mean: Floats, whole: Ints, smoothed: float = 1.0) -> Floats:
    """Of the load as a share of the whole, times `smoothed`.

    Where it is not known, it is half of the most that a load with this mean can have.
    """
    share = share_of(figures(view, view.load.deviation(resource), rows), whole)
    if smoothed != 1.0:
        share *= smoothed
    unknown = np.isnan(share)
    if np.count_nonzero(unknown):
        share[unknown] = widest(mean[unknown]) / 2.0
    return share


def widest(mean: Floats) -> Floats:
    """The most that a share can deviate from its mean: half of the time 0 and half of it 1, in the middle."""
    inside = np.minimum(np.maximum(mean, 0.0), 1.0)
    return np.sqrt(inside * (1.0 - inside))


def requested(view: View, pod: Pod, resource: str, rows: Rows) -> Floats:
    """Requests with the pod's own over allocatable, where containers that ask for nothing count a little."""
    return share_of(asked(view, resource, rows, pod), view.allocatable(resource)[rows])


def blended(view: View, resource: str, rows: Rows, measured: Floats, by_requests: Callable[[], Floats]) -> Floats:
    """Points by measurements as far as they are trusted, and by requests for the rest; those are asked for only then."""
    known, trust = measured == measured, figures(view, view.load.trust(resource), rows)
    if np.count_nonzero(known & (trust >= 1.0)) == len(known):
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
