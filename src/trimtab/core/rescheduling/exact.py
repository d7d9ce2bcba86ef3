"""The exact plan of a small pool: of all sets of moves the one with the lowest penalties and costs, as an integer program.

A node's penalty depends on all pods that leave it or come to it, and is no sum over them. So the program chooses among
configurations: for each node which of its candidates leave, and which others come, with the exact penalty of the result.

    minimise    penalties of the chosen configurations + costs of the pods that leave
    subject to  each node has one configuration
                a pod that leaves comes to one other node
                of one owner one pod leaves at most, and as many pods in all as one plan may move

Pods come only to nodes that have room for their requests and stay within their limits, as for the planner, but without its
exception for pods of overloaded nodes. How many
configurations there are grows fast with the number of candidates: `configurations` refuses pools that are too large. Who
solves the program is up to the caller: the core knows no solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np

from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.objective import NodeLoad, PodLoad
from trimtab.core.tables import Bools, Floats, Index

MOST_CONFIGURATIONS = 200_000
TOLERANCE = 1e-2  # of penalties, which are sums of 32-bit floats
AT_ONCE = 1000  # configurations whose penalties are computed


class NoExactPlan(Exception):
    """Why none can be found, and what to do."""


class MovablePods(NamedTuple):
    """All pods that may be moved: the row of each, its load, what its move costs, and by pod and row where it may go."""

    pods: Sequence[Pod]
    home: Index
    load: PodLoad
    costs: Floats
    allowed: Bools


class Rooms(NamedTuple):
    """What rows have left of each resource, used as well as requested, and what each candidate needs of it."""

    left: Floats  # by row and resource
    needs: Floats  # by candidate and resource


Numbers = tuple[int, ...]  # of candidates


class NodeAssignment(NamedTuple):
    """What becomes of a row: the candidates that leave and those that come; its penalty then, and what leaving costs."""

    row: int
    leave: Numbers
    come: Numbers
    cost: float


class Program(NamedTuple):
    """Minimise `costs @ x` over binary x, with `lower <= matrix @ x <= upper`. The matrix is given by column, as the rows in
    which it is not 0, and the values there."""

    costs: list[float]
    columns: list[dict[int, float]]
    lower: list[float]
    upper: list[float]


Solver = Callable[[Program], Sequence[int]]  # the numbers of the columns that are 1


class ExactSearch:
    """The best plan of these candidates, and then the next best ones. Raises NoExactPlan.

    known: penalties of all rows and costs of a plan that is possible, so that worse ones need not be looked at.
    """

    def __init__(
        self, candidates: MovablePods, load: NodeLoad, rooms: Rooms, most: int, solve: Solver, known: float = np.inf
    ) -> None:
        found = configurations(candidates, load, rooms, most)
        others = float(load.penalty.sum() - load.penalty[list({each.row for each in found})].sum())
        self._configurations = _not_hopeless(found, known - others)
        self._program, self._solve = program(self._configurations, candidates.pods, most), solve

    def next_best(self) -> list[tuple[int, int]]:
        """Number and target row of each candidate that should move."""
        chosen = self._solve(self._program)
        for number in chosen:  # not all of them once more
            self._program.columns[number][len(self._program.lower)] = 1.0
        self._program.lower.append(0.0)
        self._program.upper.append(len(chosen) - 1.0)
        found = [self._configurations[number] for number in chosen]
        return [(number, each.row) for each in found for number in each.come]


# --- configurations


def configurations(candidates: MovablePods, load: NodeLoad, rooms: Rooms, most: int) -> list[NodeAssignment]:
    """Of all rows that a pod may leave or come to."""
    found: list[NodeAssignment] = []
    rows = {*candidates.home.tolist(), *np.flatnonzero(candidates.allowed.any(axis=0)).tolist()}
    for row in sorted(rows):
        pairs = list(islice(_of_row(candidates, rooms, row, most), MOST_CONFIGURATIONS - len(found) + 1))
        if len(pairs) + len(found) > MOST_CONFIGURATIONS:
            raise NoExactPlan(
                f"there are more than {MOST_CONFIGURATIONS:,} ways in which {len(candidates.pods)} pods could share "
                f"{len(rows)} nodes, too many for an exact plan: leave out --exact"
            )
        costs = _costs(candidates, load, row, pairs)
        found += [NodeAssignment(row, *pair, cost) for pair, cost in zip(pairs, costs, strict=True)]
    return found


def _of_row(candidates: MovablePods, rooms: Rooms, row: int, most: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Which pods leave, and which come."""
    here = np.flatnonzero(candidates.home == row).tolist()
    others = np.flatnonzero(candidates.allowed[:, row]).tolist()
    for size in range(min(len(here), most) + 1):
        for leave in combinations(here, size):
            left = rooms.left[row] + rooms.needs[list(leave)].sum(axis=0)
            for come in _that_fit(rooms.needs, left, others, most - size):
                yield leave, come


