"""Rehearses moves on a fork of the cluster, with the filters that will place the replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from msgspec.structs import replace

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import evaluate, final_rejections, nominated_by_node
from trimtab.core.framework.profile import Profile
from trimtab.core.framework.rejections import PASSES
from trimtab.core.model.pod import Pod
from trimtab.core.tables import Bools


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

    def _passes(self, view: View, pending: Pod, profile: Profile) -> Bools:
        evaluation = evaluate(view, pending, profile)
        if evaluation.pre_filter_rejection is not None:
            return np.zeros(view.count, dtype=np.bool_)
        nominated = nominated_by_node(view, pending, self.fork.nominated.values())
        found = final_rejections(view, pending, evaluation, nominated)
        return np.asarray((found.rejected_by == PASSES) & ~found.excluded)

    def move(self, pod: Pod, target: str) -> None:
        self.fork.delete_pod(pod.uid)
        self.fork.assume(replace(pod, node=target), target)
