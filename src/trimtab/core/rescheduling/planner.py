"""Plans moves: of all pods on the nodes that strategies suggest, and all targets, the pair that gains most, again and again.

    suggested nodes ─▶ guards ─▶ gain of each (pod, target) ─▶ best pair ─▶ rehearsal ─▶ move on the fork ─▶ next pair
                          │                                        │             │
                          └──────────── refusals ◀─────────────────┴─────────────┘

A pair must gain more than the pod's disruption costs, and must not bring the target above a limit. Each move counts for the next one: on the fork of the cluster, on which
moves are rehearsed with the filters that will place the replacement, and in the load of both nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.choose import evaluate, final_rejections, nominated_by_node
from trimtab.core.framework.profile import Profile
from trimtab.core.framework.rejections import PASSES
from trimtab.core.model.plan import Move, Plan, Refusal
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.objective import NodeLoad, PodLoad
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import Strategy, StrategyContext, Suggestion
from trimtab.core.tables import Bools, Floats, Index

MAX_TARGETS = 64
NEVER = -np.inf


class Candidate(NamedTuple):
    """A pod that may be moved, and what that costs."""

    pod: Pod
    cost: float


class Source:
    """A suggested node: the gain of each of its movable pods on each target, less its cost."""

    def __init__(self, suggestion: Suggestion, row: int, candidates: Sequence[Candidate], pods: PodLoad) -> None:
        self.suggestion, self.row, self.candidates, self.pods = suggestion, row, candidates, pods
        self.costs = np.array([each.cost - suggestion.worth for each in candidates])
        self.possible: Bools = np.zeros((len(candidates), 0), dtype=np.bool_)
        self._relief: Floats = np.zeros(len(candidates))
        self._losses: Floats = np.zeros((len(candidates), 0))
        self._fits: Bools = self.possible

    def compute(self, load: NodeLoad, targets: Index) -> None:
        self._relief = load.gains_without(self.row, self.pods)
        self._losses = load.losses_with(targets, self.pods)
        self._fits = load.fits(targets, self.pods)

    def update(self, load: NodeLoad, targets: Index, changed: Index) -> None:
        """Pods have left or come: these rows have another load."""
        if self.row in changed:
            self._relief = load.gains_without(self.row, self.pods)
        columns = np.flatnonzero(np.isin(targets, changed))
        if len(columns):
            self._losses[:, columns] = load.losses_with(targets[columns], self.pods)
            self._fits[:, columns] = load.fits(targets[columns], self.pods)

    def best(self) -> tuple[float, int, int]:
        """Net gain, pod and column of the best possible pair."""
        if not self.possible.size:
            return NEVER, 0, 0
        gains = self._relief[:, None] - self._losses
        net = np.where(self.possible & self._fits, gains - self.costs[:, None], NEVER)
        pod, column = divmod(int(net.argmax()), net.shape[1])
        return float(net[pod, column]), pod, column


class Rehearsal:
    """The cluster with the moves so far, on which the filters of a pod's scheduler say where it fits."""

    def __init__(self, cluster: Cluster, profile_of: Callable[[str], Profile | None]) -> None:
        self._cluster, self._profile_of = cluster, profile_of
        self.fork: Cluster | None = None

    def feasible(self, pod: Pod) -> Bools | None:
        """By row: where the pod would pass all filters, had it been evicted; None if nobody knows its scheduler."""
        profile = self._profile_of(pod.scheduler_name)
        if profile is None:
            return None
        self.fork = fork = self.fork if self.fork is not None else self._cluster.fork()
        fork.delete_pod(pod.uid)
        pending = replace(pod, node="", nominated_node="")
        evaluation = evaluate(fork.view, pending, profile)
        passes = np.zeros(fork.view.count, dtype=np.bool_)
        if evaluation.pre_filter_rejection is None:
            nominated = nominated_by_node(fork.view, pending, fork.nominated.values())
            found = final_rejections(fork.view, pending, evaluation, nominated)
            passes = (found.rejected_by == PASSES) & ~found.excluded
        fork.assume(pod, pod.node)
        return passes

    def move(self, pod: Pod, target: str) -> None:
        assert self.fork is not None
        self.fork.delete_pod(pod.uid)
        self.fork.assume(replace(pod, node=target), target)


