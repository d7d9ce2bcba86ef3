"""Which filter rejects each node: the first one in the profile's order. Counts by filter and code are included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.framework.interface import Bools, Ints

PASSES = np.int16(np.iinfo(np.int16).max)
MAX_BINCOUNT_RANGE = 4096  # up to this range of codes, counting by value is cheaper than sorting


class Rejections:
    """Per row the rejecting filter's index (PASSES for none) and code; `counts` has the number of rows per pair."""

    __slots__ = ("codes", "counts", "rejected_by")

    def __init__(self, rejected_by: NDArray[np.int16], codes: Ints, counts: Counter[tuple[int, int]]) -> None:
        self.rejected_by, self.codes, self.counts = rejected_by, codes, counts

    @classmethod
    def empty(cls, rows: int) -> Rejections:
        return cls(np.full(rows, PASSES), np.zeros(rows, dtype=np.int64), Counter())

    @classmethod
    def of(cls, columns: Sequence[tuple[int, Ints]], rows: int) -> Rejections:
        """From filters' indices and their codes for all rows."""
        return cls.empty(rows).with_filters(columns)

    def with_filters(self, columns: Sequence[tuple[int, Ints]]) -> Rejections:
        """With more filters' codes, given in profile order; returns itself if they reject nothing."""
        result = self
        for index, codes in columns:
            rejected = codes != 0
            if rejected.any():
                if result is self:
                    result = Rejections(self.rejected_by.copy(), self.codes.copy(), self.counts.copy())
                result._add(index, codes, rejected)
        return result

    def _add(self, index: int, codes: Ints, rejected: Bools) -> None:
        if self.counts:  # an earlier or a later filter in the order may have rejected the row
            rejected &= self.rejected_by > index
            replaced = rejected & (self.rejected_by != PASSES)
            if replaced.any():
                self.counts.subtract(count_by_code(self.rejected_by[replaced], self.codes[replaced]))
        np.copyto(self.rejected_by, np.int16(index), where=rejected)
        np.copyto(self.codes, codes, where=rejected)
        self.counts.update({(index, code): number for code, number in _count_codes(codes[rejected])})

    def recompute_row(self, row: int, codes: Iterable[tuple[int, Ints]]) -> bool:
        """Recompute one row, without arrays; `codes` in profile order. Returns whether the row passes."""
        previous = self.rejected_by.item(row)
        if previous != PASSES:
            self.counts[previous, self.codes.item(row)] -= 1
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
    counts: dict[tuple[int, int], int] = {}
    for index in np.flatnonzero(np.bincount(rejected_by[rejected_by != PASSES])).tolist():
        for code, count in _count_codes(codes[rejected_by == index]):
            counts[index, code] = count
    return counts


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
