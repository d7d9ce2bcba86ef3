"""Pods whose own scheduler would not place them where they run, though another node would do.

Each pod is judged as if it had been evicted, and after the ones before it were moved: of two pods that must not be together
one leaves, and of a domain with too many pods as many as are too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, cast

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Cacheable, Filter
from trimtab.core.framework.profile import plugin_name
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.rehearsal import Rehearsal, as_evicted
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion

MAX_LEAVING = 50  # pods, in one plan

Violates = Callable[[Pod, int], bool]  # by the code of the filter


def placed_pods(context: StrategyContext) -> list[Pod]:
    """Running pods that may be moved: those of low priority first, of these the newest."""
    rows = context.cluster.node_table.row
    pods = (pod for node in context.cluster.on_node if node in rows for pod in context.cluster.on_node[node].values())
    movable = (pod for pod in pods if pod.phase == "Running" and not pod.terminating and context.movable(pod))
    return sorted(movable, key=lambda pod: (pod.priority, -pod.created, pod.uid))


class ProfileFilter(NamedTuple):
    """The filter of a profile; `per_node` if its answer for a node does not depend on the pods there."""

    plugin: Filter
    per_node: bool


class Violations:
    """Of one filter, and only those codes of it that `violates` says."""

    def __init__(self, context: StrategyContext, plugin: str, violates: Violates) -> None:
        self._context, self._plugin, self._violates = context, plugin, violates
        self._filters: dict[str, ProfileFilter | None] = {}  # by scheduler name

    def suggestions(self, strategy: str, reason: str) -> Iterator[Suggestion]:
        by_node: dict[str, list[str]] = {}
        for pod in islice(self._leaving(), MAX_LEAVING):
            by_node.setdefault(pod.node, []).append(pod.uid)
        for node, uids in by_node.items():
            yield Suggestion(strategy, node, reason, frozenset(uids), self._context.worth_a_move)

    def _leaving(self) -> Iterator[Pod]:
        pods = placed_pods(self._context)
        violating = self._violating(pods)
        rehearsal = Rehearsal(self._context.cluster.fork(), self._context.profile_of)
        for pod in pods:
            if pod.uid in violating and self._still(rehearsal, pod) and (target := _better_node(rehearsal, pod)):
                rehearsal.move(pod, target)
                yield pod

    # --- each pod by itself

    def _violating(self, pods: Iterable[Pod]) -> set[str]:
        """UIDs of the pods that violate while all others are where they are, template by template."""
        templates: dict[Hashable, list[Pod]] = {}
        for pod in pods:
            if (found := self._filter_of(pod)) is not None:
                templates.setdefault(_signature(found, pod), []).append(pod)
        return {uid for alike in templates.values() for uid in self._of_template(alike)}

    def _of_template(self, pods: Sequence[Pod]) -> Iterator[str]:
        found, view = self._filter_of(pods[0]), self._context.cluster.view
        assert found is not None
        suspects = self._rejected(found.plugin, view, pods)  # of nodes that would not take another one
        if not found.per_node:
            layers = _one_of_each_node(suspects)
            suspects = [pod for layer in layers for pod in self._rejected(found.plugin, self._without(layer), layer)]
        yield from (pod.uid for pod in suspects)

    def _rejected(self, plugin: Filter, view: View, pods: Sequence[Pod]) -> list[Pod]:
        rows = np.array([self._context.cluster.node_table.row[pod.node] for pod in pods], dtype=np.intp)
        codes = plugin.filter(view, as_evicted(pods[0]), rows) if pods else rows
        return [pod for pod, code in zip(pods, codes.tolist(), strict=True) if self._violates(pod, code)]

    def _without(self, pods: Sequence[Pod]) -> View:
        slots = np.array([self._context.cluster.pod_table.slot[pod.uid] for pod in pods], dtype=np.intp)
        return self._context.cluster.view.without_pods(slots, as_evicted(pods[0]))

    def _filter_of(self, pod: Pod) -> ProfileFilter | None:
        scheduler = pod.scheduler_name
        if scheduler not in self._filters:
            profile = self._context.profile_of(scheduler)
            plugins = (each for each in profile.filters if plugin_name(each) == self._plugin) if profile else ()
            plugin = next(iter(plugins), None)
            self._filters[scheduler] = ProfileFilter(plugin, isinstance(plugin, Cacheable)) if plugin else None
        return self._filters[scheduler]

    # --- one after the other

    def _still(self, rehearsal: Rehearsal, pod: Pod) -> bool:
        """Whether the pod violates after the moves so far."""
        found, row = self._filter_of(pod), np.array([self._context.cluster.node_table.row[pod.node]])
        assert found is not None
        with rehearsal.without(pod) as view:
            return self._violates(pod, int(found.plugin.filter(view, as_evicted(pod), row)[0]))


def _better_node(rehearsal: Rehearsal, pod: Pod) -> str:
    """The node with the fewest pods of those that pass all filters; empty if none does."""
    feasible, view = rehearsal.feasible(pod), rehearsal.fork.view
    if feasible is None or not feasible.any():
        return ""
    return view.nodes[int(np.where(feasible, view.pod_count, np.iinfo(np.int64).max).argmin())].name


def _one_of_each_node(pods: Iterable[Pod]) -> list[list[Pod]]:
    """Lists in which no node occurs twice."""
    layers: list[list[Pod]] = []
    seen: Counter[str] = Counter()
    for pod in pods:
        if seen[pod.node] == len(layers):
            layers.append([])
        layers[seen[pod.node]].append(pod)
        seen[pod.node] += 1
    return layers


def _signature(found: ProfileFilter, pod: Pod) -> Hashable:
    """Pods with equal ones get the same answers."""
    if found.per_node:
        return id(found.plugin), cast(Cacheable, found.plugin).signature(pod)
    return id(found.plugin), id(pod.spec), pod.namespace, frozenset(pod.labels.items())
