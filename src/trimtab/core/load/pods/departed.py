"""Pods that have gone but are still in the samples of their nodes: how much of those is theirs; decides nothing else.

A sample that speaks for five minutes shows a pod for five minutes after its end, less and less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from trimtab.core.load.aligned import Aligned, Floats, Index, sums

MOST, FIRST_SIZE = 20_000, 64
LONGEST = 3600.0  # no sample speaks for longer
TINY = 1e-9  # who went at the very moment of the sample is in it


class Departed(Aligned):
    """By place in the list: the row, when it went, and how much of each resource samples showed of it."""

    BLANKS: ClassVar[Mapping[str, float]] = {"row": -1, "at": -np.inf, "amounts": 0.0}

    def __init__(self, resources: int) -> None:
        self.row: Index = np.full(FIRST_SIZE, -1, dtype=np.intp)
        self.at: Floats = np.full(FIRST_SIZE, -np.inf)
        self.amounts: Floats = np.zeros((resources, FIRST_SIZE))
        self.count = 0

    def add(self, row: int, at: float, amounts: tuple[float, ...]) -> None:
        if self.count == MOST:
            self._keep(np.arange(MOST // 2, MOST, dtype=np.intp))
        if self.count == self.size:
            self.grow(2 * self.size)
        self.row[self.count], self.at[self.count], self.amounts[:, self.count] = row, at, amounts
        self.count += 1

    def shown(self, number: int, measured: Floats, window: Floats) -> Floats:
        """By row: what of the samples measured then, over such windows, belongs to pods that have gone."""
        rows = self.row[: self.count]
        left = self.at[: self.count] - measured[rows] + window[rows] + TINY
        part = np.where(rows >= 0, np.clip(left / np.maximum(window[rows], TINY), 0.0, 1.0), 0.0)
        weights = np.where(np.isnan(part), 0.0, part * self.amounts[number, : self.count])
        return sums(rows, weights, len(measured))

    def shown_in(self, row: int, number: int, measured: float, window: float) -> float:
        """The same for one row."""
        here = np.flatnonzero(self.row[: self.count] == row)
        if not len(here):
            return 0.0
        part = np.clip((self.at[here] - measured + window + TINY) / max(window, TINY), 0.0, 1.0)
        return float(part @ self.amounts[number, here])

    def trim(self, now: float) -> None:
        """Forget those that no sample can show any more."""
        stays = (self.row[: self.count] >= 0) & (self.at[: self.count] > now - LONGEST)
        if not stays.all():
            self._keep(np.flatnonzero(stays))

    def close_row(self, row: int, last: int) -> None:
        self.row[self.row == row] = -1
        self.row[self.row == last] = row

    def _keep(self, places: Index) -> None:
        self.row[: len(places)] = self.row[places]
        self.at[: len(places)] = self.at[places]
        self.amounts[:, : len(places)] = self.amounts[:, places]
        self.count = len(places)
