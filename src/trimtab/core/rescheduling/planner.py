"""Plans moves: of all pods on the nodes that strategies suggest, and all targets, the pair that gains most, again and again.

    suggested nodes ─▶ guards ─▶ gain of each (pod, target) ─▶ best pair ─▶ rehearsal ─▶ move on the fork ─▶ next pair
                          │                                        │             │
                          └──────────── refusals ◀─────────────────┴─────────────┘

A pair must gain more than the pod's disruption costs, and must not bring the target above a limit. Each move counts for
the next one: in the load of both nodes, and on the fork of the cluster on which moves are rehearsed. So do the moves of
earlier plans whose replacements do not have a node yet.

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
from trimtab.core.rescheduling.disruption import disruption_cost
from trimtab.core.rescheduling.grading import promise
from trimtab.core.rescheduling.guards import GuardContext, refusal
from trimtab.core.rescheduling.guards.nodes import possible_targets
from trimtab.core.rescheduling.objective import NodeLoad, PodLoad
from trimtab.core.rescheduling.rehearsal import Rehearsal
from trimtab.core.rescheduling.reservations import with_replacements
from trimtab.core.rescheduling.strategies.interface import AvoidsTargets, StrategyContext, Suggestion, replaceable
from trimtab.core.rescheduling.strategy_record import STRATEGY_RECORD
from trimtab.core.tables import Bools, Floats, Index

MAX_TARGETS = 64
NEVER = -np.inf
NO_OTHER_NODE = "its scheduler would find no other node for it"


class Choice(NamedTuple):
    """Another scheduler's: the rows that it could choose, the least that one of them gains net, and how many moves had been
    made when it was rehearsed."""

    rows: Index
    net: float
    after: int


class Candidate(NamedTuple):
    """A pod that may be moved, and what that costs, with the reasons if it is not what an ordinary pod costs."""

    pod: Pod
    cost: float
    why: str = ""


class Source:
    """A suggested node: the gain of each of its movable pods on each target, less its cost."""

    def __init__(self, suggestion: Suggestion, row: int, candidates: Sequence[Candidate], pods: PodLoad) -> None:
        self.suggestion, self.row, self.candidates, self.pods = suggestion, row, candidates, pods
        self.costs = np.array([each.cost - suggestion.worth for each in candidates])
        self.choices: dict[int, Choice] = {}  # by number of the candidate
        self.possible: Bools = np.zeros((len(candidates), 0), dtype=np.bool_)
        self._relief: Floats = np.zeros(len(candidates))
        self._losses: Floats = np.zeros((len(candidates), 0))
        self._fits: Bools = self.possible

    def compute(self, load: NodeLoad, targets: Index) -> None:
        self._relief = load.gains_without(self.row, self.pods)
        self._losses = load.losses_with(targets, self.pods)
        self._fits = load.fits(targets, self.pods)

    def update(self, load: NodeLoad, targets: Index, changed: frozenset[int], columns: Index) -> None:
        """Pods have left or come: these rows have another load; `columns` are those of the targets among them."""
        if self.row in changed:
            self._relief = load.gains_without(self.row, self.pods)
        if len(columns):
            self._losses[:, columns] = load.losses_with(targets[columns], self.pods)
            self._fits[:, columns] = load.fits(targets[columns], self.pods)

    def leave_alone(self, moved: Pod) -> None:
        """The pod has left, and of one owner only one pod moves at a time."""
        for number, (pod, *_) in enumerate(self.candidates):
            if pod.uid == moved.uid or (pod.owner is not None and pod.owner == moved.owner):
                self.possible[number] = False

    def net_gains(self, load: NodeLoad, number: int, rows: Index) -> tuple[Floats, Bools]:
        """Of one candidate on these rows, and whether it fits there."""
        pod = self.pod_load(number)
        gains = self._relief[number] - load.losses_with(rows, pod)[0] - self.costs[number]
        return gains, load.fits(rows, pod)[0]

    def pod_load(self, number: int) -> PodLoad:
        return PodLoad(self.pods.slots[[number]], self.pods.usage[:, [number]])

    def best(self) -> tuple[float, int, int]:
        """Net gain, pod and column of the best possible pair."""
        if not self.possible.size:
            return NEVER, 0, 0
        gains = self._relief[:, None] - self._losses
        net = np.where(self.possible & self._fits, gains - self.costs[:, None], NEVER)
        for number, choice in self.choices.items():
            net[number] = np.minimum(net[number], choice.net)
        pod, column = divmod(int(net.argmax()), net.shape[1])
        return float(net[pod, column]), pod, column


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
        self.cluster = with_replacements(guards.cluster, guards.under_way)
        self.rehearsal = Rehearsal(self.cluster, profile_of)
        self.moves: list[Move] = []
        self.refusals: dict[str, Refusal] = {}  # by subject
        self.plan: Plan | None = None
        self.hot: dict[str, str] = {}
        self._open: Bools = np.zeros(0, dtype=np.bool_)  # by row: whether pods may be moved there

    def steps(self) -> Iterator[None]:
        load = NodeLoad(self.cluster, self.settings.limits, self.settings.forecaster)
        context = StrategyContext(
            self.cluster, load, self.now, self._profile_of, replaceable, self.settings.required_gain
        )
        sources: list[Source] = []
        for strategy in self.settings.suggesting:
            for suggestion in strategy.suggest(context):
                yield from self._prepare(load) if not sources else (None,)
                if suggestion.is_hot and not suggestion.worth:
                    self.hot.setdefault(suggestion.node, suggestion.reason)
                source = self._source(suggestion, load)
                sources += [source] if source is not None else []
            yield
        if not sources:
            self.plan = Plan(self.now, refusals=tuple(self.refusals.values()), hot=self.hot)
            return
        before = float(load.penalty.sum())
        yield
        targets = self._targets(load, context)
        yield
        for source in sources:
            source.compute(load, targets)
            source.possible = self._possible(source, targets)
            yield
        _ = self.rehearsal.fork
        yield
        while len(self.moves) < self.settings.max_moves and self._next(load, sources, targets):
            yield
        refusals = tuple(self.refusals.values())
        self.plan = Plan(self.now, tuple(self.moves), refusals, before, float(load.penalty.sum()), self.hot)

    def _prepare(self, load: NodeLoad) -> Iterator[None]:
        """What the first source would compute for all of them, so that no step is long."""
        yield
        _ = self.guards.pods_by_namespace
        yield
        load.pods(np.zeros(0, dtype=np.intp))
        yield
        _ = load.usage
        yield

    def _source(self, suggestion: Suggestion, load: NodeLoad) -> Source | None:
        row, standing = self.cluster.node_table.row.get(suggestion.node), self.guards.standing(suggestion)
        if standing.paused:
            self.refusals[suggestion.node] = Refusal(suggestion.node, STRATEGY_RECORD, standing.paused)
            return None
        here = self.guards.cluster.on_node.get(suggestion.node, {})
        suggested = (pod for uid, pod in here.items() if not suggestion.pods or uid in suggestion.pods)
        candidates = []
        for pod in (each for each in suggested if each.uid not in self.guards.under_way):
            refused = refusal(self.guards, pod)
            if refused is None:
                workload = self.guards.workload(pod).pods if pod.owner is not None else ()
                required = self.settings.required_gain * standing.margin
                candidates.append(
                    Candidate(pod, *disruption_cost(pod, required, workload, self.guards.recent_moves(pod.uid)))
                )
            else:
                self.refusals[pod.key] = refused
        if row is None or not candidates:
            return None
        slots = np.array([self.cluster.pod_table.slot[each.pod.uid] for each in candidates], dtype=np.intp)
        return Source(suggestion, row, candidates, load.pods(slots))

    def _targets(self, load: NodeLoad, context: StrategyContext) -> Index:
        """The open nodes with the lowest penalty."""
        self._open = open_nodes(self.guards, context)
        rows = np.flatnonzero(self._open)
        return rows[np.argsort(load.penalty[rows], kind="stable")][:MAX_TARGETS]

    def _possible(self, source: Source, targets: Index) -> Bools:
        """The targets that the strategy allows and whose requests leave room, as a first sieve; not the node itself."""
        view = self.cluster.view
        possible = np.ones((len(source.candidates), len(targets)), dtype=np.bool_)
        for name in dict.fromkeys(name for each in source.candidates for name, _ in each.pod.requests.amounts):
            wanted = np.array([each.pod.requests.of(name) for each in source.candidates])
            possible &= wanted[:, None] <= (view.allocatable(name) - view.requested(name))[targets]
        possible[:, targets == source.row] = False
        return possible & self._suggested(source)[targets]

    def _next(self, load: NodeLoad, sources: list[Source], targets: Index) -> bool:
        """Make the best move, or find out that it is not possible; False if no pair is worth its cost."""
        found = [source.best() for source in sources]
        number = max(range(len(found)), key=lambda each: found[each][0])
        (net, pod_number, column), source = found[number], sources[number]
        if net <= 0:
            return False
        pod = source.candidates[pod_number].pod
        if pod.scheduler_name in self._other_schedulers:
            self._leave_choice(load, sources, targets, source, pod_number)
            return True
        feasible = self.rehearsal.feasible(pod)
        if feasible is None:
            self._refuse(pod, "scheduler", unknown_rules(pod))
        elif not feasible[targets].any():
            self._refuse(pod, "rehearsal", NO_OTHER_NODE)
        source.possible[pod_number] &= False if feasible is None else feasible[targets]
        if source.possible[pod_number, column]:
            self._move(load, sources, targets, source, pod_number, targets[[column]], net)
        return True

    def _leave_choice(
        self, load: NodeLoad, sources: Sequence[Source], targets: Index, source: Source, number: int
    ) -> None:
        """Find out where its scheduler could place the pod, or move it if that is known of the cluster as it is now."""
        choice = source.choices.get(number)
        if choice is not None and choice.after == len(self.moves):
            self._move(load, sources, targets, source, number, choice.rows, choice.net)
            return
        found = self._choice(load, source, number)
        if isinstance(found, Choice):
            source.choices[number] = found
        else:
            self._refuse(source.candidates[number].pod, *found)
            source.possible[number] = False

    def _choice(self, load: NodeLoad, source: Source, number: int) -> Choice | tuple[str, str]:
        """Or guard and reason, if one of the nodes that its scheduler could choose is not worth the move."""
        pod, cost, _ = source.candidates[number]
        rows = self.rehearsal.could_choose(pod)
        if rows is None:
            return "scheduler", unknown_rules(pod)
        if not len(rows):
            return "rehearsal", NO_OTHER_NODE
        net, fits = source.net_gains(load, number, rows)
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

    def _suggested(self, source: Source) -> Bools:
        """By row: the targets that the strategy allows."""
        view, allowed = self.cluster.view, source.suggestion.targets
        return view.rows_named(allowed) if allowed else np.ones(view.count, dtype=np.bool_)

    def _refuse(self, pod: Pod, guard: str, reason: str) -> None:
        self.refusals[pod.key] = Refusal(pod.key, guard, reason)

    def _move(
        self,
        load: NodeLoad,
        sources: Sequence[Source],
        targets: Index,
        source: Source,
        number: int,
        rows: Index,
        net: float,
    ) -> None:
        """To the first of these rows, as far as that can be told."""
        (pod, cost, why), suggestion, row = source.candidates[number], source.suggestion, int(rows[0])
        names = tuple(self.cluster.node_table.nodes[each].name for each in rows.tolist())
        self.rehearsal.move(pod, names[0])
        reason, gain = (suggestion.strategy, suggestion.reason), net + cost - suggestion.worth
        several = names if len(names) > 1 else ()
        load.move(source.pod_load(number), source.row, row)
        promised = promise(load, source.row, row, gain)
        self.moves.append(Move(pod.uid, pod.key, pod.node, names[0], *reason, gain, cost, why, several, *promised))
        changed = frozenset((source.row, row))
        columns = np.flatnonzero((targets == source.row) | (targets == row))
        for each in sources:
            each.update(load, targets, changed, columns)
            each.leave_alone(pod)


def open_nodes(guards: GuardContext, context: StrategyContext) -> Bools:
    """By row: whether pods may be moved there; its load is known, and no strategy objects."""
    found = possible_targets(guards) & ~context.cluster.view.unschedulable & context.load.known
    for strategy in guards.settings.suggesting:
        if isinstance(strategy, AvoidsTargets):
            found &= ~strategy.avoid(context)
    return found


def unknown_rules(pod: Pod) -> str:
    return f"the rules of its scheduler, {pod.scheduler_name}, are not known"
