"""How load and requests are spread over nodes, for people to look at: columns by row, and counts and statistics of them.

Decisions read none of it, and reading it changes nothing that decisions have cached.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE
from trimtab.core.tables import Bools, Floats

RESOURCES = (CPU, MEMORY)
Utilization = dict[str, dict[str, Floats]]  # fractions of allocatable by row, by basis and resource; NaN where unknown


def utilization(view: View, measured: bool, pods: bool) -> Utilization:
    """`measured` if there is a source, `requested` if pods are watched, and what decisions reckon with, `forecast`."""
    columns: Utilization = {}
    if measured:
        columns["measured"] = {resource: view.used_share(resource) for resource in RESOURCES}
    if pods:
        columns["requested"] = {each: _share(view, each, view.requested(each).astype(float)) for each in RESOURCES}
    if measured and pods:
        load = view.load.over(view.load.store)  # a view of its own: caches of decisions stay as they are
        columns["forecast"] = {each: _share(view, each, load.forecast(each)[0][: view.count]) for each in RESOURCES}
    return columns


def _share(view: View, resource: str, amount: Floats) -> Floats:
    allocatable = view.allocatable(resource)
    return amount / np.where(allocatable > 0, allocatable, np.nan)


def open_to_all(view: View) -> Bools:
    """Nodes that any pod may use: neither cordoned nor with a taint that keeps pods away."""
    hard = [any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) for taint in taints) for taints in view.taint_sets]
    tainted = np.array(hard, dtype=np.bool_)
    return ~(view.unschedulable | tainted[view.taint_set])


def sample_states(view: View, resource: str) -> dict[str, int]:
    """Nodes by the state of their newest sample."""
    trust, sampled_at = view.load.trust(resource)[: view.count], view.load.sampled_at(resource)[: view.count]
    missing = np.isnan(sampled_at)
    states = {"fresh": trust == 1, "aging": trust == 0.5, "stale": (trust == 0) & ~missing, "missing": missing}
    return {state: int(rows.sum()) for state, rows in states.items()}


def statistics(column: Floats, rows: Bools) -> dict[str, float]:
    """Mean, least and most over the rows that have a value; empty without any."""
    known = column[rows & np.isfinite(column)]
    return {"mean": float(known.mean()), "min": float(known.min()), "max": float(known.max())} if len(known) else {}


def variance(column: Floats, rows: Bools) -> float | None:
    """Over the rows that have a value; None without any."""
    known = column[rows & np.isfinite(column)]
    return float(known.var()) if len(known) else None


def cumulative_counts(column: Floats, limits: Sequence[float]) -> list[int]:
    """How many values are at most each limit; a row without a value counts nowhere."""
    return [int((column <= limit).sum()) for limit in limits]


def percentages(column: Floats) -> list[float]:
    """The column in percent, NaN where unknown."""
    values: list[float] = (column * 100).tolist()
    return values
