"""Whole-number columns that never wrap: exact sums in Python integers, mirrored into 64 bits up to a cap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.core.model.resources import MAX_AMOUNT

Ints = NDArray[np.int64]


class ExactColumn:
    """One resource, one cell per node. The exact sum is kept beside the array, so that what was capped can shrink again."""

    __slots__ = ("array", "exact")

    def __init__(self, capacity: int) -> None:
        self.exact = [0] * capacity
        self.array: Ints = np.zeros(capacity, dtype=np.int64)

    def add(self, row: int, amount: int) -> None:
        total = self.exact[row] + amount
        self.exact[row] = total
        self.array[row] = total if total < MAX_AMOUNT else MAX_AMOUNT

    def set(self, row: int, amount: int) -> None:
        self.exact[row] = amount
        self.array[row] = min(amount, MAX_AMOUNT)

    def grow(self, capacity: int) -> None:
        extra = capacity - len(self.exact)
        self.exact.extend([0] * extra)
        self.array = np.concatenate([self.array, np.zeros(extra, dtype=np.int64)])

    def copy(self) -> ExactColumn:
        twin = object.__new__(ExactColumn)
        twin.exact = self.exact.copy()
        twin.array = self.array.copy()
        return twin
