"""Pods that took their place after a moment, counted or summed per row; which moment, and what each is worth, plugins say.

Measurements lag: what was placed since the last of them is not in it yet. Only such newcomers are gone through one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.pod_table import NO_ROW
from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.pod import Pod

Rows = slice | NDArray[np.intp]

SMALL_SELECTION = 8  # up to so many rows, their own pods are cheaper to go through than all slots
NONE: frozenset[int] = frozenset()


def recent_count(view: View, after: Floats | float, rows: Rows) -> Floats:
    """How many pods took a place on each picked row later than `after`: one moment for all, or one per row of the view.

    Where the moment is NaN nobody is recent.
    """
    return recent_sum(view, after, rows, lambda pod: 1.0)


def recent_sum(view: View, after: Floats | float, rows: Rows, amount: Callable[[Pod], float]) -> Floats:
    """The same, where each pod counts as much as `amount` says; whole amounts add up exactly."""
    few = _small_selection(view, rows)
    total = _on_all_rows(view, after, amount)[rows] if few is None else _on_rows(view, after, few, amount)
    if view.delta is not None:
        total += _added(view, amount)[rows]
    return total


def recent_sum_on_row(view: View, moment: float, row: int, amount: Callable[[Pod], float]) -> float:
    """The same of one row, as a plain number."""
    total = _on_row(view, moment, row, amount)
    return total if view.delta is None else total + _added(view, amount).item(row)


def _small_selection(view: View, rows: Rows) -> Sequence[int] | None:
    """The numbers of the picked rows, unless they are many."""
    picked = range(*rows.indices(view.count)) if isinstance(rows, slice) else rows
    return None if len(picked) > SMALL_SELECTION else [int(row) for row in picked]


def _on_rows(view: View, after: Floats | float, few: Sequence[int], amount: Callable[[Pod], float]) -> Floats:
    moments = [after.item(row) if isinstance(after, np.ndarray) else after for row in few]
    return np.array([_on_row(view, *each, amount) for each in zip(moments, few, strict=True)], dtype=np.float64)


def _on_row(view: View, moment: float, row: int, amount: Callable[[Pod], float]) -> float:
    placed, slot_of, gone = view.load.placed_at, view.pod_table.slot, _removed_slots(view)
    slots = sorted([slot_of[uid] for uid in view.pods_on(view.nodes[row].name)])
    late = [slot for slot in slots if placed.item(slot) > moment and slot not in gone]
    return sum(map(amount, _pods(view, late)))


def _on_all_rows(view: View, after: Floats | float, amount: Callable[[Pod], float]) -> Floats:
    slots = np.flatnonzero(view.pod_table.row != NO_ROW)
    rows = view.pod_table.row[slots]
    late = view.load.placed_at[slots] > (after[rows] if isinstance(after, np.ndarray) else after)
    if view.delta is not None:
        late &= ~np.isin(slots, view.delta.slots)
    worth = np.fromiter(map(amount, _pods(view, slots[late].tolist())), dtype=np.float64, count=int(late.sum()))
    total: Floats = np.bincount(rows[late], worth, minlength=view.count).astype(np.float64)
    return total


def _removed_slots(view: View) -> frozenset[int]:
    return NONE if view.delta is None else frozenset(view.delta.slots.tolist())


def _added(view: View, amount: Callable[[Pod], float]) -> Floats:
    """Pods that an overlay adds have only just come."""
    total = np.zeros(view.count)
    for row, pod, sign in view.delta.untracked if view.delta is not None else ():
        total[row] += max(sign, 0) * amount(pod)
    return total


def _pods(view: View, slots: Iterable[int]) -> Iterator[Pod]:
    for slot in slots:
        pod = view.pod_table.pods[slot]
        assert pod is not None
        yield pod
