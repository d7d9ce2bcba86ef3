"""One count of pods per row and per topology domain.

A domain is all nodes with the same value of one label. Counts are floats, which are exact far beyond any count and spare
each reader a conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.labels import ABSENT, LabelColumn
from trimtab.core.tables import Bools, Floats, Index, Selection

IdColumn = Literal["label_set", "term_set"]  # of the pod table
Weigh = Callable[[int], dict[int, int]]  # what a pod adds, by its id, for ids from this one on; zeros are left out


def take_rows(column: NDArray[Any], rows: Selection) -> NDArray[Any]:
    """These rows of a column; `take` is much faster than indexing with an array."""
    return column[rows] if isinstance(rows, slice) else column.take(rows)


class TopologyKey:
    """A label key, and the domain of each row; domain 0 is that of rows without the label."""

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
        nodes = np.bincount(self.ids, minlength=self.size)
        self.smallest_domain = int(nodes[nodes > 0].min(initial=count))  # in nodes
        self.present: Bools = self.ids != ABSENT
        self.on_all_nodes = not nodes[ABSENT]
        nodes[ABSENT] = 0
        self.domains: Index = np.flatnonzero(nodes)
        self.unique_per_node = int(nodes.max(initial=0)) <= 1  # as the hostname: each node is a domain of its own
        self.empty_value = column.id_by_value.get("")  # scores treat an empty value like a missing label
        missing = not self.on_all_nodes and not (self.empty_value and nodes[self.empty_value])
        self.domain_count = len(self.domains) + missing  # with the missing value as one of them


class Domains:
    """A count by the domains of one key, over the eligible rows (None: all)."""

    __slots__ = ("by_row", "counts", "eligible", "eligible_domains", "key", "total")

    def __init__(self, rows: Floats, key: TopologyKey, eligible: Bools | None) -> None:
        self.key, self.eligible = key, eligible
        self.by_row = key.unique_per_node and eligible is None
        eligible_rows = rows if eligible is None else rows * eligible
        self.counts = rows if self.by_row else _sum_by_domain(key, eligible_rows)
        self.eligible_domains = key.domains if eligible is None else _domains_of(key, eligible)
        self.total = float(eligible_rows[key.present].sum())  # of all domains, without rows that lack the label

    def add(self, row: int, amount: float) -> None:
        if self.eligible is None or self.eligible[row]:
            domain = self.key.ids.item(row)
            if not self.by_row:
                self.counts[domain] += amount
            if domain != ABSENT:
                self.total += amount

    def add_rows(self, amounts: Floats) -> None:
        """Add an amount to each row; where the count is by row, that has been done already."""
        amounts = amounts if self.eligible is None else amounts * self.eligible
        if not self.by_row:
            self.counts += _sum_by_domain(self.key, amounts)
        self.total += float(amounts[self.key.present].sum())

    def at_rows(self, rows: Selection) -> Floats:
        """The count in the domain of each row; rows without the label have their common count, or their own."""
        if self.by_row:
            return take_rows(self.counts, rows)
        return self.counts.take(take_rows(self.key.ids, rows), mode="clip")

    def by_domain(self) -> Floats:
        """Counts by domain, as a copy."""
        return _sum_by_domain(self.key, self.counts) if self.by_row else self.counts.copy()

    def rows_above(self, limit: float, rows: Selection) -> Bools:
        """Rows in a domain with a higher count; never rows without the label."""
        if self.by_row:
            found: Bools = take_rows(self.counts, rows) > limit
            return found if self.key.on_all_nodes else found & take_rows(self.key.present, rows)
        table = self.counts > limit
        table[ABSENT] = False
        return table.take(take_rows(self.key.ids, rows), mode="clip")

    def min_count(self) -> float:
        """The smallest count of a domain with an eligible row; 0 without any."""
        if not self.eligible_domains.size:
            return 0.0
        if not self.by_row:
            return float(self.counts[self.eligible_domains].min())
        return float((self.counts if self.key.on_all_nodes else self.counts[self.key.present]).min())

    def two_smallest(self) -> tuple[float, int, float]:
        """The smallest count, its domain, and the smallest of the others; 0 and infinity where there is none."""
        if not self.eligible_domains.size:
            return 0.0, ABSENT, np.inf
        counts = self.by_domain()[self.eligible_domains]
        first = int(counts.argmin())
        others = np.delete(counts, first)
        return float(counts[first]), int(self.eligible_domains[first]), float(others.min(initial=np.inf))

    def in_eligible_domain(self, rows: Selection) -> Bools:
        """Rows in a domain with an eligible row."""
        table = np.zeros(self.key.size, dtype=np.bool_)
        table[self.eligible_domains] = True
        return table.take(take_rows(self.key.ids, rows), mode="clip")


class PodCount:
    """A count by row; `weight` is what a pod adds, by its id in one column of the pod table."""

    __slots__ = ("_by_domain", "column", "known_ids", "rows", "skip_terminating", "weigh", "weight")

    def __init__(self, column: IdColumn, weigh: Weigh, rows: int, skip_terminating: bool) -> None:
        self.column = column
        self.weigh = weigh
        self.rows: Floats = np.zeros(rows)
        self.skip_terminating = skip_terminating
        self.weight: dict[int, int] = {}
        self.known_ids = 0  # ids below have been weighed
        self._by_domain: dict[tuple[int, int], Domains] = {}

    def add(self, row: int, amount: float) -> None:
        self.rows[row] += amount
        for domains in self._by_domain.values():
            domains.add(row, amount)

    def add_rows(self, amounts: Floats) -> None:
        """Add an amount to each row."""
        self.rows += amounts
        for domains in self._by_domain.values():
            domains.add_rows(amounts)

    def by_key(self, key: TopologyKey, eligible: Bools | None = None) -> Domains:
        """Keys and masks are those of `TopologyCounts`, which outlive this."""
        domains = self._by_domain.get((id(key), id(eligible)))
        if domains is None:
            domains = self._by_domain[id(key), id(eligible)] = Domains(self.rows, key, eligible)
        return domains

    @property
    def domains(self) -> tuple[Domains, ...]:
        return tuple(self._by_domain.values())


def _domains_of(key: TopologyKey, eligible: Bools) -> Index:
    domains = np.flatnonzero(np.bincount(key.ids[eligible], minlength=key.size))
    present: Index = domains[domains != ABSENT]
    return present


def _sum_by_domain(key: TopologyKey, rows: Floats) -> Floats:
    sums: Floats = np.bincount(key.ids, weights=rows, minlength=key.size).astype(np.float64, copy=False)
    return sums
