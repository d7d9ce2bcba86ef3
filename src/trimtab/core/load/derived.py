"""Columns that follow from others, redone only in the rows that were touched since they were last asked for."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.load.aligned import Floats

MOST = 32  # touched rows, above which all of them at once are cheaper

Derive = Callable[[slice], tuple[Floats, ...]]
ALL = slice(None)


class Derived:
    """Kept answers of one function of rows."""

    def __init__(self) -> None:
        self.columns: tuple[Floats, ...] = ()
        self._touched: list[int] = []

    def touch(self, row: int) -> None:
        if self.columns:
            self._touched.append(row)

    def drop(self) -> None:
        self.columns, self._touched = (), []

    def get(self, derive: Derive) -> tuple[Floats, ...]:
        if len(self._touched) > MOST:
            self.drop()
        if not self.columns:
            self.columns = derive(ALL)
        for row in self._touched:
            for column, cells in zip(self.columns, derive(slice(row, row + 1)), strict=True):
                column[row] = cells[0]
        self._touched = []
        return self.columns
