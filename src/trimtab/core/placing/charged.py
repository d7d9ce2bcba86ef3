"""Which filter each refused node is charged to: the first, in the profile's order, that refuses it; counted as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.placing.contract import Bools, Ints

PASSES = np.int16(np.iinfo(np.int16).max)
WIDEST = 4096  # range of codes up to which counting them by value is cheaper than sorting them


class Charged:
    """Per row the filter's number (PASSES for none) and its code; `counts` has the number of rows for each pair."""

    __slots__ = ("by", "codes", "counts")

    def __init__(self, by: NDArray[np.int16], codes: Ints, counts: Counter[tuple[int, int]]) -> None:
        self.by, self.codes, self.counts = by, codes, counts

    @classmethod
    def nobody(cls, rows: int) -> Charged:
        return cls(np.full(rows, PASSES), np.zeros(rows, dtype=np.int64), Counter())

    @classmethod
    def of(cls, columns: Sequence[tuple[int, Ints]], rows: int) -> Charged:
        """From filters' numbers and their codes for all rows."""
        return cls.nobody(rows).also(columns)

    def also(self, columns: Sequence[tuple[int, Ints]]) -> Charged:
        """With more filters' codes, given in the order of the profile; itself where they refuse nothing."""
        twin = self
        for index, codes in columns:
            refused = codes != 0
            if refused.any():
                if twin is self:
                    twin = Charged(self.by.copy(), self.codes.copy(), self.counts.copy())
                twin._charge(index, codes, refused)
        return twin

    def _charge(self, index: int, codes: Ints, refused: Bools) -> None:
        if self.counts:  # somebody earlier in the order may have refused the row, or somebody later
            refused &= self.by > index
            moved = refused & (self.by != PASSES)
            if moved.any():
                self.counts.subtract(pairs(self.by[moved], self.codes[moved]))
        np.copyto(self.by, np.int16(index), where=refused)
        np.copyto(self.codes, codes, where=refused)
        self.counts.update({(index, code): number for code, number in _numbers(codes[refused])})

    def redo(self, row: int, codes: Iterable[tuple[int, Ints]]) -> bool:
        """One row anew, without arrays; `codes` in the order of the profile. Whether the row passes."""
        held = self.by.item(row)
        if held != PASSES:
            self.counts[held, self.codes.item(row)] -= 1
        for index, column in codes:
            code = column.item(row)
            if code:
                self.by[row], self.codes[row] = index, code
                self.counts[index, code] += 1
                return False
        self.by[row], self.codes[row] = PASSES, 0
        return True

    @property
    def passing(self) -> Bools:
        passing: Bools = self.by == PASSES
        return passing


def pairs(by: NDArray[np.signedinteger[Any]], codes: Ints) -> dict[tuple[int, int], int]:
    """How many rows have each pair of filter and code; rows that pass are not counted."""
    found: dict[tuple[int, int], int] = {}
    for index in np.flatnonzero(np.bincount(by[by != PASSES])).tolist():
        for code, number in _numbers(codes[by == index]):
            found[index, code] = number
    return found


def _numbers(codes: Ints) -> Iterable[tuple[int, int]]:
    if not codes.size:
        return ()
    low, high = int(codes.min()), int(codes.max())
    if low == high:
        return ((low, codes.size),)
    if high - low <= WIDEST:
        counted = np.bincount(codes - low)
        return [(value + low, counted.item(value)) for value in np.flatnonzero(counted).tolist()]
    values, numbers = np.unique(codes, return_counts=True)
    return zip(values.tolist(), numbers.tolist(), strict=True)
