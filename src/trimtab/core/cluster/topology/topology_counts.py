"""Counts of pods per node and topology domain, kept up to date pod by pod.

A count is computed from the pod table when it is first asked for, and afterwards updated with each pod added or removed.
Label sets and affinity term sets that are new since then are looked at when it is asked for again. All counts are dropped
when nodes are added or removed or change labels or taints, and when they have too many cells: computing one is cheap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.overlay import PodDelta
from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.cluster.topology.pod_count import IdColumn, PodCount, TopologyKey, Weigh
from trimtab.core.cluster.topology.pod_selectors import PodSelector, matcher, required_label
from trimtab.core.tables import NO_ROW, Bools, Floats

T = TypeVar("T")

MAX_CELLS = 1 << 22
MIN_COUNTS = 64
MAX_MEMOS = 1024
MAX_NEW_SLOTS = 256  # that are added one by one; of more, arrays of all slots are cheaper


class TopologyCounts:
    """All counts of a cluster, and what plugins want to keep until nodes change (`memo`, `mask`)."""

    def __init__(self, node_table: NodeTable, pod_table: PodTable) -> None:
        self._node_table = node_table
        self._pod_table = pod_table
        self.clear()

    def clear(self) -> None:
        """Rows or their domains have changed."""
        self._counts: dict[Hashable, PodCount] = {}
        self._subscribers: dict[IdColumn, dict[int, list[PodCount]]] = {"label_set": {}, "term_set": {}}
        # Slots by ids that are new since: pods with labels of their own are many, and scanning all slots is slow.
        self._new_slots: dict[IdColumn, dict[int, set[int]]] = {"label_set": {}, "term_set": {}}
        self._ids_at_reset: dict[IdColumn, int] = {
            "label_set": self._id_count("label_set"),
            "term_set": self._id_count("term_set"),
        }
        self._keys: dict[str, TopologyKey] = {}
        self._masks: dict[Hashable, Bools | None] = {}
        self._memos: dict[Hashable, Any] = {}

    # --- updates

    def add_pod(self, slot: int) -> None:
        pods = self._pod_table
        if pods.compact_ids():
            self.clear()
        label_set, term_set = pods.label_set.item(slot), pods.term_set.item(slot)
        if label_set >= self._ids_at_reset["label_set"]:
            self._new_slots["label_set"].setdefault(label_set, set()).add(slot)
        if term_set >= self._ids_at_reset["term_set"]:
            self._new_slots["term_set"].setdefault(term_set, set()).add(slot)
        self._add(slot, label_set, term_set, 1)

    def remove_pod(self, slot: int) -> None:
        """Called before the slot is released."""
        label_set, term_set = self._pod_table.label_set.item(slot), self._pod_table.term_set.item(slot)
        if label_set >= self._ids_at_reset["label_set"]:
            self._new_slots["label_set"][label_set].discard(slot)
        if term_set >= self._ids_at_reset["term_set"]:
            self._new_slots["term_set"][term_set].discard(slot)
        self._add(slot, label_set, term_set, -1)

    def _add(self, slot: int, label_set: int, term_set: int, sign: int) -> None:
        row = self._pod_table.row.item(slot)
        if row == NO_ROW or not self._counts:
            return
        for count in self._subscribers["label_set"].get(label_set, ()):
            if not count.skip_terminating or self._pod_table.not_terminating[slot]:
                count.add(row, sign)
        if term_set:
            for count in self._subscribers["term_set"].get(term_set, ()):
                count.add(row, sign * count.weight[term_set])

    # --- counts

    def key(self, name: str) -> TopologyKey:
        key = self._keys.get(name)
        if key is None:
            table = self._node_table
            column = table.labels.column(name, (node.labels for node in table.nodes), table.size)
            key = self._keys[name] = TopologyKey(name, column, len(table))
        return key

    def count_selected(
        self, selectors: tuple[PodSelector, ...], *, skip_terminating: bool = False, later: bool = False
    ) -> PodCount:
        """Pods that match all selectors; `later`: they are counted when it is first refreshed."""
        weigh = partial(self._selected_label_sets, selectors)
        count = self._count((selectors, skip_terminating), "label_set", weigh, skip_terminating)
        return count if later else self.refresh(count)

    def count_terms(self, factors: tuple[tuple[int, int], ...]) -> PodCount:
        """Affinity terms of placed pods, given by term id, each times its factor."""
        return self.refresh(self._count(factors, "term_set", partial(self._weighted_term_sets, dict(factors)), False))

    def refresh(self, count: PodCount) -> PodCount:
        """Include ids that are new since the count was last asked for."""
        if count.known_ids != self._id_count(count.column):
            self._count_new_ids(count)
        return count

    def overlay_delta(self, count: PodCount, delta: PodDelta) -> Floats:
        """What an overlay changes in each row of the count; terminating pods are removed like any other."""
        pods = self._pod_table
        ids = pods.label_sets if count.column == "label_set" else pods.affinity_terms
        untracked = [(row, ids.id_of(pod), sign) for row, pod, sign in delta.untracked]
        self.refresh(count)
        change = np.zeros(len(self._node_table))
        if delta.slots.size and count.weight:
            weights = self._lookup(count.column, count.weight)[getattr(pods, count.column)[delta.slots]]
            change -= np.bincount(pods.row[delta.slots], weights=weights, minlength=len(change))
        for row, number, sign in untracked:
            change[row] += sign * count.weight.get(number, 0)
        return change

    def memo(self, name: Hashable, build: Callable[[], T]) -> T:
        """What was built under this name since counts were last dropped; at most `MAX_MEMOS` are kept."""
        memo: T | None = self._memos.get(name)
        if memo is None:
            if len(self._counts) > max(MIN_COUNTS, MAX_CELLS // (len(self._node_table) + 1)):
                self.clear()
            if len(self._memos) >= MAX_MEMOS:
                self._memos.clear()
            memo = self._memos[name] = build()
        return memo

    def mask(self, name: Hashable, build: Callable[[], Bools]) -> Bools | None:
        """Eligible rows, built once and kept as long as the counts over them; None for all rows."""
        if name not in self._masks:
            rows = build()
            self._masks[name] = None if rows.all() else rows
        return self._masks[name]

    @property
    def counts(self) -> tuple[PodCount, ...]:
        return tuple(self._counts.values())

    # --- computing a count

    def _count(self, name: Hashable, column: IdColumn, weigh: Weigh, skip_terminating: bool) -> PodCount:
        count = self._counts.get(name)
        if count is None:
            count = self._counts[name] = PodCount(column, weigh, len(self._node_table), skip_terminating)
        return count

    def _count_new_ids(self, count: PodCount) -> None:
        """Weigh new ids, and count the pods that have them."""
        weights = count.weigh(count.known_ids)
        count.known_ids = self._id_count(count.column)
        if not weights:
            return
        count.weight |= weights
        subscribers = self._subscribers[count.column]
        for number in weights:
            subscribers.setdefault(number, []).append(count)
        new_slots = self._new_slots[count.column]
        if (
            min(weights) >= self._ids_at_reset[count.column]
            and sum(len(new_slots.get(each, ())) for each in weights) <= MAX_NEW_SLOTS
        ):
            self._add_new_slots(count, weights)
        else:
            self._add_all_slots(count, weights)

    def _add_new_slots(self, count: PodCount, weights: dict[int, int]) -> None:
        pods, new_slots = self._pod_table, self._new_slots[count.column]
        for number, weight in weights.items():
            for slot in new_slots.get(number, ()):
                row = pods.row.item(slot)
                if row != NO_ROW and (not count.skip_terminating or pods.not_terminating[slot]):
                    count.add(row, weight)

    def _add_all_slots(self, count: PodCount, weights: dict[int, int]) -> None:
        pods = self._pod_table
        by_slot = self._lookup(count.column, weights)[getattr(pods, count.column)]
        found = (by_slot != 0) & (pods.row != NO_ROW)
        slots = np.flatnonzero(found & pods.not_terminating if count.skip_terminating else found)
        added = np.bincount(pods.row[slots], weights=by_slot[slots], minlength=len(count.rows))
        count.add_rows(added.astype(np.float64, copy=False))

    def _lookup(self, column: IdColumn, weights: dict[int, int]) -> Floats:
        table = np.zeros(self._id_count(column))
        table[list(weights)] = list(weights.values())
        return table

    def _id_count(self, column: IdColumn) -> int:
        return len(self._pod_table.label_sets if column == "label_set" else self._pod_table.affinity_terms)

    def _selected_label_sets(self, selectors: tuple[PodSelector, ...], known: int) -> dict[int, int]:
        """Ids from `known` on that match all selectors."""
        label_sets = self._pod_table.label_sets
        by_labels = [each.selector for each in selectors if each.selector is not None]
        if len(by_labels) < len(selectors):
            return {}
        pair = next(filter(None, map(required_label, by_labels)), None)
        numbers: Sequence[int] = range(len(label_sets)) if pair is None else label_sets.candidates(pair)
        matches, sets = matcher(selectors), label_sets.sets
        return {number: 1 for number in numbers[bisect_left(numbers, known) :] if matches(*sets[number])}

    def _weighted_term_sets(self, factors: dict[int, int], known: int) -> dict[int, int]:
        term_sets = self._pod_table.affinity_terms.term_sets
        numbers = range(known, len(term_sets))
        sums = ((number, sum(factors.get(term, 0) for term in term_sets[number])) for number in numbers)
        return {number: weight for number, weight in sums if weight}
