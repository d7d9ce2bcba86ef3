"""Pods that took their place after a moment, counted or summed per row; which moment, and what each is worth, plugins say.

Measurements lag: what was placed since the last of them is not in it yet. Only such newcomers are gone through one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.residents import NOWHERE
from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.pod import Pod

Rows = slice | NDArray[np.intp]
Slots = NDArray[np.intp]

FEW = 8  # up to so many rows, their own pods are cheaper to go through than all slots


def recent_count(view: View, after: Floats | float, rows: Rows) -> Floats:
    """How many pods took a place on each picked row later than `after`: one moment for all, or one per row of the view.

    Where the moment is NaN nobody is recent.
    """
    return recent_sum(view, after, rows, lambda pod: 1.0)


def recent_sum(view: View, after: Floats | float, rows: Rows, amount: Callable[[Pod], float]) -> Floats:
    """The same, where each pod counts as much as `amount` says; whole amounts add up exactly."""
    picked: NDArray[np.intp] = np.arange(view.count)[rows]
    moments = np.broadcast_to(np.asarray(after, dtype=np.float64), (view.count,))
    slots = _newcomers(view, picked, moments)
    worth = np.fromiter(map(amount, _pods(view, slots)), dtype=np.float64, count=len(slots))
    total: Floats = np.bincount(view.pods.row[slots], worth, minlength=view.count).astype(np.float64)
    for row, pod, sign in view.moved.others if view.moved is not None else ():
        total[row] += max(sign, 0) * amount(pod)
    return total[picked]


def _newcomers(view: View, picked: NDArray[np.intp], moments: Floats) -> Slots:
    slots = _slots(view, picked)
    late = slots[view.load.placed[slots] > moments[view.pods.row[slots]]]
    return late if view.moved is None else np.setdiff1d(late, view.moved.slots, assume_unique=True)


def _slots(view: View, picked: NDArray[np.intp]) -> Slots:
    """All that stand on the picked rows, and perhaps others, in rising order."""
    if len(picked) > FEW:
        return np.flatnonzero(view.pods.row != NOWHERE)
    names = (view.nodes[row].name for row in picked.tolist())
    found = [view.pods.slot[uid] for name in names for uid in view.pods_on(name)]
    return np.unique(np.array(found, dtype=np.intp))


def _pods(view: View, slots: Slots) -> Iterator[Pod]:
    for slot in slots.tolist():
        pod = view.pods.pods[slot]
        assert pod is not None
        yield pod
