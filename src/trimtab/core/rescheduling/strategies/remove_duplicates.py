"""RemoveDuplicates: replicas leave nodes that have more of them than an even spread would give each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np

from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.framework.profile import plugin_name
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import setting
from trimtab.core.rescheduling.rehearsal import as_evicted
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.violations import placed_pods

ALLOWED_NODES = ("NodeUnschedulable", "TaintToleration", "NodeAffinity")  # filters that tell where replicas may run


@dataclass(frozen=True, slots=True)
class RemoveDuplicates:
    """Replicas are pods of one owner with the same images. With more replicas than nodes some share a node for good."""

    name: ClassVar[str] = "RemoveDuplicates"

    exclude_owner_kinds: tuple[str, ...] = setting((), "none unless set: pods of these kinds of owner stay together")

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        replicas: dict[object, list[Pod]] = {}
        for pod in placed_pods(context):
            if pod.owner is not None and pod.owner.kind not in self.exclude_owner_kinds:
                replicas.setdefault((pod.namespace, pod.owner, pod.spec.images), []).append(pod)
        for pods in replicas.values():
            yield from self._of_owner(context, pods)

    def _of_owner(self, context: StrategyContext, pods: Sequence[Pod]) -> Iterator[Suggestion]:
        counts = Counter(pod.node for pod in pods)
        if max(counts.values()) < 2:
            return
        allowed = _allowed_nodes(context, pods[0])
        share = ceil(len(pods) / len(allowed)) if len(allowed) > 1 else len(pods)
        crowded = [(node, count) for node, count in counts.items() if count > share]
        targets = frozenset(name for name in allowed if counts.get(name, 0) < share) if crowded else frozenset()
        for node, count in crowded:
            if targets:
                leaving = [pod.uid for pod in pods if pod.node == node][: count - share]
                reason = f"{count} replicas of {pods[0].owner.name if pods[0].owner else ''}, {share} would be even"
                yield Suggestion(self.name, node, reason, frozenset(leaving), context.worth_a_move, targets)


def _allowed_nodes(context: StrategyContext, pod: Pod) -> list[str]:
    profile, view = context.profile_of(pod.scheduler_name), context.cluster.view
    if profile is None:
        return []
    allowed = np.ones(view.count, dtype=np.bool_)
    for each in profile.filters:
        if plugin_name(each) in ALLOWED_NODES:
            allowed &= each.filter(view, as_evicted(pod), ALL_ROWS) == 0
    nodes = view.nodes
    return [nodes[row].name for row in np.flatnonzero(allowed).tolist()]
