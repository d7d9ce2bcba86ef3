"""Tables of numpy arrays: columns of one length that grow, move and are copied together; exact integer columns; and what
copies share until one of them changes it: large matrices, and groups, dictionaries by name."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy as shallow_copy
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.core.model.resources import MAX_AMOUNT

Index = NDArray[np.intp]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bools = NDArray[np.bool_]
Selection = Index | slice
V = TypeVar("V")

PIECE = 1 << 14
ALIGNMENT = 64  # bytes: a column begins where a cache line does
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
            setattr(self, name, _default_cells((*shape, size), default, dtype))

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.COLUMNS)

    def grow(self, size: int) -> None:
        for name, (default, dtype, shape) in self.COLUMNS.items():
            grown = _default_cells((*shape, size), default, dtype)
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
        copy._copy_columns()
        return copy

    def share(self) -> Self:
        """A copy that shares the arrays until one of the two is written; writers call `ensure_writable` first, and one that
        does not gets an error."""
        self._shared = True
        for name in self.COLUMNS:
            getattr(self, name).flags.writeable = False
        return shallow_copy(self)

    def ensure_writable(self) -> None:
        if self._shared:
            self._copy_columns()

    def _copy_columns(self) -> None:
        """Into one piece of memory: for large ones numpy asks for huge pages, and small pages would take most of the time."""
        arrays = [getattr(self, name) for name in self.COLUMNS]
        ends = np.cumsum([-(-each.nbytes // ALIGNMENT) * ALIGNMENT for each in arrays]).tolist()
        memory = np.empty(ends[-1], dtype=np.uint8)
        for name, array, start in zip(self.COLUMNS, arrays, [0, *ends], strict=False):
            cells = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            cells[...] = array
            setattr(self, name, cells)
        self._shared = False


def _default_cells(shape: tuple[int, ...], default: float, dtype: Any) -> NDArray[Any]:
    """Zeros take no time, and no memory until something else is written to them."""
    return np.full(shape, default, dtype=dtype) if default else np.zeros(shape, dtype=dtype)


class SharedMatrix:
    """Numbers by line and cell, NaN at first.

    Copies share them until one of them writes, and then copy only the pieces that it writes to: a piece is `PIECE` cells of
    one line. Lines without numbers have the same pieces.
    """

    __slots__ = ("_empty", "_own", "_pieces", "size")

    def __init__(self, lines: int, size: int) -> None:
        self.size, self._empty, self._own = 0, list[Singles](), set[tuple[int, int]]()
        self._pieces: list[list[Singles]] = [[] for _ in range(lines)]
        self.grow(size)

    def grow(self, size: int) -> None:
        empty = [np.full(min(PIECE, size - at), np.nan, dtype=np.float32) for at in range(0, size, PIECE)]
        empty[: self.size // PIECE] = self._empty[: self.size // PIECE]
        for line, pieces in enumerate(self._pieces):
            grown = empty.copy()
            for number, piece in enumerate(pieces):
                if len(piece) == len(empty[number]):
                    grown[number] = piece
                elif piece is not self._empty[number]:
                    grown[number] = np.concatenate([piece, empty[number][len(piece) :]])
                    self._own.add((line, number))
            self._pieces[line] = grown
        self.size, self._empty = size, empty

    def line(self, number: int) -> Singles:
        """To be read only."""
        pieces = self._pieces[number]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [np.zeros(0, dtype=np.float32)])

    def column(self, cell: int) -> Singles:
        number, at = divmod(cell, PIECE)
        return np.array([pieces[number][at] for pieces in self._pieces], dtype=np.float32)

    def write(self, number: int, cells: Index, values: Floats | Singles) -> None:
        """In one line."""
        pieces = cells // PIECE
        for piece in np.unique(pieces).tolist():
            here = pieces == piece
            self._writable(number, piece)[cells[here] - piece * PIECE] = values[here]

    def write_column(self, cell: int, values: Singles) -> None:
        """Lines that have the value already are not touched."""
        number, at = divmod(cell, PIECE)
        before = self.column(cell)
        for line in np.flatnonzero((before != values) & ~(np.isnan(before) & np.isnan(values))).tolist():
            self._writable(line, number)[at] = values[line]

    def clear_line(self, number: int) -> None:
        self._pieces[number] = self._empty.copy()
        self._own -= {(number, piece) for piece in range(len(self._empty))}

    def copy(self) -> SharedMatrix:
        copy = shallow_copy(self)
        copy._pieces = [pieces.copy() for pieces in self._pieces]
        self._own, copy._own = set(), set()
        return copy

    def reordered(self, cells: Index) -> SharedMatrix:
        """A copy whose cell c holds what `cells[c]` holds here."""
        copy = SharedMatrix(len(self._pieces), len(cells))
        for number in range(len(self._pieces)):
            copy.write(number, np.arange(len(cells)), self.line(number)[cells])
        return copy

    def _writable(self, line: int, piece: int) -> Singles:
        if (line, piece) not in self._own:
            self._own.add((line, piece))
            self._pieces[line][piece] = self._pieces[line][piece].copy()
        return self._pieces[line][piece]


class ExactColumn:
    """An integer column that cannot overflow: exact sums in Python integers, mirrored into int64 up to `MAX_AMOUNT`.

    It takes no more room than it has values: the array is made when it is first read. A copy shares both until one of the
    two is written.
    """

    __slots__ = ("_array", "_shared", "_size", "exact")

    def __init__(self, size: int, exact: dict[int, int] | None = None) -> None:
        self.exact: dict[int, int] = {} if exact is None else exact  # by row, without zeros
        self._array: Ints | None = None
        self._size, self._shared = size, False

    @property
    def array(self) -> Ints:
        if self._array is None:
            self._array, used = np.zeros(self._size, dtype=np.int64), len(self.exact)
            amounts = (amount if amount < MAX_AMOUNT else MAX_AMOUNT for amount in self.exact.values())
            self._array[np.fromiter(self.exact, np.intp, used)] = np.fromiter(amounts, np.int64, used)
        return self._array

    def add(self, row: int, amount: int) -> None:
        self.set(row, self.exact.get(row, 0) + amount)

    def set(self, row: int, amount: int) -> None:
        if self._shared:
            self._unshare()
        if amount:
            self.exact[row] = amount
        else:
            self.exact.pop(row, None)
        if self._array is not None:
            self._array[row] = amount if amount < MAX_AMOUNT else MAX_AMOUNT

    def grow(self, size: int) -> None:
        self._unshare()
        if self._array is not None:
            self._array = np.concatenate([self._array, np.zeros(size - self._size, dtype=np.int64)])
        self._size = size

    def copy(self) -> ExactColumn:
        self._shared = True
        return shallow_copy(self)

    def with_array(self, array: Ints) -> ExactColumn:
        """The same with other amounts, to be read only."""
        copy = self.copy()
        copy._array = array
        return copy

    def _unshare(self) -> None:
        self.exact = self.exact.copy()
        self._array = None if self._array is None else self._array.copy()
        self._shared = False


class Groups(dict[str, dict[str, V]]):
    """Dictionaries by name, such as the pods of each node; none of them is empty.

    A copy shares them until one of the two changes them: writers call `put` and `remove`.
    """

    __slots__ = ("_own",)

    def __init__(self) -> None:
        super().__init__()
        self._own: set[str] = set()  # the names of those that are not shared

    def put(self, name: str, key: str, value: V) -> None:
        self._writable(name)[key] = value

    def remove(self, name: str, key: str) -> None:
        group = self._writable(name)
        group.pop(key, None)
        if not group:
            del self[name]
            self._own.remove(name)

    def _writable(self, name: str) -> dict[str, V]:
        if name not in self._own:
            self[name] = self.get(name, {}).copy()
            self._own.add(name)
        return self[name]

    def copy(self) -> Groups[V]:
        copy: Groups[V] = Groups()
        copy.update(self)
        self._own = set()
        return copy


def set_amount(columns: dict[str, ExactColumn], name: str, row: int, amount: int, size: int) -> None:
    """Set the amount, in a new column if none of the rows has one yet; a zero makes no column."""
    column = columns.get(name)
    if column is not None:
        column.set(row, amount)
    elif amount:
        columns[name] = ExactColumn(size, {row: amount})


def clear_amount(columns: dict[str, ExactColumn], name: str, row: int) -> None:
    """Set the amount to zero, and drop the column if it has no other."""
    column = columns.get(name)
    if column is not None:
        column.set(row, 0)
        if not column.exact:
            del columns[name]


def sum_by_row(rows: Index, amounts: Floats | Bools, size: int) -> Floats:
    """Sum the amounts of each row; row -1 is left out."""
    return np.asarray(np.bincount(rows + 1, amounts, minlength=size + 1)[1:], dtype=np.float64)


def indices_of(names: tuple[str, ...], index: Mapping[str, int]) -> Index:
    """Look names up; -1 for unknown ones."""
    try:
        return np.fromiter(map(index.__getitem__, names), dtype=np.intp, count=len(names))
    except KeyError:
        return np.fromiter((index.get(name, -1) for name in names), dtype=np.intp, count=len(names))
