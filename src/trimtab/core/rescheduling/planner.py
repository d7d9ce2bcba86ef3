"""Plans moves: of all pods on the nodes that strategies suggest, and all targets, the pair that gains most, again and again.

    suggested nodes ─▶ guards ─▶ gain of each (pod, target) ─▶ best pair ─▶ rehearsal ─▶ move on the fork ─▶ next pair
                          │                                        │             │
                          └──────────── refusals ◀─────────────────┴─────────────┘

A pair must gain more than the pod's disruption costs, and must not bring the target above a limit (`NodeLoad.fits`). Each
move counts for the next one: in the load of both nodes, and on the fork of the cluster on which moves are rehearsed. So do
the moves of earlier plans whose replacements do not have a node yet.

The replacement of a pod that another process schedules may go to any node that its scheduler could choose. Each of them must
be worth the move, and the least of their gains is what the pod is compared by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.core.framework.profile import Profile
from trimtab.core.model.plan import Move, Plan, Refusal
from trimtab.core.model.pod import Pod
from trimtab.core.model.steps import Steps
from trimtab.core.rescheduling.disruption import disruption_cost
from trimtab.core.rescheduling.grading import promise
from trimtab.core.rescheduling.guards import GuardContext, refusal
from trimtab.core.rescheduling.guards.nodes import possible_targets
from trimtab.core.rescheduling.objective import NodeLoad
from trimtab.core.rescheduling.rehearsal import Rehearsal
from trimtab.core.rescheduling.reservations import with_replacements_in_steps
from trimtab.core.rescheduling.strategies.interface import (
    AvoidsTargets,
    ReadsSnapshots,
    StrategyContext,
    Suggestion,
    replaceable,
)
from trimtab.core.rescheduling.strategy_record import STRATEGY_RECORD
from trimtab.core.rescheduling.suggested_nodes import Candidate, Choice, Pair, SearchSpace, SuggestedNode
from trimtab.core.tables import Bools, Index

MAX_TARGETS = 64
LOOKED_AT_ONCE = 10_000
MOVES_TRIED = 60  # in searches after the first
WORTH_IT = 0.05  # of the required gain: by how much a plan must be better than an earlier one
NO_ROOM = "no other node that may take it has room for its requests"
NO_OTHER_NODE = "its scheduler would find no other node for it"


class Found(NamedTuple):
    """The moves of one search with its refusals, the penalty that is left, and what both are worth together: less is better.

    `bans` are the pairs of source and target that it did without."""

    moves: tuple[Move, ...]
    refusals: dict[str, Refusal]
    penalty: float
    total: float
    pairs: tuple[Pair, ...]
    bans: frozenset[Pair]

    @property
    def variants(self) -> list[tuple[frozenset[Pair], bool]]:
        """Searches that may find something better: without another pair, and with large pods first or not."""
        without = [self.bans | {pair} for pair in self.pairs]
        return [*((bans, False) for bans in without), *((bans, True) for bans in (self.bans, *without))]


class Planner:
    """One plan. `steps` is advanced until it ends; then `plan` has the result.

    `other_schedulers` are those of other processes: where their pods go is not the plan's to say.
    """

    def __init__(
        self,
        guards: GuardContext,
        profile_of: Callable[[str], Profile | None],
        other_schedulers: frozenset[str] = frozenset(),
    ) -> None:
        self.guards, self._profile_of, self._other_schedulers = guards, profile_of, other_schedulers
        self.settings, self.now = guards.settings, guards.now
        self.cluster = guards.cluster
        self.moves: list[Move] = []
        self._moved: list[Pod] = []
        self._pairs: list[Pair] = []
        self._bans: frozenset[Pair] = frozenset()
        self._large = False  # pods first
        self._rehearsal: Rehearsal | None = None
        self._paid = 0.0  # costs of the moves, less what they are worth by themselves
        self.refusals: dict[str, Refusal] = {}  # by subject
        self.plan: Plan | None = None
        self.hot: dict[str, str] = {}
        self._open: Bools = np.zeros(0, dtype=np.bool_)  # by row: whether pods may be moved there

    def steps(self) -> Iterator[None]:
        self.cluster = yield from with_replacements_in_steps(self.guards.cluster, self.guards.under_way)
        load = NodeLoad(self.cluster, self.settings.limits, self.settings.forecaster)
        context = StrategyContext(
            self.cluster, load, self.now, self._profile_of, replaceable, self.settings.required_gain
        )
        if self.cluster is not self.guards.cluster:
            yield
        sources = yield from self._sources(context)
        if not sources:
            self.plan = Plan(self.now, refusals=tuple(self.refusals.values()), hot=self.hot)
            return
        targets = self._targets(load, context)
        yield
        for source in sources:
            source.begin(load, targets, self._possible(source, targets))
            self._refuse_without_room(source)
            yield from source.compute()
        space = SearchSpace(load, sources, targets)
        before = space.penalty
        found = yield from self._search(space)
        if self._rehearsal is not None:
            self._rehearsal = None
            yield  # to free a whole cluster takes a while
        moved = {each.pod for each in found.moves}  # for another reason than the one that they were refused for
        refusals = tuple(each for each in found.refusals.values() if each.subject not in moved)
        self.plan = Plan(self.now, found.moves, refusals, before, found.penalty, self.hot)

    @property
    def rehearsal(self) -> Rehearsal:
        """Made when it is first needed: most of the time no pair is worth its cost, and nothing is rehearsed."""
        if self._rehearsal is None:
            self._rehearsal = Rehearsal(self.cluster.fork(), self._profile_of)
        return self._rehearsal

    def _search(self, space: SearchSpace) -> Steps[Found]:
        """The best pair, again and again. The first ones may take the room that others need more: so the search is repeated
        without one of its pairs, and with large pods first, as long as that finds better plans, for a while."""
        refusals = self.refusals.copy()
        best = yield from self._greedy(space)
        untried, left = best.variants, MOVES_TRIED
        while untried and left > 0 and len(best.moves) < self.settings.max_moves:
            self._bans, self._large = untried.pop(0)
            self._take_back()
            space.restart(self._bans)
            self.refusals = refusals.copy()
            yield
            found = yield from self._greedy(space)
            left -= len(found.moves) + 1
            if found.total < best.total - WORTH_IT * self.settings.required_gain:
                best, untried = found, found.variants
        return best

    def _greedy(self, space: SearchSpace) -> Steps[Found]:
        while len(self.moves) < self.settings.max_moves and (yield from self._next(space)):
            yield
        total = space.penalty + self._paid
        return Found(tuple(self.moves), self.refusals, space.penalty, total, tuple(self._pairs), self._bans)

    def _take_back(self) -> None:
        for pod in reversed(self._moved):
            self.rehearsal.move(pod, pod.node)
        self.moves, self._moved, self._pairs, self._paid = [], [], [], 0.0

    def _sources(self, context: StrategyContext) -> Steps[list[SuggestedNode]]:
        """Of all suggestions; what the first of them needs of the load is computed before it, in short steps."""
        sources: list[SuggestedNode] = []
        for strategy in self.settings.suggesting:
            if isinstance(strategy, ReadsSnapshots):
                yield from context.load.prepare()
            for suggestion in strategy.suggest(context):
                if suggestion.is_hot and not suggestion.worth:
                    self.hot.setdefault(suggestion.node, suggestion.reason)
                source = yield from self._source(suggestion, context.load)
                sources += [source] if source is not None else []
            yield
        return sources

    def _source(self, suggestion: Suggestion, load: NodeLoad) -> Steps[SuggestedNode | None]:
        row, standing = self.cluster.node_table.row.get(suggestion.node), self.guards.standing(suggestion)
        if standing.paused:
            self.refusals[suggestion.node] = Refusal(suggestion.node, STRATEGY_RECORD, standing.paused)
            return None
        here = self.guards.cluster.on_node.get(suggestion.node, {})
        suggested = [pod for uid, pod in here.items() if not suggestion.pods or uid in suggestion.pods]
        candidates = yield from self._candidates(suggested, self.settings.required_gain * standing.margin)
        if row is None or not candidates:
            return None
        yield from load.prepare()
        slots = np.array([self.cluster.pod_table.slot[each.pod.uid] for each in candidates], dtype=np.intp)
        return SuggestedNode(suggestion, row, candidates, load.pods(slots))

    def _candidates(self, pods: Sequence[Pod], required_gain: float) -> Steps[list[Candidate]]:
        """The pods that no guard refuses. Guards look at all pods of a workload: a step is over after so many of them."""
        guards, candidates, looked_at = self.guards, list[Candidate](), 0
        yield from guards.prepare(pods)
        for pod in (each for each in pods if each.uid not in guards.under_way):
            refused = refusal(guards, pod)
            workload = guards.workload(pod).pods if pod.owner is not None else ()
            if refused is None:
                cost = disruption_cost(pod, required_gain, workload, guards.recent_moves(pod.uid))
                candidates.append(Candidate(pod, *cost))
            else:
                self.refusals[pod.key] = refused
            looked_at += len(workload)
            if looked_at > LOOKED_AT_ONCE:
                looked_at = 0
                yield
        yield
        return candidates

    def _targets(self, load: NodeLoad, context: StrategyContext) -> Index:
        """The open nodes with the lowest penalty."""
        self._open = open_nodes(self.guards, context)
        rows = np.flatnonzero(self._open)
        return rows[np.argsort(load.penalty[rows], kind="stable")][:MAX_TARGETS]

    def _possible(self, source: SuggestedNode, targets: Index) -> Bools:
        """The targets that the strategy allows and whose requests leave room, as a first sieve; not the node itself."""
        view = self.cluster.view
        possible = np.ones((len(source.candidates), len(targets)), dtype=np.bool_)
        for name in dict.fromkeys(name for each in source.candidates for name, _ in each.pod.requests.amounts):
            wanted = np.array([each.pod.requests.of(name) for each in source.candidates])
            possible &= wanted[:, None] <= (view.allocatable(name) - view.requested(name))[targets]
        possible[:, targets == source.row] = False
        return possible & self._suggested(source)[targets]

    def _refuse_without_room(self, source: SuggestedNode) -> None:
        """Without a word on these pods nobody would know why they stay."""
        for number in np.flatnonzero(~source.possible.any(axis=1)).tolist():
            self._refuse(source.candidates[number].pod, "rehearsal", NO_ROOM)

    def _next(self, space: SearchSpace) -> Steps[bool]:
        """Make the best move, or find out that it is not possible; False if no pair is worth its cost."""
        for each in space.sources:
            yield from each.compute()
        found = [each.best(large=self._large) for each in space.sources]
        number = max(range(len(found)), key=lambda each: found[each][0])
        (net, pod_number, column), source = found[number], space.sources[number]
        if net <= 0:
            return False
        if self._rehearsal is None:
            self._rehearsal = yield from Rehearsal.in_steps(self.cluster, self._profile_of)
        pod, targets = source.candidates[pod_number].pod, space.targets
        if pod.scheduler_name in self._other_schedulers:
            self._leave_choice(space, source, pod_number)
            return True
        feasible = yield from self.rehearsal.feasible_in_steps(pod)
        if feasible is None:
            self._refuse(pod, "scheduler", unknown_rules(pod))
        elif not feasible[targets].any():
            self._refuse(pod, "rehearsal", NO_OTHER_NODE)
        source.possible[pod_number] &= False if feasible is None else feasible[targets]
        yield
        if source.possible[pod_number, column]:
            self._move(space, source, pod_number, targets[[column]], net)
        return True

    def _leave_choice(self, space: SearchSpace, source: SuggestedNode, number: int) -> None:
        """Find out where its scheduler could place the pod, or move it if that is known of the cluster as it is now."""
        choice = source.choices.get(number)
        if choice is not None and choice.after == len(self.moves):
            self._move(space, source, number, choice.rows, choice.net)
            return
        found = self._choice(source, number)
        if isinstance(found, Choice):
            source.choices[number] = found
        else:
            self._refuse(source.candidates[number].pod, *found)
            source.possible[number] = False

    def _choice(self, source: SuggestedNode, number: int) -> Choice | tuple[str, str]:
        """Or guard and reason, if one of the nodes that its scheduler could choose is not worth the move."""
        pod, cost, _ = source.candidates[number]
        rows = self.rehearsal.could_choose(pod)
        if rows is None:
            return "scheduler", unknown_rules(pod)
        if not len(rows):
            return "rehearsal", NO_OTHER_NODE
        net, fits = source.net_gains(number, rows)
        gain = net + cost - source.suggestion.worth
        for wrong, why in (
            (rows == source.row, "where it is now"),
            (~self._open[rows], "to which no pod should be moved"),
            (~self._suggested(source)[rows], f"which {source.suggestion.strategy} does not suggest"),
            (~fits, "which would exceed its limits"),
            (net <= 0, "where it would gain {gain:.1f}, which is not worth its cost of {cost:.1f}"),
        ):
            if wrong.any():
                worst = int(np.where(wrong, net, np.inf).argmin())
                node = self.cluster.node_table.nodes[rows[worst]].name
                reason = f"{pod.scheduler_name} could choose {node}, {why.format(gain=gain[worst], cost=cost)}"
                return "scheduler's choice", reason
        return Choice(rows, float(net.min()), len(self.moves))

    def _suggested(self, source: SuggestedNode) -> Bools:
        """By row: the targets that the strategy allows."""
        view, allowed = self.cluster.view, source.suggestion.targets
        return view.rows_named(allowed) if allowed else np.ones(view.count, dtype=np.bool_)

    def _refuse(self, pod: Pod, guard: str, reason: str) -> None:
        self.refusals[pod.key] = Refusal(pod.key, guard, reason)

    def _move(self, space: SearchSpace, source: SuggestedNode, number: int, rows: Index, net: float) -> None:
        """To the first of these rows, as far as that can be told."""
        (pod, cost, why), suggestion, row = source.candidates[number], source.suggestion, int(rows[0])
        names = tuple(self.cluster.node_table.nodes[each].name for each in rows.tolist())
        self.rehearsal.move(pod, names[0])
        self._moved.append(pod)
        self._paid += float(source.costs[number])
        self._pairs += space.move(source, number, row)
        reason, gain = (suggestion.strategy, suggestion.reason), net + cost - suggestion.worth
        choices = names if pod.scheduler_name in self._other_schedulers else ()
        promised = promise(space.load, source.row, row, gain)
        self.moves.append(Move(pod.uid, pod.key, pod.node, names[0], *reason, gain, cost, why, choices, *promised))


def open_nodes(guards: GuardContext, context: StrategyContext) -> Bools:
    """By row: whether pods may be moved there; its load is known, and no strategy objects."""
    found = possible_targets(guards) & ~context.cluster.view.unschedulable & context.load.known
    for strategy in guards.settings.suggesting:
        if isinstance(strategy, AvoidsTargets):
            found &= ~strategy.avoid(context)
    return found


def unknown_rules(pod: Pod) -> str:
    return f"the rules of its scheduler, {pod.scheduler_name}, are not known"