def _that_fit(needs: Floats, left: Floats, others: Sequence[int], most: int) -> Iterator[Numbers]:
    """All sets of these pods for which there is room; what contains too large a set is too large itself."""
    yield ()
    unfinished: list[tuple[Numbers, int, Floats]] = [((), 0, left)]
    while unfinished:
        chosen, start, room = unfinished.pop()
        for index in range(start, len(others) if len(chosen) < most else start):
            rest = room - needs[others[index]]
            if (rest >= 0).all():
                yield (*chosen, others[index])
                unfinished.append(((*chosen, others[index]), index + 1, rest))


def _costs(
    candidates: MovablePods, load: NodeLoad, row: int, pairs: Sequence[tuple[Numbers, Numbers]]
) -> Iterator[float]:
    """The penalty of the row with each of these, and the costs of the pods that leave."""
    usage = candidates.load.usage  # by resource, pod and snapshot
    for at in range(0, len(pairs), AT_ONCE):
        some = pairs[at : at + AT_ONCE]
        signs = np.zeros((len(some), len(candidates.pods)), dtype=np.float32)
        for signs_of_one, (leave, come) in zip(signs, some, strict=True):
            signs_of_one[list(leave)], signs_of_one[list(come)] = -1.0, 1.0
        sums = load.usage[:, row, None] + np.einsum("cp,rps->rcs", signs, usage)
        scaled = (np.maximum(sums, 0.0) * load.per_unit[:, row, None, None]).max(axis=0)
        left = (signs < 0) @ candidates.costs
        yield from (load.penalties_of(scaled) + left).tolist()


def _not_hopeless(found: Sequence[NodeAssignment], known: float) -> list[NodeAssignment]:
    """Those that do not cost more than is known to be possible, even if every other row has its cheapest configuration."""
    least: dict[int, float] = {}
    for each in found:
        least[each.row] = min(each.cost, least.get(each.row, np.inf))
    most = known - sum(least.values()) + TOLERANCE
    return [each for each in found if each.cost - least[each.row] <= most]


# --- the program


def program(found: Sequence[NodeAssignment], pods: Sequence[Pod], most: int) -> Program:
    """Its rows: one configuration for each row of the cluster, each pod comes as often as it leaves, one pod leaves of each
    owner, and so many pods in all."""
    rows = {row: number for number, row in enumerate(dict.fromkeys(each.row for each in found))}
    owners = dict.fromkeys(pod.owner.uid for pod in pods if pod.owner is not None)
    owner_row = {uid: len(rows) + len(pods) + number for number, uid in enumerate(owners)}
    last = len(rows) + len(pods) + len(owners)
    columns = []
    for each in found:
        column = {rows[each.row]: 1.0, **{len(rows) + number: 1.0 for number in each.come}}
        for number in each.leave:
            owner = pods[number].owner
            column[len(rows) + number] = -1.0
            if owner is not None:
                column[owner_row[owner.uid]] = column.get(owner_row[owner.uid], 0.0) + 1.0
        columns.append({**column, last: float(len(each.leave))} if each.leave else column)
    lower = [1.0] * len(rows) + [0.0] * (len(pods) + len(owners) + 1)
    upper = [1.0] * len(rows) + [0.0] * len(pods) + [1.0] * len(owners) + [float(most)]
    return Program([each.cost for each in found], columns, lower, upper)
