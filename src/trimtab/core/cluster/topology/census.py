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

from trimtab.core.cluster.columns import Columns
from trimtab.core.cluster.moved import Moved
from trimtab.core.cluster.residents import NOWHERE, Residents
from trimtab.core.cluster.topology.counts import Bools, Column, Count, Floats, Key, Weigh
from trimtab.core.cluster.topology.picks import Pick, needed_pair, takes_all

T = TypeVar("T")

MOST_CELLS = 1 << 22
FEWEST_COUNTS = 64
MOST_KEPT = 1024


class Census:
    """All counts of a cluster, and what whoever asks for them wants to keep until nodes change (`kept`, `mask`)."""

    def __init__(self, columns: Columns, residents: Residents) -> None:
        self._columns = columns
        self._residents = residents
        self._start()

    def _start(self) -> None:
        self._counts: dict[Hashable, Count] = {}
        self._hearers: dict[Column, dict[int, list[Count]]] = {"label_class": {}, "carrier": {}}
        # Slots of kinds that are new since: pods with labels of their own are many, and a look at all slots takes long.
        self._young: dict[Column, dict[int, set[int]]] = {"label_class": {}, "carrier": {}}
        self._grown: dict[Column, int] = {"label_class": self._kinds("label_class"), "carrier": self._kinds("carrier")}
        self._keys: dict[str, Key] = {}
        self._masks: dict[Hashable, Bools | None] = {}
        self._kept: dict[Hashable, Any] = {}

    def clear(self) -> None:
        """Rows or their domains are others now."""
        self._start()

    # --- what is kept true

    def came(self, slot: int) -> None:
        residents = self._residents
        if residents.number_anew():
            self._start()
        number, carrier = residents.label_class.item(slot), residents.carrier.item(slot)
        if number >= self._grown["label_class"]:
            self._young["label_class"].setdefault(number, set()).add(slot)
        if carrier >= self._grown["carrier"]:
            self._young["carrier"].setdefault(carrier, set()).add(slot)
        self._shift(slot, number, carrier, 1)

    def leaves(self, slot: int) -> None:
        """Told before the slot is emptied."""
        number, carrier = self._residents.label_class.item(slot), self._residents.carrier.item(slot)
        if number >= self._grown["label_class"]:
            self._young["label_class"][number].discard(slot)
        if carrier >= self._grown["carrier"]:
            self._young["carrier"][carrier].discard(slot)
        self._shift(slot, number, carrier, -1)

    def _shift(self, slot: int, number: int, carrier: int, sign: int) -> None:
        row = self._residents.row.item(slot)
        if row == NOWHERE or not self._counts:
            return
        for count in self._hearers["label_class"].get(number, ()):
            if not count.live or self._residents.live[slot]:
                count.shift(row, sign)
        if carrier:
            for count in self._hearers["carrier"].get(carrier, ()):
                count.shift(row, sign * count.weight[carrier])

    # --- what can be asked

    def key(self, name: str) -> Key:
        key = self._keys.get(name)
        if key is None:
            columns = self._columns
            column = columns.labels.column(name, (node.labels for node in columns.nodes), columns.capacity)
            key = self._keys[name] = Key(name, column, len(columns))
        return key

    def picked(self, picks: tuple[Pick, ...], *, live: bool = False) -> Count:
        """Pods that all these picks take; with `live`, without those on their way out."""
        return self._count((picks, live), "label_class", lambda known: self._taken(picks, known), live)

    def carried(self, factors: tuple[tuple[int, int], ...]) -> Count:
        """Terms that standing pods carry, by their numbers, each times its factor."""
        return self._count(factors, "carrier", lambda known: self._carriers(dict(factors), known), live=False)

    def current(self, count: Count) -> Count:
        """The count with the kinds of pods that are new since it was last asked for."""
        if count.known != self._kinds(count.column):
            self._look(count)
        return count

    def moved(self, count: Count, moved: Moved) -> Floats:
        """What an overlay adds to each row of the count; pods on their way out are taken away like any other."""
        residents = self._residents
        table = residents.classes if count.column == "label_class" else residents.carriers
        numbers = [(row, table.number(pod), sign) for row, pod, sign in moved.others]
        self.current(count)
        own = np.zeros(len(self._columns))
        if moved.slots.size and count.weight:
            weights = self._lookup(count.column, count.weight)[getattr(residents, count.column)[moved.slots]]
            own -= np.bincount(residents.row[moved.slots], weights=weights, minlength=len(own))
        for row, number, sign in numbers:
            own[row] += sign * count.weight.get(number, 0)
        return own

    def kept(self, name: Hashable, build: Callable[[], T]) -> T:
        """What was built under this name since counts were last dropped; `MOST_KEPT` are kept."""
        kept: T | None = self._kept.get(name)
        if kept is None:
            if len(self._counts) > max(FEWEST_COUNTS, MOST_CELLS // (len(self._columns) + 1)):
                self.clear()
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            kept = self._kept[name] = build()
        return kept

    def mask(self, name: Hashable, build: Callable[[], Bools]) -> Bools | None:
        """Eligible rows, built once and kept as long as the counts over them; None for all rows."""
        if name not in self._masks:
            rows = build()
            self._masks[name] = None if rows.all() else rows
        return self._masks[name]

    @property
    def counts(self) -> tuple[Count, ...]:
        return tuple(self._counts.values())

    # --- how it is counted

    def _count(self, name: Hashable, column: Column, weigh: Weigh, live: bool) -> Count:
        count = self._counts.get(name)
        if count is None:
            count = self._counts[name] = Count(column, weigh, len(self._columns), live)
        return self.current(count)

    def _look(self, count: Count) -> None:
        """Weigh the kinds of pods that are new, and count those that stand already."""
        fresh = count.weigh(count.known)
        count.known = self._kinds(count.column)
        if not fresh:
            return
        count.weight |= fresh
        hearers = self._hearers[count.column]
        for number in fresh:
            hearers.setdefault(number, []).append(count)
        if min(fresh) >= self._grown[count.column]:
            self._add_young(count, fresh)
        else:
            self._add_all(count, fresh)

    def _add_young(self, count: Count, fresh: dict[int, int]) -> None:
        residents, young = self._residents, self._young[count.column]
        for number, weight in fresh.items():
            for slot in young.get(number, ()):
                row = residents.row.item(slot)
                if row != NOWHERE and (not count.live or residents.live[slot]):
                    count.shift(row, weight)

    def _add_all(self, count: Count, fresh: dict[int, int]) -> None:
        residents = self._residents
        weights = self._lookup(count.column, fresh)[getattr(residents, count.column)]
        found = (weights != 0) & (residents.row != NOWHERE)
        slots = np.flatnonzero(found & residents.live if count.live else found)
        rows, weights = residents.row[slots], weights[slots]
        if not count.domains:  # nothing is summed up by domain yet
            count.rows += np.bincount(rows, weights=weights, minlength=len(count.rows))
            return
        for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
            count.shift(row, weight)

    def _lookup(self, column: Column, weight: dict[int, int]) -> Floats:
        table = np.zeros(self._kinds(column))
        table[list(weight)] = list(weight.values())
        return table

    def _kinds(self, column: Column) -> int:
        return len(self._residents.classes if column == "label_class" else self._residents.carriers)

    def _taken(self, picks: tuple[Pick, ...], known: int) -> dict[int, int]:
        classes = self._residents.classes
        selectors = [pick.selector for pick in picks if pick.selector is not None]
        if len(selectors) < len(picks):
            return {}
        pair = next(filter(None, map(needed_pair, selectors)), None)
        numbers: Sequence[int] = range(len(classes)) if pair is None else classes.with_pair.get(pair, ())
        held = classes.held
        return {number: 1 for number in numbers[bisect_left(numbers, known) :] if takes_all(picks, *held[number])}

    def _carriers(self, factors: dict[int, int], known: int) -> dict[int, int]:
        held = self._residents.carriers.held
        sums = ((number, sum(factors.get(term, 0) for term in held[number])) for number in range(known, len(held)))
        return {number: weight for number, weight in sums if weight}
