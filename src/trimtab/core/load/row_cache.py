"""Columns that follow from others, redone only in the rows that were touched since they were last asked for."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.load.array_table import Floats

MAX_INVALID_ROWS = 32  # touched rows, above which all of them at once are cheaper

Compute = Callable[[slice], tuple[Floats, ...]]
ComputeRow = Callable[[int], tuple[float, ...]]
ALL_ROWS = slice(None)


class RowCache:
    """Kept answers of one function of rows."""

    def __init__(self) -> None:
        self.columns: tuple[Floats, ...] = ()
        self._invalid_rows: list[int] = []

    def invalidate_row(self, row: int) -> None:
        if self.columns:
            self._invalid_rows.append(row)

    def clear(self) -> None:
        self.columns, self._invalid_rows = (), []

    def get(self, derive: Compute, one: ComputeRow | None = None) -> tuple[Floats, ...]:
        """The columns as they are now; `one` is a cheaper way to the cells of a single row."""
        if len(self._invalid_rows) > MAX_INVALID_ROWS:
            self.clear()
        if not self.columns:
            self.columns = derive(ALL_ROWS)
        for row in self._invalid_rows:
            cells = one(row) if one is not None else [column[0] for column in derive(slice(row, row + 1))]
            for column, cell in zip(self.columns, cells, strict=True):
                column[row] = cell
        self._invalid_rows = []
        return self.columns
