"""The formulas of `utilisation` for one row at a time, in plain Python numbers.

After a placement one row is scored again, where an array costs ten times as much as a number. Both versions do the same
arithmetic in the same order, so a row's result never depends on how many rows were requested. Where a value may be NaN
it comes first in `min` and `max`, which then return it, as numpy does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Rows
from trimtab.core.framework.load_scoring.utilisation import EPSILON, MIN_CAPACITY, RESOURCES, SCORE_SCALE
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.tables import Floats

SMALL_SELECTION = 4  # up to so many rows, plain numbers are cheaper than arrays


def small_selection(view: View, rows: Rows) -> Sequence[int]:
    """The selected row numbers if they are few; empty if they are many, and for all rows, however few there are."""
    if isinstance(rows, slice):
        picked = range(*rows.indices(view.count)) if rows.stop is not None else range(0)
        return picked if len(picked) <= SMALL_SELECTION else ()
    numbers: list[int] = rows.tolist() if len(rows) <= SMALL_SELECTION else []
    return numbers


def per_row(evaluate: Callable[[int], int], rows: Sequence[int]) -> Ints:
    return np.array([evaluate(row) for row in rows], dtype=np.int64)


def nanmax(one: float, other: float) -> float:
    """The larger one, or the known one where only one is known."""
    return other if one != one or one < other else one


def pod_estimate(view: View, pod: Pod) -> tuple[float, float]:
    """The pod's estimated usage of CPU and memory."""
    cpu, memory = (view.load.estimate(pod, resource)[0] for resource in RESOURCES)
    return cpu, memory


def ratio(used: float, capacity: int) -> float:
    return (used + EPSILON) / max(capacity, MIN_CAPACITY)


def measured_ratios(
    used: Callable[[str], Floats], capacity: Callable[[str], Ints], estimate: tuple[float, float], row: int
) -> list[float]:
    """Usage of CPU and memory with the pod's estimate, over capacity; NaN where the usage is unknown."""
    return [
        ratio(used(resource).item(row) + amount, capacity(resource).item(row))
        for resource, amount in zip(RESOURCES, estimate, strict=True)
    ]


def fill_from_requests(view: View, pod: Pod, row: int, shares: Iterable[float]) -> list[float]:
    """The ratios of both, with requests in place of unknown values."""
    return [
        share if share == share else requested_ratio(view, resource, row, pod)
        for resource, share in zip(RESOURCES, shares, strict=True)
    ]


def requested_ratio(view: View, resource: str, row: int, pod: Pod) -> float:
    """Requests with this pod over allocatable."""
    requested = view.nonzero_cpu if resource == CPU else view.nonzero_memory
    return ratio(
        float(requested.item(row)) + float(pod.requests.nonzero_of(resource)), view.allocatable(resource).item(row)
    )


def free_score(share: float) -> int:
    return round((1.0 - min(share, 1.0)) * (MAX_SCORE * SCORE_SCALE))


def threshold_code(above: Iterable[bool], pod_only_above: Callable[[], Iterable[bool]]) -> int:
    """The filter code of one row; see `utilisation.threshold_codes`."""
    exceeded = [*above]
    if True not in exceeded:
        return 0
    bits = sum(1 << bit for bit, above_limit in enumerate(exceeded) if above_limit)
    unresolvable = any(
        above_limit and pod_only for above_limit, pod_only in zip(exceeded, pod_only_above(), strict=True)
    )
    return -2 * bits if unresolvable else bits
