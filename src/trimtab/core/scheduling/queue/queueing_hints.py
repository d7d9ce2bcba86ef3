"""Whether a change could help a parked pod; any doubt says yes. Who is parked, and who of equals goes first, is the queue's.

A pod that fits nowhere can come to fit on a node in two ways. Either the node itself was touched, and then every plugin
that judges node by node (it declares `reads`) must pass it now: they are asked about the touched rows alone. Or a plugin
whose rows depend on each other had refused it, and then that plugin's `requeue_on` or `queueing_hint` decides.
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
    """What changed between two looks at the columns' log; `entries` None stands for everything."""

    def __init__(self, entries: list[tuple[int, int]] | None) -> None:
        self.entries = entries
        self._rows: dict[int, Rows] = {}

    def rows(self, change: int) -> Rows:
        """The rows that one of these changes touched."""
        rows = self._rows.get(change)
        if rows is None:
            rows = self._rows[change] = self._find(change)
        return rows

    def _find(self, change: int) -> Rows:
        if self.entries is None:
            return ALL_ROWS
        found = {row for entry, row in self.entries if entry & change}
        if len(found) == 1 and EVERY_ROW not in found:
            (row,) = found
            return slice(row, row + 1)  # a good deal cheaper than an array of one
        return ALL_ROWS if EVERY_ROW in found else np.array([*found], dtype=np.intp)


class LogReader:
    """How far the columns' log was read."""

    def __init__(self) -> None:
        self.epoch, self.position = -1, 0

    def read(self, columns: NodeTable) -> ChangedRows:
        entries = columns.log[self.position :] if self.epoch == columns.epoch else None
        self.epoch, self.position = columns.epoch, len(columns.log)
        return ChangedRows(entries)

    def copy(self) -> LogReader:
        twin = LogReader()
        twin.epoch, twin.position = self.epoch, self.position
        return twin


def requeue_on(profile: Profile, verdict: Unschedulable) -> Change:
    """All that might help a pod after this verdict."""
    change = ALWAYS | (Change.NOTHING if verdict.nodes else Change.NODE_ADDED)
    for plugin in _named(profile, verdict.plugins):
        change |= plugin.requeue_on
    if not verdict.note:  # another one than was named may be the last to refuse a node that is touched
        for each in per_node_filters(profile):
            change |= each.requeue_on  # type: ignore[attr-defined]
    return change


def equivalence_of(pod: Pod, profile: Profile, verdict: Unschedulable, nominated: bool) -> Equivalence:
    """Who gets the same answers; a pod that was promised a node, or whose name its volumes may depend on, is one alone."""
    alike: Hashable = pod.uid
    if not nominated and not pod.spec.volumes and not pod.spec_error:
        labels = frozenset(pod.labels.items())
        alike = (profile, pod.namespace, labels, pod.spec, pod.requests, pod.priority, pod.may_preempt)
    signs = None if verdict.note else tuple(each.signature(pod) for each in per_node_filters(profile))  # type: ignore[attr-defined]
    own_hint = _hints_of(profile, verdict.plugins).hinting
    return Equivalence(alike, (profile, signs, alike if own_hint else None))


def may_help(
    view: View, pod: Pod, profile: Profile, plugins: tuple[str, ...], change: Change, touched: ChangedRows
) -> bool:
    """Whether the change could turn the refusal of these plugins round; `pod` stands for all of one `Kind.judged`."""
    bits = int(change)
    if bits & int(ALWAYS):
        return True
    asked = _hints_of(profile, plugins)
    if bits & asked.coupled:
        return True
    for plugin in asked.hinting:
        own = plugin.requeue_on & change  # type: ignore[attr-defined]
        if own and plugin.queueing_hint(view, pod, own, touched.rows(int(own))):
            return True
    return _passes(view, pod, asked.per_node_filters, touched.rows(bits & asked.per_node))


def _passes(view: View, pod: Pod, judges: Iterable[Filter], rows: Rows) -> bool:
    """Whether some row passes all that judge row by row."""
    passing: Bools | None = None
    for each in judges:
        passed = each.filter(view, pod, rows) == 0
        passing = passed if passing is None else passing & passed
        if not passing.any():
            return False
    return passing is not None or bool(len(view.pod_count[rows]))


class _Hints(NamedTuple):
    """Who is asked about pods that these plugins refused, and what each part of them is woken by."""

    coupled: int  # of plugins whose rows depend on each other, and that have no hint of their own
    hinting: tuple[QueueingHint, ...]
    per_node: int
    per_node_filters: tuple[Filter, ...]  # those that refused before go first


@lru_cache(maxsize=1024)  # asked for at every event, and always the same
def _hints_of(profile: Profile, plugins: tuple[str, ...]) -> _Hints:
    named = _named(profile, plugins)
    hinting = tuple(each for each in named if isinstance(each, QueueingHint))
    judges = sorted(per_node_filters(profile), key=lambda each: plugin_name(each) not in plugins)
    names = {plugin_name(each) for each in (*judges, *hinting)}
    return _Hints(_union(each for each in named if each.name not in names), hinting, _union(judges), tuple(judges))


def _union(plugins: Iterable[object]) -> int:
    return reduce(or_, (int(each.woken_by) for each in plugins), 0)  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def per_node_filters(profile: Profile) -> tuple[Filter, ...]:
    """Filters that judge each node by itself."""
    return tuple(each for each in profile.filters if plugin_name(each) in profile.depends_on)


@lru_cache(maxsize=64)
def _by_name(profile: Profile) -> Mapping[str, Plugin]:
    gangs = () if profile.gang_plugin is None else (profile.gang_plugin,)
    return {plugin_name(each): each for each in (*profile.pre_filters, *profile.filters, *gangs)}


def _named(profile: Profile, names: Iterable[str]) -> list[Plugin]:
    found = _by_name(profile)
    return [found[name] for name in names if name in found]
