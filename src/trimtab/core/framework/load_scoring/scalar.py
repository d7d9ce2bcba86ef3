"""The figures of `usage` for one row at a time, as plain numbers; what follows from them is for plugins.

After a placement one row is judged again, and there an array costs ten times what a number does. Both ways do the same
arithmetic in the same order, so that a row's answer never depends on how many were asked for. Where a figure may be NaN it
stands first in `min` and `max`, which keep it then, as numpy does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Rows
from trimtab.core.framework.load_scoring.utilisation import EPSILON, MIN_CAPACITY, RESOURCES, SCORE_SCALE
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU

SMALL_SELECTION = 4  # up to so many rows, plain numbers are cheaper than arrays


def small_selection(view: View, rows: Rows) -> Sequence[int]:
    """The numbers of the picked rows; none if they are many, and for all rows, however few there are."""
    if isinstance(rows, slice):
        picked = range(*rows.indices(view.count)) if rows.stop is not None else range(0)
        return picked if len(picked) <= SMALL_SELECTION else ()
    numbers: list[int] = rows.tolist() if len(rows) <= SMALL_SELECTION else []
    return numbers


def per_row(evaluate: Callable[[int], int], rows: Sequence[int]) -> Ints:
    return np.array([evaluate(row) for row in rows], dtype=np.int64)


def nanmax(one: float, other: float) -> float:
    """Whichever is known where only one is."""
    return other if one != one or one < other else one


def pod_estimate(view: View, pod: Pod) -> tuple[float, float]:
    """What the pod will use of CPU and memory."""
    cpu, memory = (view.load.estimate(pod, resource)[0] for resource in RESOURCES)
    return cpu, memory


def ratio(used: float, capacity: int) -> float:
    return (used + EPSILON) / max(capacity, MIN_CAPACITY)


def measured_ratios(
    used: Callable[[str], Floats], capacity: Callable[[str], Ints], estimate: tuple[float, float], row: int
) -> list[float]:
    """Of CPU and memory, what is used and what the pod will use of what there is; NaN where the use is not known."""
    return [
        ratio(used(resource).item(row) + amount, capacity(resource).item(row))
        for resource, amount in zip(RESOURCES, estimate, strict=True)
    ]


def fill_from_requests(view: View, pod: Pod, row: int, shares: Iterable[float]) -> list[float]:
    """The shares of both, with requests in place of what is not known."""
    return [
        share if share == share else requested_ratio(view, resource, row, pod)
        for resource, share in zip(RESOURCES, shares, strict=True)
    ]


def requested_ratio(view: View, resource: str, row: int, pod: Pod) -> float:
    """What pods ask for with this one, of what the node has for them."""
    asked = view.nonzero_cpu if resource == CPU else view.nonzero_memory
    return ratio(
        float(asked.item(row)) + float(pod.requests.nonzero_of(resource)), view.allocatable(resource).item(row)
    )


def free_score(share: float) -> int:
    return round((1.0 - min(share, 1.0)) * (MAX_SCORE * SCORE_SCALE))


def threshold_code(above: Iterable[bool], alone: Callable[[], Iterable[bool]]) -> int:
    """Of one row, as `encode` has it."""
    limits = [*above]
    if True not in limits:
        return 0
    bits = sum(1 << bit for bit, passed in enumerate(limits) if passed)
    past_help = any(passed and by_itself for passed, by_itself in zip(limits, alone(), strict=True))
    return -2 * bits if past_help else bits
