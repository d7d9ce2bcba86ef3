"""Which filter each refused node is charged to: the first, in the profile's order, that refuses it; counted as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.framework.interface import Bools, Ints

PASSES = np.int16(np.iinfo(np.int16).max)
MAX_BINCOUNT_RANGE = 4096  # range of codes up to which counting them by value is cheaper than sorting them


class Rejections:
    """Per row the filter's number (PASSES for none) and its code; `counts` has the number of rows for each pair."""

    __slots__ = ("codes", "counts", "rejected_by")

    def __init__(self, rejected_by: NDArray[np.int16], codes: Ints, counts: Counter[tuple[int, int]]) -> None:
        self.rejected_by, self.codes, self.counts = rejected_by, codes, counts

    @classmethod
    def empty(cls, rows: int) -> Rejections:
        return cls(np.full(rows, PASSES), np.zeros(rows, dtype=np.int64), Counter())

    @classmethod
    def of(cls, columns: Sequence[tuple[int, Ints]], rows: int) -> Rejections:
        """From filters' numbers and their codes for all rows."""
        return cls.empty(rows).with_filters(columns)

    def with_filters(self, columns: Sequence[tuple[int, Ints]]) -> Rejections:
        """With more filters' codes, given in the order of the profile; itself where they refuse nothing."""
        twin = self
        for index, codes in columns:
            refused = codes != 0
            if refused.any():
                if twin is self:
                    twin = Rejections(self.rejected_by.copy(), self.codes.copy(), self.counts.copy())
                twin._add(index, codes, refused)
        return twin

    def _add(self, index: int, codes: Ints, rejected: Bools) -> None:
        if self.counts:  # somebody earlier in the order may have refused the row, or somebody later
            rejected &= self.rejected_by > index
            moved = rejected & (self.rejected_by != PASSES)
            if moved.any():
                self.counts.subtract(count_by_code(self.rejected_by[moved], self.codes[moved]))
        np.copyto(self.rejected_by, np.int16(index), where=rejected)
        np.copyto(self.codes, codes, where=rejected)
        self.counts.update({(index, code): number for code, number in _count_codes(codes[rejected])})

    def recompute_row(self, row: int, codes: Iterable[tuple[int, Ints]]) -> bool:
        """One row anew, without arrays; `codes` in the order of the profile. Whether the row passes."""
        held = self.rejected_by.item(row)
        if held != PASSES:
            self.counts[held, self.codes.item(row)] -= 1
        for index, column in codes:
            code = column.item(row)
            if code:
                self.rejected_by[row], self.codes[row] = index, code
                self.counts[index, code] += 1
                return False
        self.rejected_by[row], self.codes[row] = PASSES, 0
        return True

    @property
    def passing(self) -> Bools:
        passing: Bools = self.rejected_by == PASSES
        return passing


def count_by_code(rejected_by: NDArray[np.signedinteger[Any]], codes: Ints) -> dict[tuple[int, int], int]:
    """How many rows have each pair of filter and code; rows that pass are not counted."""
    found: dict[tuple[int, int], int] = {}
    for index in np.flatnonzero(np.bincount(rejected_by[rejected_by != PASSES])).tolist():
        for code, number in _count_codes(codes[rejected_by == index]):
            found[index, code] = number
    return found


def _count_codes(codes: Ints) -> Iterable[tuple[int, int]]:
    if not codes.size:
        return ()
    low, high = int(codes.min()), int(codes.max())
    if low == high:
        return ((low, codes.size),)
    if high - low <= MAX_BINCOUNT_RANGE:
        counted = np.bincount(codes - low)
        return [(value + low, counted.item(value)) for value in np.flatnonzero(counted).tolist()]
    values, numbers = np.unique(codes, return_counts=True)
    return zip(values.tolist(), numbers.tolist(), strict=True)
