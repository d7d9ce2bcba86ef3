"""Counts and sums, per row, of pods placed after a point in time: measurements lag, and do not contain them yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.tables import NO_ROW, Floats, Selection

SMALL_SELECTION = 8  # rows, up to which going through their own pods is cheaper than through all slots
NONE: frozenset[int] = frozenset()


def recent_count(view: View, after: Floats | float, rows: Selection) -> Floats:
    """Pods placed on each of these rows later than `after`: one time for all, or one per row of the view.

    None are counted where the time is NaN.
    """
    return recent_sum(view, after, rows, lambda pod: 1.0)


def recent_sum(view: View, after: Floats | float, rows: Selection, amount: Callable[[Pod], float]) -> Floats:
    """The sum of `amount` over those pods."""
    small = _small_selection(view, rows)
    total = _on_all_rows(view, after, amount)[rows] if small is None else _on_rows(view, after, small, amount)
    if view.delta is not None:
        total += _added(view, amount)[rows]
    return total


def recent_sum_on_row(view: View, after: float, row: int, amount: Callable[[Pod], float]) -> float:
    """The same for one row, as a plain number."""
    total = _on_row(view, after, row, amount)
    return total if view.delta is None else total + _added(view, amount).item(row)


def _small_selection(view: View, rows: Selection) -> Sequence[int] | None:
    """The selected row numbers, unless there are many."""
    selected = range(*rows.indices(view.count)) if isinstance(rows, slice) else rows
    return None if len(selected) > SMALL_SELECTION else [int(row) for row in selected]


def _on_rows(view: View, after: Floats | float, rows: Sequence[int], amount: Callable[[Pod], float]) -> Floats:
    times = [after.item(row) if isinstance(after, np.ndarray) else after for row in rows]
    sums = [_on_row(view, time, row, amount) for time, row in zip(times, rows, strict=True)]
    return np.array(sums, dtype=np.float64)


def _on_row(view: View, after: float, row: int, amount: Callable[[Pod], float]) -> float:
    placed_at, slot_of, removed = view.load.placed_at, view.pod_table.slot, _removed_slots(view)
    slots = sorted([slot_of[uid] for uid in view.pods_on(view.nodes[row].name)])
    recent = [slot for slot in slots if placed_at.item(slot) > after and slot not in removed]
    return sum(map(amount, _pods(view, recent)))


def _on_all_rows(view: View, after: Floats | float, amount: Callable[[Pod], float]) -> Floats:
    slots = np.flatnonzero(view.pod_table.row != NO_ROW)
    rows = view.pod_table.row[slots]
    recent = view.load.placed_at[slots] > (after[rows] if isinstance(after, np.ndarray) else after)
    if view.delta is not None:
        recent &= ~np.isin(slots, view.delta.slots)
    amounts = map(amount, _pods(view, slots[recent].tolist()))
    weights = np.fromiter(amounts, dtype=np.float64, count=int(recent.sum()))
    total: Floats = np.bincount(rows[recent], weights, minlength=view.count).astype(np.float64)
    return total


def _removed_slots(view: View) -> frozenset[int]:
    return NONE if view.delta is None else frozenset(view.delta.slots.tolist())


def _added(view: View, amount: Callable[[Pod], float]) -> Floats:
    """Pods added by an overlay are always recent."""
    total = np.zeros(view.count)
    for row, pod, sign in view.delta.untracked if view.delta is not None else ():
        total[row] += max(sign, 0) * amount(pod)
    return total


def _pods(view: View, slots: Iterable[int]) -> Iterator[Pod]:
    for slot in slots:
        pod = view.pod_table.pods[slot]
        assert pod is not None
        yield pod