class Planner:
    """One plan. `steps` is advanced until it ends; then `plan` has the result."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ReschedulingSettings,
        profile_of: Callable[[str], Profile | None],
        strategies: Sequence[Strategy],
        judge: Callable[[Pod], Candidate | Refusal],
        now: float,
    ) -> None:
        self.cluster, self.settings, self.now = cluster, settings, now
        self.strategies, self._judge = strategies, judge
        self.rehearsal = Rehearsal(cluster, profile_of)
        self.moves: list[Move] = []
        self.refusals: list[Refusal] = []
        self.plan: Plan | None = None

    def steps(self) -> Iterator[None]:
        load = NodeLoad(self.cluster, self.settings.limits)
        before = float(load.penalty.sum())
        suggestions = self._suggestions(StrategyContext(self.cluster, load, self.now))
        yield
        sources = [source for each in suggestions if (source := self._source(each, load)) is not None]
        yield
        targets = self._targets(load, sources)
        for source in sources:
            source.compute(load, targets)
            source.possible = self._fits(source, targets)
            yield
        while len(self.moves) < self.settings.max_moves and self._next(load, sources, targets):
            yield
        self.plan = Plan(self.now, tuple(self.moves), tuple(self.refusals), before, float(load.penalty.sum()))

    def _suggestions(self, context: StrategyContext) -> list[Suggestion]:
        return [suggestion for strategy in self.strategies for suggestion in strategy.suggest(context)]

    def _source(self, suggestion: Suggestion, load: NodeLoad) -> Source | None:
        row = self.cluster.node_table.row.get(suggestion.node)
        candidates = []
        for pod in self.cluster.on_node.get(suggestion.node, {}).values():
            if suggestion.pods and pod.uid not in suggestion.pods:
                continue
            judged = self._judge(pod)
            if isinstance(judged, Refusal):
                self.refusals.append(judged)
            else:
                candidates.append(judged)
        if row is None or not candidates:
            return None
        slots = np.array([self.cluster.pod_table.slot[each.pod.uid] for each in candidates], dtype=np.intp)
        return Source(suggestion, row, candidates, load.pods(slots))

    def _targets(self, load: NodeLoad, sources: Sequence[Source]) -> Index:
        """The nodes with the lowest penalty whose load is known."""
        view = self.cluster.view
        known = ~view.unschedulable
        for name in load.resources:
            known &= (view.load.trust(name) > 0) & ~view.load.node_metrics_only(name)
        rows = np.flatnonzero(known)
        return rows[np.argsort(load.penalty[rows], kind="stable")][:MAX_TARGETS]

    def _fits(self, source: Source, targets: Index) -> Bools:
        """Whether requests leave room, as a first sieve; and a node is no target for its own pods."""
        view = self.cluster.view
        fits = np.ones((len(source.candidates), len(targets)), dtype=np.bool_)
        for name in source_resources(source):
            wanted = np.array([each.pod.requests.of(name) for each in source.candidates])
            fits &= wanted[:, None] <= (view.allocatable(name) - view.requested(name))[targets]
        fits[:, targets == source.row] = False
        return fits

    def _next(self, load: NodeLoad, sources: list[Source], targets: Index) -> bool:
        """Make the best move, or find out that it is not possible; False if no pair is worth its cost."""
        if not sources:
            return False
        found = [source.best() for source in sources]
        number = max(range(len(found)), key=lambda each: found[each][0])
        (net, pod_number, column), source = found[number], sources[number]
        if net <= 0:
            return False
        candidate, row = source.candidates[pod_number], int(targets[column])
        feasible = self.rehearsal.feasible(candidate.pod)
        source.possible[pod_number] &= False if feasible is None else feasible[targets]
        if not source.possible[pod_number, column]:
            return True
        self._move(load, sources, targets, source, pod_number, row, net)
        return True

    def _move(
        self,
        load: NodeLoad,
        sources: Sequence[Source],
        targets: Index,
        source: Source,
        number: int,
        row: int,
        net: float,
    ) -> None:
        pod, cost, suggestion = *source.candidates[number], source.suggestion
        target = self.cluster.node_table.nodes[row].name
        self.rehearsal.move(pod, target)
        self.moves.append(
            Move(pod.uid, pod.key, pod.node, target, suggestion.strategy, suggestion.reason, net + cost, cost)
        )
        load.move(PodLoad(source.pods.slots[[number]], source.pods.usage[:, [number]]), source.row, row)
        changed = np.array([source.row, row])
        for each in sources:
            each.update(load, targets, changed)
            for other, candidate in enumerate(each.candidates):
                if candidate.pod.uid == pod.uid or (pod.owner is not None and candidate.pod.owner == pod.owner):
                    each.possible[other] = False


def source_resources(source: Source) -> list[str]:
    return list(dict.fromkeys(name for each in source.candidates for name, _ in each.pod.requests.amounts))
