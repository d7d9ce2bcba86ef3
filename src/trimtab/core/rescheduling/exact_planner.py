"""Plans the best set of moves of a small pool, by an integer program; `planner.py` finds good ones for any pool, and quickly.

The moves are made one after the other. As for the planner, each must be worth its cost, leave its target within its limits
and pass the filters of the scheduler, with the moves before it made. A set of moves for which there is no such order is left
out, and the next best one is sought.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trimtab.core.framework.profile import Profile
from trimtab.core.model.pod import Pod
from trimtab.core.model.steps import Steps
from trimtab.core.rescheduling.exact import ExactSearch, MovablePods, NoExactPlan, Rooms, Solver
from trimtab.core.rescheduling.guards import GuardContext
from trimtab.core.rescheduling.objective import LIMIT, NodeLoad, PodLoad
from trimtab.core.rescheduling.planner import NO_OTHER_NODE, Found, Planner, unknown_rules
from trimtab.core.rescheduling.suggested_nodes import NEVER, SearchSpace, SuggestedNode
from trimtab.core.tables import Bools, Floats

TOLERANCE = 1e-6
MOST_ATTEMPTS = 200
NO_ORDER = (
    f"none of the {MOST_ATTEMPTS} best sets of moves can be made one by one, each worth its cost, within limits and filters: "
    "leave out --exact"
)
NOT_OURS = "{} could choose among several nodes, and an exact plan cannot leave that open"

Numbered = tuple[SuggestedNode, int]  # a source, and the number of one of its candidates
Target = tuple[int, int]  # number of a movable pod, and the row that it goes to


class ExactPlanner(Planner):
    """Its steps raise NoExactPlan, and may be long: it is for people who wait for a plan, not for a scheduler's process."""

    def __init__(
        self,
        guards: GuardContext,
        profile_of: Callable[[str], Profile | None],
        other_schedulers: frozenset[str] = frozenset(),
        *,
        solve: Solver,
    ) -> None:
        super().__init__(guards, profile_of, other_schedulers)
        self._solve = solve

    def _search(self, space: SearchSpace) -> Steps[Found]:
        refusals = self.refusals.copy()
        known = yield from super()._search(space)
        self._take_back()
        space.restart()
        self.refusals = refusals
        movable = _cheapest(space.sources)
        allowed = np.array([self._allowed(*each) for each in movable], dtype=np.bool_)
        search = self._exact_search(space.load, movable, allowed, known)
        yield
        for _ in range(MOST_ATTEMPTS):
            if self._make_all(space, movable, search.next_best()):
                total = space.penalty + self._paid
                return Found(tuple(self.moves), self.refusals, space.penalty, total, (), frozenset())
            self._take_back()
            space.restart()
            yield
        raise NoExactPlan(NO_ORDER)

    def _exact_search(self, load: NodeLoad, movable: Sequence[Numbered], allowed: Bools, known: Found) -> ExactSearch:
        """known: a plan that is possible, unless it leaves the choice among several nodes to another scheduler."""
        candidates = _candidates(movable, allowed)
        possible = np.inf if any(len(move.could_choose) > 1 for move in known.moves) else known.total
        rooms = self._rooms(candidates, load)
        return ExactSearch(candidates, load, rooms, self.settings.max_moves, self._solve, possible)

    def _allowed(self, source: SuggestedNode, number: int) -> Bools:
        """By row: where the pod may go, if it is the only one that is moved."""
        pod = source.candidates[number].pod
        feasible = self._feasible(pod)
        if feasible is None:
            self._refuse(pod, "scheduler", unknown_rules(pod))
            return np.zeros(len(self._open), dtype=np.bool_)
        found = feasible & self._open & self._suggested(source)
        found[source.row] = False
        if not feasible.any() and pod.scheduler_name in self._other_schedulers:
            self._refuse(pod, "scheduler's choice", NOT_OURS.format(pod.scheduler_name))
        elif not found.any():
            self._refuse(pod, "rehearsal", NO_OTHER_NODE)
        return np.asarray(found)

    def _feasible(self, pod: Pod) -> Bools | None:
        """By row: where its scheduler would place the pod if it is told to; another scheduler must have no choice."""
        if pod.scheduler_name not in self._other_schedulers:
            return self.rehearsal.feasible(pod)
        rows = self.rehearsal.could_choose(pod)
        if rows is None:
            return None
        found = np.zeros(len(self._open), dtype=np.bool_)
        found[rows if len(rows) == 1 else []] = True
        return found

    def _rooms(self, candidates: MovablePods, load: NodeLoad) -> Rooms:
        """Of the limits, by the newest usage, and of requests."""
        with np.errstate(divide="ignore"):
            capacity = np.where(load.per_unit > 0, LIMIT / load.per_unit, 0.0)
        left: list[Floats] = list(capacity * (1 + TOLERANCE) - load.usage[:, :, 0])
        needs: list[Floats] = list(candidates.load.usage[:, :, 0].astype(np.float64))
        view = self.cluster.view
        for name in dict.fromkeys(name for pod in candidates.pods for name, _ in pod.requests.amounts):
            left.append((view.allocatable(name) - view.requested(name)).astype(np.float64))
            needs.append(np.array([pod.requests.of(name) for pod in candidates.pods], dtype=np.float64))
        return Rooms(np.stack(left, axis=1), np.stack(needs, axis=1))

    def _make_all(self, space: SearchSpace, movable: Sequence[Numbered], chosen: Sequence[Target]) -> bool:
        """The moves one after the other, always the best of those that are possible now; False if none is."""
        waiting = list(chosen)
        while waiting:
            nets = [_net_gain(*movable[number], row) for number, row in waiting]
            for index in sorted(range(len(waiting)), key=lambda each: -nets[each]):
                (source, number), row = movable[waiting[index][0]], waiting[index][1]
                feasible = self._feasible(source.candidates[number].pod)
                if nets[index] > 0 and feasible is not None and feasible[row]:
                    self._move(space, source, number, np.array([row]), nets[index])
                    del waiting[index]
                    break
            else:
                return False
        return True


def _net_gain(source: SuggestedNode, number: int, row: int) -> float:
    """Of the move as the next one; `NEVER` if the target would be above its limits."""
    net, fits = source.net_gains(number, np.array([row]))
    return float(net[0]) if fits[0] else NEVER


def _cheapest(sources: Sequence[SuggestedNode]) -> list[Numbered]:
    """Each pod once: several strategies may suggest its node."""
    found: dict[str, Numbered] = {}
    for source in sources:
        for number, each in enumerate(source.candidates):
            known = found.get(each.pod.uid)
            if known is None or source.costs[number] < known[0].costs[known[1]]:
                found[each.pod.uid] = source, number
    return list(found.values())


def _candidates(movable: Sequence[Numbered], allowed: Bools) -> MovablePods:
    loads = [source.pod_load(number) for source, number in movable]
    return MovablePods(
        [source.candidates[number].pod for source, number in movable],
        np.array([source.row for source, _ in movable], dtype=np.intp),
        PodLoad(np.concatenate([each.slots for each in loads]), np.concatenate([each.usage for each in loads], axis=1)),
        np.array([source.costs[number] for source, number in movable]),
        allowed,
    )
