"""How the Trimaran policies take measurements: what stands in for them, and how far they count; formulas are for plugins.

A node without trusted measurements is judged by requests and has half of those points: it is neither idle nor the best,
and where nothing is measured at all, nodes stand in the order of their requests. While measurements are getting on, both
figures count for half.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import MAX_SCORE, Ints, Rows
from trimtab.core.placing.measured.usage import asked, share_of

PARTS = 10_000  # of a point: a small pod on a large node must still be seen
UNSEEN = 0.5


def level(view: View, resource: str, rows: Rows) -> Floats:
    """What nodes use, with pods that no sample shows yet; NaN where nothing is believed.

    The mean of the window is slow to show new pods and the newest sample is not, so the higher of the two counts.
    """
    mean, latest = view.load.mean(resource)[: view.count][rows], view.load.latest(resource)[: view.count][rows]
    return np.maximum(np.fmax(mean, latest) + view.load.pending(resource)[: view.count][rows], 0.0)


def requested(view: View, pod: Pod, resource: str, rows: Rows) -> Floats:
    """Requests with the pod's own over allocatable, where containers that ask for nothing count a little."""
    return share_of(asked(view, resource, rows, pod), view.allocatable(resource)[rows])


def blended(view: View, resource: str, rows: Rows, measured: Floats, by_requests: Floats) -> Floats:
    """Points by measurements as far as they are trusted, and by requests for the rest."""
    known = ~np.isnan(measured)
    trust = view.load.trust(resource)[: view.count][rows]
    weight = np.where(known, np.where(trust > 0, trust, 1.0), 0.0)  # a given mean may be believed without a sample
    return weight * np.where(known, measured, 0.0) + (1.0 - weight) * UNSEEN * by_requests


def counted(points: Floats) -> Ints:
    """Points in the parts that are added up."""
    return np.rint(np.clip(points, 0.0, MAX_SCORE) * PARTS).astype(np.int64)


def rounded(points: Floats) -> Ints:
    """Whole points, halves rounded up as Go rounds them, in the same parts."""
    return np.floor(points + 0.5).astype(np.int64) * PARTS
