"""The figures of `usage` for one row at a time, as plain numbers; what follows from them is for plugins.

After a placement one row is judged again, and there an array costs ten times what a number does. Both ways do the same
arithmetic in the same order, so that a row's answer never depends on how many were asked for. Where a figure may be NaN it
stands first in `min` and `max`, which keep it then, as numpy does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.placing.contract import MAX_SCORE, Ints, Rows
from trimtab.core.placing.measured.usage import LESS_STILL, NEXT_TO_NOTHING, PAIR, PARTS

FEW = 4  # up to so many rows, plain numbers are cheaper than arrays


def few(view: View, rows: Rows) -> Sequence[int]:
    """The numbers of the picked rows; none if they are many, and for all rows, however few there are."""
    if isinstance(rows, slice):
        picked = range(*rows.indices(view.count)) if rows.stop is not None else range(0)
        return picked if len(picked) <= FEW else ()
    numbers: list[int] = rows.tolist() if len(rows) <= FEW else []
    return numbers


def column(judge: Callable[[int], int], rows: Sequence[int]) -> Ints:
    return np.array([judge(row) for row in rows], dtype=np.int64)


def larger(one: float, other: float) -> float:
    """Whichever is known where only one is."""
    return other if one != one or one < other else one


def own(view: View, pod: Pod) -> tuple[float, float]:
    """What the pod will use of CPU and memory."""
    cpu, memory = (view.load.estimate(pod, resource)[0] for resource in PAIR)
    return cpu, memory


def share(used: float, offered: int) -> float:
    return (used + NEXT_TO_NOTHING) / max(offered, LESS_STILL)


def shares(
    used: Callable[[str], Floats], offered: Callable[[str], Ints], own: tuple[float, float], row: int
) -> list[float]:
    """Of CPU and memory, what is used and what the pod will use of what there is; NaN where the use is not known."""
    return [
        share(used(resource).item(row) + amount, offered(resource).item(row))
        for resource, amount in zip(PAIR, own, strict=True)
    ]


def known(view: View, pod: Pod, row: int, shares: Iterable[float]) -> list[float]:
    """The shares of both, with requests in place of what is not known."""
    return [
        share if share == share else by_requests(view, resource, row, pod)
        for resource, share in zip(PAIR, shares, strict=True)
    ]


def by_requests(view: View, resource: str, row: int, pod: Pod) -> float:
    """What pods ask for with this one, of what the node has for them."""
    asked = view.scored_cpu if resource == CPU else view.scored_memory
    return share(float(asked.item(row)) + float(pod.demand.scored_of(resource)), view.allocatable(resource).item(row))


def points(share: float) -> int:
    return round((1.0 - min(share, 1.0)) * (MAX_SCORE * PARTS))


def code(above: Iterable[bool], alone: Callable[[], Iterable[bool]]) -> int:
    """Of one row, as `codes_above` has it."""
    limits = [*above]
    if True not in limits:
        return 0
    bits = sum(1 << bit for bit, passed in enumerate(limits) if passed)
    past_help = any(passed and by_itself for passed, by_itself in zip(limits, alone(), strict=True))
    return -2 * bits if past_help else bits
