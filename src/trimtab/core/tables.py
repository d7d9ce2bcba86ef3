"""Tables of numpy arrays: columns of one length that grow, move and are copied together, and exact integer columns."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy as shallow_copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.model.resources import MAX_AMOUNT

Index = NDArray[np.intp]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Selection = Index | slice

NO_ROW = -1  # of a free slot, and of a pod on an unknown node


class Column(NamedTuple):
    """How a column is allocated: the default of unused cells, the element type, and any leading dimensions."""

    default: float
    dtype: Any
    shape: tuple[int, ...]


def column(default: float = 0.0, dtype: Any = np.float64, shape: tuple[int, ...] = ()) -> Any:
    """Declare a column in the body of an `ArrayTable`; the annotation gives its type to the type checker."""
    return Column(default, dtype, shape)


class ArrayTable:
    """Arrays whose last axis is the same: a node's row or a pod's slot. They are longer than there are rows in use.

    A subclass declares each array once, as `name: Floats = column(default)`.
    """

    COLUMNS: ClassVar[Mapping[str, Column]] = {}
    _shared = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, Column)}
        cls.COLUMNS = {**cls.COLUMNS, **declared}
        for name in declared:
            delattr(cls, name)

    def __init__(self, size: int) -> None:
        self.size = size
        for name, (default, dtype, shape) in self.COLUMNS.items():
            setattr(self, name, np.full((*shape, size), default, dtype=dtype))

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.COLUMNS)

    def grow(self, size: int) -> None:
        for name, (default, dtype, shape) in self.COLUMNS.items():
            grown = np.full((*shape, size), default, dtype=dtype)
            grown[..., : self.size] = getattr(self, name)
            setattr(self, name, grown)
        self.size, self._shared = size, False

    def clear(self, cell: int) -> None:
        self.ensure_writable()
        for name, (default, _, _) in self.COLUMNS.items():
            getattr(self, name)[..., cell] = default

    def move(self, source: int, target: int) -> None:
        """Move one cell's values to another cell, and clear the first."""
        self.ensure_writable()
        for name in self.COLUMNS:
            array = getattr(self, name)
            array[..., target] = array[..., source]
        self.clear(source)

    def reordered(self, cells: Index) -> Self:
        """A copy whose cell c holds what `cells[c]` holds here."""
        copy = self.copy()
        for name in self.COLUMNS:
            setattr(copy, name, getattr(self, name)[..., cells])
        copy.size, copy._shared = len(cells), False
        return copy

    def copy(self) -> Self:
        copy = shallow_copy(self)
        for name in self.COLUMNS:
            setattr(copy, name, getattr(self, name).copy())
        copy._shared = False
        return copy

    def share(self) -> Self:
        """A copy that shares the arrays until one of the two is written; writers call `ensure_writable` first."""
        self._shared = True
        return shallow_copy(self)

    def ensure_writable(self) -> None:
        if self._shared:
            for name in self.COLUMNS:
                setattr(self, name, getattr(self, name).copy())
            self._shared = False


class ExactColumn:
    """An integer column that cannot overflow: exact sums in Python integers, mirrored into int64 up to `MAX_AMOUNT`."""

    __slots__ = ("array", "exact")

    def __init__(self, size: int) -> None:
        self.exact = [0] * size
        self.array: Ints = np.zeros(size, dtype=np.int64)

    def add(self, row: int, amount: int) -> None:
        total = self.exact[row] + amount
        self.exact[row] = total
        self.array[row] = total if total < MAX_AMOUNT else MAX_AMOUNT

    def set(self, row: int, amount: int) -> None:
        self.exact[row] = amount
        self.array[row] = min(amount, MAX_AMOUNT)

    def grow(self, size: int) -> None:
        extra = size - len(self.exact)
        self.exact.extend([0] * extra)
        self.array = np.concatenate([self.array, np.zeros(extra, dtype=np.int64)])

    def copy(self) -> ExactColumn:
        copy = object.__new__(ExactColumn)
        copy.exact = self.exact.copy()
        copy.array = self.array.copy()
        return copy


def sum_by_row(rows: Index, amounts: Floats | Bools, size: int) -> Floats:
    """Sum the amounts of each row; row -1 is left out."""
    return np.asarray(np.bincount(rows + 1, amounts, minlength=size + 1)[1:], dtype=np.float64)


def indices_of(names: tuple[str, ...], index: Mapping[str, int]) -> Index:
    """Look names up; -1 for unknown ones."""
    try:
        return np.fromiter(map(index.__getitem__, names), dtype=np.intp, count=len(names))
    except KeyError:
        return np.fromiter((index.get(name, -1) for name in names), dtype=np.intp, count=len(names))
