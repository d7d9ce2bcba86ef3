"""Keeps counts of standing pods by row and domain true, pod by pod; what a count means is for those who ask for it.

A count is made when first asked for, out of the columns of residents, and afterwards shifted by each pod that comes or
goes. Kinds of pods (label classes, carriers of terms) that are new since are looked at when it is asked for again. All
counts go when nodes come, go, or change labels or taints, and when they hold too many cells: making one costs little.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.overlay import PodDelta
from trimtab.core.cluster.pod_table import NO_ROW, PodTable
from trimtab.core.cluster.topology.pod_count import Bools, Column, Floats, PodCount, TopologyKey, Weigh
from trimtab.core.cluster.topology.pod_selectors import PodSelector, matches_all, required_label

T = TypeVar("T")

MAX_CELLS = 1 << 22
MIN_COUNTS = 64
MAX_MEMOS = 1024


class TopologyCounts:
    """All counts of a cluster, and what whoever asks for them wants to keep until nodes change (`kept`, `mask`)."""

    def __init__(self, node_table: NodeTable, pod_table: PodTable) -> None:
        self._node_table = node_table
        self._pod_table = pod_table
        self._reset()

    def _reset(self) -> None:
        self._counts: dict[Hashable, PodCount] = {}
        self._subscribers: dict[Column, dict[int, list[PodCount]]] = {"label_class": {}, "carrier": {}}
        # Slots of kinds that are new since: pods with labels of their own are many, and a look at all slots takes long.
        self._new_slots: dict[Column, dict[int, set[int]]] = {"label_class": {}, "carrier": {}}
        self._ids_at_reset: dict[Column, int] = {
            "label_class": self._id_count("label_class"),
            "carrier": self._id_count("carrier"),
        }
        self._keys: dict[str, TopologyKey] = {}
        self._masks: dict[Hashable, Bools | None] = {}
        self._memos: dict[Hashable, Any] = {}

    def clear(self) -> None:
        """Rows or their domains are others now."""
        self._reset()

    # --- what is kept true

    def add_pod(self, slot: int) -> None:
        residents = self._pod_table
        if residents.compact_ids():
            self._reset()
        number, carrier = residents.label_class.item(slot), residents.carrier.item(slot)
        if number >= self._ids_at_reset["label_class"]:
            self._new_slots["label_class"].setdefault(number, set()).add(slot)
        if carrier >= self._ids_at_reset["carrier"]:
            self._new_slots["carrier"].setdefault(carrier, set()).add(slot)
        self._shift(slot, number, carrier, 1)

    def remove_pod(self, slot: int) -> None:
        """Told before the slot is emptied."""
        number, carrier = self._pod_table.label_class.item(slot), self._pod_table.carrier.item(slot)
        if number >= self._ids_at_reset["label_class"]:
            self._new_slots["label_class"][number].discard(slot)
        if carrier >= self._ids_at_reset["carrier"]:
            self._new_slots["carrier"][carrier].discard(slot)
        self._shift(slot, number, carrier, -1)

    def _shift(self, slot: int, number: int, carrier: int, sign: int) -> None:
        row = self._pod_table.row.item(slot)
        if row == NO_ROW or not self._counts:
            return
        for count in self._subscribers["label_class"].get(number, ()):
            if not count.skip_terminating or self._pod_table.live[slot]:
                count.add(row, sign)
        if carrier:
            for count in self._subscribers["carrier"].get(carrier, ()):
                count.add(row, sign * count.weight[carrier])

    # --- what can be asked

    def key(self, name: str) -> TopologyKey:
        key = self._keys.get(name)
        if key is None:
            columns = self._node_table
            column = columns.labels.column(name, (node.labels for node in columns.nodes), columns.capacity)
            key = self._keys[name] = TopologyKey(name, column, len(columns))
        return key

    def count_selected(self, selectors: tuple[PodSelector, ...], *, live: bool = False) -> PodCount:
        """Pods that all these picks take; with `live`, without those on their way out."""
        return self._count(
            (selectors, live), "label_class", lambda known: self._selected_label_sets(selectors, known), live
        )

    def count_terms(self, factors: tuple[tuple[int, int], ...]) -> PodCount:
        """Terms that standing pods carry, by their numbers, each times its factor."""
        return self._count(factors, "carrier", lambda known: self._weighted_term_sets(dict(factors), known), live=False)

    def refresh(self, count: PodCount) -> PodCount:
        """The count with the kinds of pods that are new since it was last asked for."""
        if count.known_ids != self._id_count(count.column):
            self._count_new_ids(count)
        return count

    def overlay_delta(self, count: PodCount, delta: PodDelta) -> Floats:
        """What an overlay adds to each row of the count; pods on their way out are taken away like any other."""
        residents = self._pod_table
        table = residents.label_sets if count.column == "label_class" else residents.affinity_terms
        numbers = [(row, table.id_of(pod), sign) for row, pod, sign in delta.untracked]
        self.refresh(count)
        own = np.zeros(len(self._node_table))
        if delta.slots.size and count.weight:
            weights = self._lookup(count.column, count.weight)[getattr(residents, count.column)[delta.slots]]
            own -= np.bincount(residents.row[delta.slots], weights=weights, minlength=len(own))
        for row, number, sign in numbers:
            own[row] += sign * count.weight.get(number, 0)
        return own

    def memo(self, name: Hashable, build: Callable[[], T]) -> T:
        """What was built under this name since counts were last dropped; `MAX_MEMOS` are kept."""
        kept: T | None = self._memos.get(name)
        if kept is None:
            if len(self._counts) > max(MIN_COUNTS, MAX_CELLS // (len(self._node_table) + 1)):
                self.clear()
            if len(self._memos) >= MAX_MEMOS:
                self._memos.clear()
            kept = self._memos[name] = build()
        return kept

    def mask(self, name: Hashable, build: Callable[[], Bools]) -> Bools | None:
        """Eligible rows, built once and kept as long as the counts over them; None for all rows."""
        if name not in self._masks:
            rows = build()
            self._masks[name] = None if rows.all() else rows
        return self._masks[name]

    @property
    def counts(self) -> tuple[PodCount, ...]:
        return tuple(self._counts.values())

    # --- how it is counted

    def _count(self, name: Hashable, column: Column, weigh: Weigh, live: bool) -> PodCount:
        count = self._counts.get(name)
        if count is None:
            count = self._counts[name] = PodCount(column, weigh, len(self._node_table), live)
        return self.refresh(count)

    def _count_new_ids(self, count: PodCount) -> None:
        """Weigh the kinds of pods that are new, and count those that stand already."""
        fresh = count.weigh(count.known_ids)
        count.known_ids = self._id_count(count.column)
        if not fresh:
            return
        count.weight |= fresh
        hearers = self._subscribers[count.column]
        for number in fresh:
            hearers.setdefault(number, []).append(count)
        if min(fresh) >= self._ids_at_reset[count.column]:
            self._add_new_slots(count, fresh)
        else:
            self._add_all(count, fresh)

    def _add_new_slots(self, count: PodCount, fresh: dict[int, int]) -> None:
        residents, young = self._pod_table, self._new_slots[count.column]
        for number, weight in fresh.items():
            for slot in young.get(number, ()):
                row = residents.row.item(slot)
                if row != NO_ROW and (not count.skip_terminating or residents.live[slot]):
                    count.add(row, weight)

    def _add_all(self, count: PodCount, fresh: dict[int, int]) -> None:
        residents = self._pod_table
        weights = self._lookup(count.column, fresh)[getattr(residents, count.column)]
        found = (weights != 0) & (residents.row != NO_ROW)
        slots = np.flatnonzero(found & residents.live if count.skip_terminating else found)
        rows, weights = residents.row[slots], weights[slots]
        if not count.domains:  # nothing is summed up by domain yet
            count.rows += np.bincount(rows, weights=weights, minlength=len(count.rows))
            return
        for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
            count.add(row, weight)

    def _lookup(self, column: Column, weight: dict[int, int]) -> Floats:
        table = np.zeros(self._id_count(column))
        table[list(weight)] = list(weight.values())
        return table

    def _id_count(self, column: Column) -> int:
        return len(self._pod_table.label_sets if column == "label_class" else self._pod_table.affinity_terms)

    def _selected_label_sets(self, picks: tuple[PodSelector, ...], known: int) -> dict[int, int]:
        classes = self._pod_table.label_sets
        selectors = [pick.selector for pick in picks if pick.selector is not None]
        if len(selectors) < len(picks):
            return {}
        pair = next(filter(None, map(required_label, selectors)), None)
        numbers: Sequence[int] = range(len(classes)) if pair is None else classes.with_pair.get(pair, ())
        held = classes.sets
        return {number: 1 for number in numbers[bisect_left(numbers, known) :] if matches_all(picks, *held[number])}

    def _weighted_term_sets(self, factors: dict[int, int], known: int) -> dict[int, int]:
        held = self._pod_table.affinity_terms.term_sets
        sums = ((number, sum(factors.get(term, 0) for term in held[number])) for number in range(known, len(held)))
        return {number: weight for number, weight in sums if weight}
