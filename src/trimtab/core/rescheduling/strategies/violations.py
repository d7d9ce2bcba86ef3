"""Pods whose own scheduler would not place them where they run, though another node would do.

Each pod is judged as if it had been evicted, and after the ones before it were moved: of two pods that must not be together
one leaves, and of a domain with too many pods as many as are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np

from trimtab.core.framework.interface import ALL_ROWS, Cacheable, Filter, Ints
from trimtab.core.framework.profile import Profile, plugin_name
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.rehearsal import Rehearsal, as_evicted
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion

MAX_REHEARSED = 1000  # pods, in one plan

Violates = Callable[[Pod, int], bool]  # by the code of the filter


def filter_of(profile: Profile | None, name: str) -> Filter | None:
    return next((each for each in profile.filters if plugin_name(each) == name), None) if profile is not None else None


def placed_pods(context: StrategyContext) -> list[Pod]:
    """Running pods that may be moved: those of low priority first, of these the newest."""
    rows = context.cluster.node_table.row
    pods = (pod for node in context.cluster.on_node if node in rows for pod in context.cluster.on_node[node].values())
    movable = (pod for pod in pods if pod.phase == "Running" and not pod.terminating and context.movable(pod))
    return sorted(movable, key=lambda pod: (pod.priority, -pod.created, pod.uid))


@dataclass(frozen=True, slots=True)
class Violations:
    """Of one filter, and only those codes of it that `violates` says."""

    context: StrategyContext
    plugin: str
    violates: Violates
    _codes: dict[Hashable, Ints] = field(default_factory=dict)

    def suggestions(self, strategy: str, reason: str) -> Iterator[Suggestion]:
        by_node: dict[str, list[str]] = {}
        for pod in self._leaving():
            by_node.setdefault(pod.node, []).append(pod.uid)
        for node, uids in by_node.items():
            yield Suggestion(strategy, node, reason, frozenset(uids), self.context.worth_a_move)

    def _leaving(self) -> Iterator[Pod]:
        suspects = [pod for pod in placed_pods(self.context) if self._suspect(pod)]
        rehearsal = Rehearsal(self.context.cluster, self.context.profile_of)
        for pod in suspects[:MAX_REHEARSED]:
            if self._rejected_without_itself(rehearsal, pod) and (target := self._better_node(rehearsal, pod)):
                rehearsal.move(pod, target)
                yield pod

    def _suspect(self, pod: Pod) -> bool:
        """Whether the filter rejects the pod's node for another pod like it: once for all pods of a template."""
        plugin = filter_of(self.context.profile_of(pod.scheduler_name), self.plugin)
        if plugin is None:
            return False
        like_it = _signature(plugin, pod)
        codes = self._codes.get(like_it)
        if codes is None:
            codes = self._codes[like_it] = plugin.filter(self.context.cluster.view, as_evicted(pod), ALL_ROWS)
        return self.violates(pod, int(codes[self.context.cluster.node_table.row[pod.node]]))

    def _rejected_without_itself(self, rehearsal: Rehearsal, pod: Pod) -> bool:
        plugin = filter_of(self.context.profile_of(pod.scheduler_name), self.plugin)
        assert plugin is not None
        row = np.array([self.context.cluster.node_table.row[pod.node]])
        with rehearsal.without(pod) as view:
            return self.violates(pod, int(plugin.filter(view, as_evicted(pod), row)[0]))

    def _better_node(self, rehearsal: Rehearsal, pod: Pod) -> str:
        """The node with the fewest pods of those that pass all filters; empty if none does."""
        feasible, view = rehearsal.feasible(pod), rehearsal.fork.view
        if feasible is None or not feasible.any():
            return ""
        return view.nodes[int(np.where(feasible, view.pod_count, np.iinfo(np.int64).max).argmin())].name


def _signature(plugin: Filter, pod: Pod) -> Hashable:
    if isinstance(plugin, Cacheable):
        return id(plugin), plugin.signature(pod)
    return id(plugin), id(pod.spec), pod.namespace, frozenset(pod.labels.items())
