"""Removed pods that are still part of their node's sample, and how much of the sample is due to them.

A sample over a window of five minutes contains a removed pod for five more minutes, less and less of it. Removed pods are
kept in a list; when it is full, those removed from one row within one minute are merged, as if all had been removed with
the first.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.load.settings import TRACKED
from trimtab.core.model.duration import HOUR, MINUTE
from trimtab.core.tables import ArrayTable, Floats, Index, column, sum_by_row

MAX_ENTRIES, FIRST_SIZE = 20_000, 64
MAX_WINDOW = HOUR  # of a node's sample: the longest `rateWindow` that may be configured
TINY = 1e-9  # a pod removed at the very moment of the sample is part of it


class TerminatedPods(ArrayTable):
    """By entry: the row, when the pod was removed, and how much of its node's samples it was, by resource."""

    row: Index = column(-1, np.intp)
    removed_at: Floats = column(-np.inf)
    amounts: Floats = column(0.0, np.float64, (len(TRACKED),))

    def __init__(self) -> None:
        super().__init__(FIRST_SIZE)
        self.count, self.max_entries = 0, MAX_ENTRIES

    def add(self, row: int, now: float, amounts: tuple[float, ...]) -> bool:
        """Returns whether entries were merged, so that the totals of all rows have to be summed again."""
        full = self.count >= self.max_entries
        if full:
            self._merge()
        if self.count == self.size:
            self.grow(2 * self.size)
        self.row[self.count], self.removed_at[self.count], self.amounts[:, self.count] = row, now, amounts
        self.count += 1
        return full

    def in_node_samples(self, resource: int, sampled_at: Floats, window: Floats) -> Floats:
        """By row: how much of the node's sample, taken then over this window, is due to removed pods."""
        rows = self.row[: self.count]
        overlap = self.removed_at[: self.count] - sampled_at[rows] + window[rows] + TINY
        fraction = np.where(rows >= 0, np.clip(overlap / np.maximum(window[rows], TINY), 0.0, 1.0), 0.0)
        weights = np.where(np.isnan(fraction), 0.0, fraction * self.amounts[resource, : self.count])
        return sum_by_row(rows, weights, len(sampled_at))

    def in_node_sample(self, row: int, resource: int, sampled_at: float, window: float) -> float:
        """The same for one row."""
        entries = np.flatnonzero(self.row[: self.count] == row)
        if not len(entries):
            return 0.0
        overlap = self.removed_at[entries] - sampled_at + window + TINY
        return float(np.clip(overlap / max(window, TINY), 0.0, 1.0) @ self.amounts[resource, entries])

    def trim(self, now: float, stale_after: float) -> None:
        """Drop entries that no trusted sample can contain any more. The next one may cover a longer window than those held
        now, because it may be of another source: only the longest window there is counts."""
        keep = (self.row[: self.count] >= 0) & (self.removed_at[: self.count] > now - stale_after - MAX_WINDOW)
        if not keep.all():
            self._keep(np.flatnonzero(keep))

    def remove_row(self, row: int, last: int) -> None:
        self.row[self.row == row] = -1
        self.row[self.row == last] = row

    def _merge(self) -> None:
        """Merge by row and minute. Pods removed after their node's last sample keep their full amount; for others the
        amount may shrink a little, but never grows."""
        count = self.count
        minutes = (self.removed_at[:count] // MINUTE).astype(np.int64)
        groups = minutes * (int(self.row[:count].max()) + 2) + self.row[:count] + 1
        _, first, group = np.unique(groups, return_index=True, return_inverse=True)
        amounts = [np.bincount(group, line) for line in self.amounts[:, :count]]
        earliest = np.full(len(first), np.inf)
        np.minimum.at(earliest, group, self.removed_at[:count])
        self._keep(first)
        self.removed_at[: self.count], self.amounts[:, : self.count] = earliest, amounts
        self.max_entries = max(MAX_ENTRIES, 2 * self.count)  # with very many rows it would be full again at once

    def _keep(self, entries: Index) -> None:
        self.count = len(entries)
        self.row[: self.count] = self.row[entries]
        self.removed_at[: self.count] = self.removed_at[entries]
        self.amounts[:, : self.count] = self.amounts[:, entries]
