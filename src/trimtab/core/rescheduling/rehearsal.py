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
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.scheduler_choice import NodeScores, could_choose
from trimtab.core.tables import Bools, Index


def as_evicted(pod: Pod) -> Pod:
    """The replacement, before it has a node."""
    return replace(pod, node="", nominated_node="")


class Rehearsal:
    """The cluster with the moves so far, on which the filters of a pod's scheduler say where it fits."""

    def __init__(self, cluster: Cluster, profile_of: Callable[[str], Profile | None]) -> None:
        self._cluster, self._profile_of = cluster, profile_of
        self._fork: Cluster | None = None

    @property
    def fork(self) -> Cluster:
        if self._fork is None:
            self._fork = self._cluster.fork()
            self._fork.load_store.keep_snapshots(False)  # no filter reads them, and each change would copy them all
        return self._fork

    def feasible(self, pod: Pod) -> Bools | None:
        """By row: where the pod would pass all filters, had it been evicted; None if nobody knows its scheduler."""
        profile = self._profile_of(pod.scheduler_name)
        if profile is None:
            return None
        with self.without(pod) as view:
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
