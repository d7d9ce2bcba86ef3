"""Pods that have gone but are still in the samples of their nodes: how much of those is theirs; decides nothing else.

A sample that speaks for five minutes shows a pod for five minutes after its end, less and less. Who went lies in a list, in
order; when that is full, those that left the same row within the same minute are joined, as if all had left with the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from trimtab.core.load.array_table import ArrayTable, Floats, Index, sum_by_row

MAX_ENTRIES, FIRST_SIZE, MINUTE = 20_000, 64, 60.0
MAX_HORIZON = 3600.0  # no sample is older, or speaks for longer
TINY = 1e-9  # who went at the very moment of the sample is in it


class TerminatedPods(ArrayTable):
    """By place in the list: the row, when it went, and how much of each resource samples showed of it."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {"row": -1, "at": -np.inf, "amounts": 0.0}

    def __init__(self, resources: int) -> None:
        self.row: Index = np.full(FIRST_SIZE, -1, dtype=np.intp)
        self.at: Floats = np.full(FIRST_SIZE, -np.inf)
        self.amounts: Floats = np.zeros((resources, FIRST_SIZE))
        self.count, self.max_entries = 0, MAX_ENTRIES

    def add(self, row: int, at: float, amounts: tuple[float, ...]) -> bool:
        """Whether others were joined for it, so that all rows are to be summed anew."""
        full = self.count >= self.max_entries
        if full:
            self._merge()
        if self.count == self.size:
            self.grow(2 * self.size)
        self.row[self.count], self.at[self.count], self.amounts[:, self.count] = row, at, amounts
        self.count += 1
        return full

    def in_node_samples(self, number: int, measured: Floats, window: Floats) -> Floats:
        """By row: what of the samples measured then, over such windows, belongs to pods that have gone."""
        rows = self.row[: self.count]
        left = self.at[: self.count] - measured[rows] + window[rows] + TINY
        part = np.where(rows >= 0, np.clip(left / np.maximum(window[rows], TINY), 0.0, 1.0), 0.0)
        weights = np.where(np.isnan(part), 0.0, part * self.amounts[number, : self.count])
        return sum_by_row(rows, weights, len(measured))

    def in_node_sample(self, row: int, number: int, measured: float, window: float) -> float:
        """The same for one row."""
        here = np.flatnonzero(self.row[: self.count] == row)
        if not len(here):
            return 0.0
        part = np.clip((self.at[here] - measured + window + TINY) / max(window, TINY), 0.0, 1.0)
        return float(part @ self.amounts[number, here])

    def trim(self, now: float, reach: float) -> None:
        """Forget those that no sample can show any more; `reach` is how far back the oldest of them speaks."""
        stays = (self.row[: self.count] >= 0) & (self.at[: self.count] > now - min(reach, MAX_HORIZON))
        if not stays.all():
            self._keep(np.flatnonzero(stays))

    def remove_row(self, row: int, last: int) -> None:
        self.row[self.row == row] = -1
        self.row[self.row == last] = row

    def _merge(self) -> None:
        """Nothing is lost of those that left after their node was last measured; of others a little may be, never too
        much taken off."""
        count = self.count
        minutes = (self.at[:count] // MINUTE).astype(np.int64)
        kinds = minutes * (int(self.row[:count].max()) + 2) + self.row[:count] + 1
        _, first, place = np.unique(kinds, return_index=True, return_inverse=True)
        amounts = [np.bincount(place, each) for each in self.amounts[:, :count]]
        earliest = np.full(len(first), np.inf)
        np.minimum.at(earliest, place, self.at[:count])
        self._keep(first)
        self.at[: self.count], self.amounts[:, : self.count] = earliest, amounts
        self.max_entries = max(MAX_ENTRIES, 2 * self.count)  # with so many rows it would be full again at once

    def _keep(self, places: Index) -> None:
        self.row[: len(places)] = self.row[places]
        self.at[: len(places)] = self.at[places]
        self.amounts[:, : len(places)] = self.amounts[:, places]
        self.count = len(places)
