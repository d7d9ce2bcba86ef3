"""One count of standing pods, per row and per domain; who is counted, and when, is said by `census`.

A domain is all nodes that share a value of one label. Numbers are held as floats, which are exact far beyond any count
and spare each reader a conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.labels import ABSENT, LabelColumn

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = slice | NDArray[np.intp]
Column = Literal["label_class", "carrier"]  # of residents
Weigh = Callable[[int], dict[int, int]]  # what pods add, by their numbers, from this number on; zeros left out


def take_rows(column: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """These rows of a column; `take` is a good deal faster than an index of rows."""
    return column[rows] if isinstance(rows, slice) else column.take(rows)


class TopologyKey:
    """A label key, and the domain of each row; domain 0 is that of the rows that lack the key."""

    __slots__ = (
        "domain_count",
        "domains",
        "empty_value",
        "ids",
        "name",
        "on_all_nodes",
        "present",
        "size",
        "smallest_domain",
        "unique_per_node",
    )

    def __init__(self, name: str, column: LabelColumn, count: int) -> None:
        self.name = name
        self.ids = column.ids[:count]
        self.size = len(column.values)
        heads = np.bincount(self.ids, minlength=self.size)
        self.smallest_domain = int(heads[heads > 0].min(initial=count))  # so many rows has the smallest domain
        self.present: Bools = self.ids != ABSENT
        self.on_all_nodes = not heads[ABSENT]
        heads[ABSENT] = 0
        self.domains: NDArray[np.intp] = np.flatnonzero(heads)
        self.unique_per_node = int(heads.max(initial=0)) <= 1  # each node is a domain of its own
        self.empty_value = column.id_by_value.get(
            ""
        )  # the domain of the empty value, which scores take for a missing one
        # Of all rows together, with the missing value for one of them.
        self.domain_count = len(self.domains) + (
            not self.on_all_nodes and not (self.empty_value and heads[self.empty_value])
        )


class Domains:
    """A count by the domains of one key, over the rows that are eligible (None: all)."""

    __slots__ = ("by_row", "counts", "eligible", "eligible_domains", "key", "total")

    def __init__(self, rows: Floats, key: TopologyKey, eligible: Bools | None) -> None:
        self.key, self.eligible = key, eligible
        self.by_row = key.unique_per_node and eligible is None
        eligible_rows = rows if eligible is None else rows * eligible
        self.counts = rows if self.by_row else _sum_by_domain(key, eligible_rows)
        self.eligible_domains = key.domains if eligible is None else _domains_of(key, eligible)
        self.total = float(eligible_rows[key.present].sum())  # what stands in any domain

    def add(self, row: int, amount: float) -> None:
        if self.eligible is None or self.eligible[row]:
            domain = self.key.ids.item(row)
            if not self.by_row:
                self.counts[domain] += amount
            if domain != ABSENT:
                self.total += amount

    def at_rows(self, rows: Rows) -> Floats:
        """The count in the domain of each row; rows that lack the key have what those hold together, or their own."""
        return (
            take_rows(self.counts, rows)
            if self.by_row
            else self.counts.take(take_rows(self.key.ids, rows), mode="clip")
        )

    def by_domain(self) -> Floats:
        """Counts by domain, to be changed at will."""
        return _sum_by_domain(self.key, self.counts) if self.by_row else self.counts.copy()

    def rows_above(self, limit: float, rows: Rows) -> Bools:
        """Rows in a domain that holds more; never those that lack the key."""
        if self.by_row:
            found: Bools = take_rows(self.counts, rows) > limit
            return found if self.key.on_all_nodes else found & take_rows(self.key.present, rows)
        table = self.counts > limit
        table[ABSENT] = False
        return table.take(take_rows(self.key.ids, rows), mode="clip")

    def min_count(self) -> float:
        """The smallest count of a domain that has an eligible row; 0 without any."""
        if not self.eligible_domains.size:
            return 0.0
        if not self.by_row:
            return float(self.counts[self.eligible_domains].min())
        return float((self.counts if self.key.on_all_nodes else self.counts[self.key.present]).min())

    def two_smallest(self) -> tuple[float, int, float]:
        """The smallest count, its domain, and the smallest of all others; 0 and infinity where there is none."""
        if not self.eligible_domains.size:
            return 0.0, ABSENT, np.inf
        held = self.by_domain()[self.eligible_domains]
        first = int(held.argmin())
        others = np.delete(held, first)
        return float(held[first]), int(self.eligible_domains[first]), float(others.min(initial=np.inf))

    def in_eligible_domain(self, rows: Rows) -> Bools:
        """Rows in a domain that has an eligible row."""
        table = np.zeros(self.key.size, dtype=np.bool_)
        table[self.eligible_domains] = True
        return table.take(take_rows(self.key.ids, rows), mode="clip")


class PodCount:
    """How much of something stands in each row; `weight` says what a pod adds by the number it has in one column."""

    __slots__ = ("_by_domain", "column", "known_ids", "rows", "skip_terminating", "weigh", "weight")

    def __init__(self, column: Column, weigh: Weigh, rows: int, live: bool) -> None:
        self.column = column
        self.weigh = weigh
        self.rows: Floats = np.zeros(rows)
        self.skip_terminating = live  # pods on their way out do not count
        self.weight: dict[int, int] = {}
        self.known_ids = 0  # numbers below were looked at
        self._by_domain: dict[tuple[int, int], Domains] = {}

    def add(self, row: int, amount: float) -> None:
        self.rows[row] += amount
        for domains in self._by_domain.values():
            domains.add(row, amount)

    def by_key(self, key: TopologyKey, eligible: Bools | None = None) -> Domains:
        """Keys and masks are those of the census, which outlive this."""
        domains = self._by_domain.get((id(key), id(eligible)))
        if domains is None:
            domains = self._by_domain[id(key), id(eligible)] = Domains(self.rows, key, eligible)
        return domains

    @property
    def domains(self) -> tuple[Domains, ...]:
        return tuple(self._by_domain.values())


def _domains_of(key: TopologyKey, eligible: Bools) -> NDArray[np.intp]:
    there = np.flatnonzero(np.bincount(key.ids[eligible], minlength=key.size))
    present: NDArray[np.intp] = there[there != ABSENT]
    return present


def _sum_by_domain(key: TopologyKey, rows: Floats) -> Floats:
    sums: Floats = np.bincount(key.ids, weights=rows, minlength=key.size).astype(np.float64, copy=False)
    return sums
