"""Further resources: a custom metric of pods, and what nodes have of it, such as network bandwidth or requests per second.

CPU and memory are measured by node, too. Of a further resource a node uses what its pods use, and nothing else:

| the pod | counts with |
|---|---|
| has a value | the newest one |
| has none now, but has had values, or its siblings or its predecessor have | its own mean, or theirs: missing is never zero |
| is of a workload that has never had a value | nothing: it does not use the resource |

A node is known while a value of one of its pods is trusted, or while no pod lacks a value that it should have and other
nodes are known; an empty node is one of these. Nobody but a rescheduler needs this, so there are no estimates by requests.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Self

import numpy as np

from trimtab.core.load.latest_samples import NO_SOURCE
from trimtab.core.load.placed_pods import PlacedPods
from trimtab.core.load.settings import LoadSettings
from trimtab.core.load.snapshots import PodSnapshots
from trimtab.core.tables import ArrayTable, Bools, Floats, Index, column, sum_by_row


class Capacity(NamedTuple):
    """What nodes have of a further resource, in the unit of its metric: the same `amount` each, the value of a custom
    `metric` of nodes, or a resource of their `allocatable`."""

    amount: float = 0.0
    metric: str = ""
    allocatable: str = ""


class MetricOfNodes(NamedTuple):
    """By row: the sum over pods, NaN where it is not known; when the newest of them was sampled; how far it is trusted."""

    usage: Floats
    sampled_at: Floats
    trust: Floats


class PodMetric(ArrayTable):
    """The newest value of each pod, by slot, NaN for none; and whether its snapshots have values."""

    sample: Floats = column(np.nan)
    sampled_at: Floats = column(np.nan)
    source: Index = column(NO_SOURCE, np.intp)
    has_past: Bools = column(False, np.bool_)

    def is_newer(self, slots: Index, sampled_at: Floats, failed: Collection[int]) -> Bools:
        """Which samples are newer than the ones held; those of a failed source do not count as held."""
        held = self.sampled_at[slots] >= sampled_at
        return np.asarray(~held | np.isin(self.source[slots], list(failed)))

    def put(self, slots: Index, values: Floats, sampled_at: Floats, source: int) -> None:
        self.ensure_writable()
        self.sample[slots], self.sampled_at[slots], self.source[slots] = values, sampled_at, source

    def put_past(self, slots: Index) -> None:
        self.ensure_writable()
        self.has_past[slots] = True

    def usual(self, placed: PlacedPods, snapshots: PodSnapshots) -> Floats:
        """By slot: what the pod counts with; NaN if its workload has never had a value."""
        found, workload = self.sample.copy(), placed.workload
        lacking = np.flatnonzero(np.isnan(found) & placed.in_use)
        only_past = lacking[self.has_past[lacking]]
        found[only_past] = snapshots.means(only_past)
        known = np.flatnonzero(~np.isnan(found) & placed.in_use & (workload >= 0))
        size = int(workload.max(initial=-1)) + 2  # the last cell is for pods without an owner
        counts = np.bincount(workload[known], minlength=size)
        with np.errstate(invalid="ignore"):
            means = np.bincount(workload[known], found[known], minlength=size) / counts
        lacking = lacking[np.isnan(found[lacking])]
        found[lacking] = means[workload[lacking]]
        if snapshots.departed:
            for slot in lacking[np.isnan(found[lacking])].tolist():
                found[slot] = snapshots.departed_mean(placed.workload_key(slot))
        return found

    def of_nodes(
        self, placed: PlacedPods, usual: Floats, rows: int, now: float, settings: LoadSettings, failed: Collection[int]
    ) -> MetricOfNodes:
        counting = placed.in_use & ~placed.is_terminating(slice(None), now, settings.stale)
        amounts = sum_by_row(placed.row, np.where(counting, np.nan_to_num(usual), 0.0), rows)
        trusted = placed.in_use & (self.sampled_at >= now - settings.stale) & ~np.isin(self.source, list(failed))
        overdue = counting & ~trusted & ~np.isnan(usual) & (placed.running_since < now - settings.stale)
        sampled_at = self._newest_by_row(placed.row, trusted, overdue, rows)
        age = now - sampled_at
        trust = 0.5 * (age <= settings.fresh) + 0.5 * (age <= settings.stale)
        return MetricOfNodes(np.where(trust > 0, amounts, np.nan), sampled_at, trust)

    def _newest_by_row(self, row: Index, trusted: Bools, overdue: Bools, rows: int) -> Floats:
        if not trusted.any():
            return np.full(rows, np.nan)
        newest = np.full(rows + 1, -np.inf)  # the last one for pods on unknown nodes
        np.maximum.at(newest, row[trusted], self.sampled_at[trusted])
        without = np.where(sum_by_row(row, overdue, rows) > 0, np.nan, self.sampled_at[trusted].max())
        return np.where(newest[:rows] > -np.inf, newest[:rows], without)

    def copy(self) -> Self:
        return self.share()
