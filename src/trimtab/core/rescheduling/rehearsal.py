"""Rehearses moves on a fork of the cluster, with the filters, and if need be the scores, that will place the replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from msgspec.structs import replace

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import add_normalised, evaluate, final_rejections, nominated_by_node
from trimtab.core.framework.evaluation import INFEASIBLE, Evaluation
from trimtab.core.framework.interface import Ints, Normalise
from trimtab.core.framework.profile import Profile
from trimtab.core.framework.rejections import PASSES
from trimtab.core.model.ledger import MAX_CHOICES
from trimtab.core.model.plan import Move
from trimtab.core.model.pod import Pod
from trimtab.core.model.steps import Steps, finish
from trimtab.core.rescheduling.scheduler_choice import NodeScores, could_choose
from trimtab.core.tables import Bools, Index


def as_evicted(pod: Pod) -> Pod:
    """The replacement, before it has a node."""
    return replace(pod, node="", nominated_node="")


class Rehearsal:
    """The cluster with the moves so far, on which the filters of a pod's scheduler say where it fits."""

    def __init__(self, fork: Cluster, profile_of: Callable[[str], Profile | None]) -> None:
        self.fork, self._profile_of = fork, profile_of
        self.fork.load_store.drop_pod_histories()

    @classmethod
    def in_steps(cls, cluster: Cluster, profile_of: Callable[[str], Profile | None]) -> Steps[Rehearsal]:
        """On a new fork of the cluster, which must not change in between."""
        rehearsal = cls((yield from cluster.fork_in_steps()), profile_of)
        yield
        yield from rehearsal.fork.load_store.unshare_pods()
        return rehearsal

    def feasible(self, pod: Pod) -> Bools | None:
        """By row: where the pod would pass all filters, had it been evicted; None if nobody knows its scheduler."""
        return finish(self.feasible_in_steps(pod))

    def feasible_in_steps(self, pod: Pod) -> Steps[Bools | None]:
        """The same: the first pod to leave copies what the fork shares, and the first to be filtered fills caches."""
        profile = self._profile_of(pod.scheduler_name)
        if profile is None:
            return None
        with self.without(pod) as view:
            yield
            return self._passes(view, as_evicted(pod), profile)

    @contextmanager
    def without(self, pod: Pod) -> Iterator[View]:
        """The cluster while the pod is evicted."""
        self.fork.delete_pod(pod.uid)
        yield self.fork.view
        self.fork.assume(pod, pod.node)

    def could_choose(self, pod: Pod) -> Index | None:
        """The rows where its scheduler could place the pod, had it been evicted, the highest score first; None if nobody
        knows the scheduler."""
        profile = self._profile_of(pod.scheduler_name)
        if profile is None:
            return None
        with self.without(pod) as view:
            return could_choose(self._scores(view, as_evicted(pod), profile), profile.percentage_of_nodes_to_score)

    def misfit(self, pod: Pod, move: Move) -> str:
        """Why the pod's scheduler would not place it as planned. Another scheduler must choose none but the nodes that the
        plan names: only they were found to be an improvement. A published plan may have kept too few of them to tell."""
        table = self.fork.node_table
        feasible, row = (self.feasible(pod), table.row.get(move.target)) if move.target else (None, None)
        if move.target and (feasible is None or row is None or not feasible[row]):
            return f"its scheduler would not place it on {move.target} any more"
        planned = move.could_choose
        chosen = self.could_choose(pod) if 0 < len(planned) < MAX_CHOICES else None
        names = () if chosen is None else (table.nodes[each].name for each in chosen.tolist())
        other = next((name for name in names if name not in planned), "")
        return f"{pod.scheduler_name} could choose {other} now, for which it was not planned" if other else ""

    def _passes(self, view: View, pending: Pod, profile: Profile) -> Bools:
        passing, _ = self._filter(view, pending, evaluate(view, pending, profile))
        return passing

    def _filter(self, view: View, pending: Pod, evaluation: Evaluation) -> tuple[Bools, Bools]:
        """By row: whether it passes all filters, and whether a PreFilter excludes it."""
        if evaluation.pre_filter_rejection is not None:
            return np.zeros(view.count, dtype=np.bool_), np.ones(view.count, dtype=np.bool_)
        nominated = nominated_by_node(view, pending, self.fork.nominated.values())
        found = final_rejections(view, pending, evaluation, nominated)
        return np.asarray((found.rejected_by == PASSES) & ~found.excluded), found.excluded

    def _scores(self, view: View, pending: Pod, profile: Profile) -> NodeScores:
        evaluation = evaluate(view, pending, profile)
        passing, excluded = self._filter(view, pending, evaluation)
        base_scores = np.where(passing, evaluation.base_scores, INFEASIBLE)
        rows = np.flatnonzero(passing)
        total = add_normalised(view, evaluation, base_scores)[rows]
        relative = tuple(_relative(view, pending, evaluation, rows)) if len(rows) else ()
        return NodeScores(rows, total, base_scores[rows], relative, int((~excluded).sum()))

    def move(self, pod: Pod, target: str) -> None:
        self.fork.delete_pod(pod.uid)
        self.fork.assume(replace(pod, node=target), target)


def _relative(view: View, pending: Pod, evaluation: Evaluation, rows: Index) -> Iterator[Ints]:
    """What rises with each score that is normalised by the nodes of a sample."""
    scores = evaluation.profile.scores
    for index in evaluation.relative:
        raw = evaluation.raw_scores[index][rows]
        yield raw if scores[index].plugin.normalise is Normalise.HIGHER else -raw
    for index in evaluation.custom_scores:
        own = scores[index].plugin.score(view, pending, rows)
        if own is not None:
            yield scores[index].normalised(view, pending, rows, own)
