"""Columns that follow from others, redone only in the rows that were touched since they were last asked for."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.load.aligned import Floats

MOST = 32  # touched rows, above which all of them at once are cheaper

Derive = Callable[[slice], tuple[Floats, ...]]
DeriveOne = Callable[[int], tuple[float, ...]]
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

    def get(self, derive: Derive, one: DeriveOne | None = None) -> tuple[Floats, ...]:
        """The columns as they are now; `one` is a cheaper way to the cells of a single row."""
        if len(self._touched) > MOST:
            self.drop()
        if not self.columns:
            self.columns = derive(ALL)
        for row in self._touched:
            cells = one(row) if one is not None else [column[0] for column in derive(slice(row, row + 1))]
            for column, cell in zip(self.columns, cells, strict=True):
                column[row] = cell
        self._touched = []
        return self.columns
