"""Queueing hints: whether a change may make an unschedulable pod schedulable; any doubt says yes.

A node can become feasible only if the plugin that rejected it first would no longer do so. If that is a filter that answers
node by node (it declares `depends_on`), the node itself must have changed, and every such filter must pass it now: they are
called for the changed rows alone. If it is a plugin whose rows depend on each other, that plugin's `requeue_on` or
`queueing_hint` decides. Where such plugins had rejected all nodes, only a new one can become feasible without them; as in
kube-scheduler, filters behind them are not asked, though preemption might find victims once they pass. A gang is another
matter: a change may let one of its pods go elsewhere, and so make room for the one that was rejected.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.node_table import EVERY_ROW, NodeTable
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import ALL_ROWS, Bools, Filter, Plugin, QueueingHint, Rows
from trimtab.core.framework.profile import Profile, plugin_name
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Unschedulable
from trimtab.core.scheduling.queue.unschedulable import Equivalence

ALWAYS = Change.OWN_POD_UPDATED | Change.NOMINATED  # no plugin knows what these mean for a pod


class ChangedRows:
    """What changed since the node table's log was last read; `entries` None stands for everything."""

    def __init__(self, entries: list[tuple[int, int]] | None) -> None:
        self.entries = entries
        self._rows: dict[int, Rows] = {}

    def rows(self, change: int) -> Rows:
        """The rows that one of these changes concerns."""
        rows = self._rows.get(change)
        if rows is None:
            rows = self._rows[change] = self._find(change)
        return rows

    def include(self, row: int) -> bool:
        """Whether something changed in this row."""
        return self.entries is None or any(entry in (row, EVERY_ROW) for _, entry in self.entries)

    def _find(self, change: int) -> Rows:
        if self.entries is None:
            return ALL_ROWS
        found = {row for entry, row in self.entries if entry & change}
        if len(found) == 1 and EVERY_ROW not in found:
            (row,) = found
            return slice(row, row + 1)  # a good deal cheaper than an array of one
        return ALL_ROWS if EVERY_ROW in found else np.array([*found], dtype=np.intp)


class LogReader:
    """How far the node table's log was read."""

    def __init__(self) -> None:
        self.epoch, self.position = -1, 0

    def read(self, table: NodeTable) -> ChangedRows:
        entries = table.log[self.position :] if self.epoch == table.log_epoch else None
        self.epoch, self.position = table.log_epoch, len(table.log)
        return ChangedRows(entries)

    def copy(self) -> LogReader:
        copied = LogReader()
        copied.epoch, copied.position = self.epoch, self.position
        return copied


def requeue_on(profile: Profile, verdict: Unschedulable, in_gang: bool = False) -> Change:
    """The changes that may help a pod after this verdict, or its gang."""
    change = ALWAYS | (Change.NOTHING if verdict.nodes else Change.NODE_ADDED)
    for plugin in _named(profile, verdict.plugins):
        change |= plugin.requeue_on
    if not verdict.note:  # any of them may be the last one to reject a changed node
        change |= Change(_hints_of(profile, verdict.plugins, in_gang).per_node)
    return change


def equivalence_of(pod: Pod, profile: Profile, verdict: Unschedulable, nominated: bool) -> Equivalence:
    """Which pods get the same answers; one with a nomination, or with volumes that may depend on its name, is unique."""
    pods: Hashable = pod.uid
    if not nominated and not pod.spec.volumes and not (pod.spec_error or pod.spec.error):
        labels = frozenset(pod.labels.items())
        pods = (profile, pod.namespace, labels, pod.spec, pod.requests, pod.priority, pod.may_preempt)
    signatures = None if verdict.note else tuple(each.signature(pod) for each in per_node_filters(profile))  # type: ignore[attr-defined]
    own_hint = _hints_of(profile, verdict.plugins, False).hinting
    return Equivalence(pods, (profile, signatures, pods if own_hint else None))


def may_help(
    view: View,
    pod: Pod,
    profile: Profile,
    plugins: tuple[str, ...],
    change: Change,
    changed: ChangedRows,
    in_gang: bool = False,
) -> bool:
    """Whether the change may revert the rejection by these plugins; `pod` stands for all with equal `Equivalence.hints`."""
    bits = int(change)
    if bits & int(ALWAYS):
        return True
    hints = _hints_of(profile, plugins, in_gang)
    if bits & hints.coupled:
        return True
    for plugin in hints.hinting:
        own = plugin.requeue_on & change  # type: ignore[attr-defined]
        if own and plugin.queueing_hint(view, pod, own, changed.rows(int(own))):
            return True
    if not bits & hints.per_node:
        return False
    return _passes(view, pod, hints.per_node_filters, changed.rows(bits & hints.per_node))


def passes_row(view: View, pod: Pod, profile: Profile, row: int) -> bool:
    """Whether the row passes all filters that answer row by row."""
    return _passes(view, pod, per_node_filters(profile), slice(row, row + 1))


def _passes(view: View, pod: Pod, filters: Iterable[Filter], rows: Rows) -> bool:
    """Whether some row passes all filters that answer row by row."""
    passing: Bools | None = None
    for each in filters:
        passed = each.filter(view, pod, rows) == 0
        passing = passed if passing is None else passing & passed
        if not passing.any():
            return False
    return passing is not None or bool(len(view.pod_count[rows]))


class _Hints(NamedTuple):
    """Whom to ask about pods that these plugins rejected, and the changes that concern each group of plugins."""

    coupled: int  # of plugins whose rows depend on each other, and that have no hint of their own
    hinting: tuple[QueueingHint, ...]
    per_node: (
        int  # of filters that answer node by node; of these changes new nodes alone if none of them had rejected any
    )
    per_node_filters: tuple[Filter, ...]  # those that rejected the pod before go first


@lru_cache(maxsize=1024)  # computed at every event, and always the same
def _hints_of(profile: Profile, plugins: tuple[str, ...], in_gang: bool) -> _Hints:
    named = _named(profile, plugins)
    hinting = tuple(each for each in named if isinstance(each, QueueingHint))
    filters = sorted(per_node_filters(profile), key=lambda each: plugin_name(each) not in plugins)
    names = {plugin_name(each) for each in (*filters, *hinting)}
    per_node = _union(filters)
    if named and not in_gang and not any(plugin_name(each) in plugins for each in filters):
        per_node &= int(Change.NODE_ADDED)
    return _Hints(_union(each for each in named if each.name not in names), hinting, per_node, tuple(filters))


def _union(plugins: Iterable[object]) -> int:
    return reduce(or_, (int(each.requeue_on) for each in plugins), 0)  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def per_node_filters(profile: Profile) -> tuple[Filter, ...]:
    """Filters that answer for each node by itself."""
    return tuple(each for each in profile.filters if plugin_name(each) in profile.depends_on)


@lru_cache(maxsize=64)
def _by_name(profile: Profile) -> Mapping[str, Plugin]:
    gangs = () if profile.gang_plugin is None else (profile.gang_plugin,)
    return {plugin_name(each): each for each in (*profile.pre_filters, *profile.filters, *gangs)}


def _named(profile: Profile, names: Iterable[str]) -> list[Plugin]:
    found = _by_name(profile)
    return [found[name] for name in names if name in found]
