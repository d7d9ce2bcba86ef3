"""Arrays whose last axis means the same cells: they grow, move and are copied together; what they hold is for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Selection = Index | slice


def sum_by_row(cells: Index, amounts: Floats | Bools, size: int) -> Floats:
    """What the amounts come to in each cell; those of cell -1 are nobody's."""
    return np.asarray(np.bincount(cells + 1, amounts, minlength=size + 1)[1:], dtype=np.float64)


def indices_of(names: tuple[str, ...], numbers: Mapping[str, int]) -> Index:
    """Where each stands, -1 for those that nobody knows."""
    try:
        return np.fromiter(map(numbers.__getitem__, names), dtype=np.intp, count=len(names))
    except KeyError:
        return np.fromiter((numbers.get(name, -1) for name in names), dtype=np.intp, count=len(names))


class ArrayTable:
    """`DEFAULTS` names the arrays, and says what stands in a cell that nobody uses."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {}

    @property
    def size(self) -> int:
        return int(getattr(self, next(iter(self.DEFAULTS))).shape[-1])

    def grow(self, size: int) -> None:
        for name, blank in self.DEFAULTS.items():
            old: NDArray[Any] = getattr(self, name)
            grown = np.empty((*old.shape[:-1], size), dtype=old.dtype)
            grown[..., : old.shape[-1]] = old
            grown[..., old.shape[-1] :] = blank
            setattr(self, name, grown)

    def clear(self, cell: int) -> None:
        for name, blank in self.DEFAULTS.items():
            getattr(self, name)[..., cell] = blank

    def move(self, source: int, target: int) -> None:
        """What stood in one cell stands in the other now, and nothing where it was."""
        for name in self.DEFAULTS:
            array = getattr(self, name)
            array[..., target] = array[..., source]
        self.clear(source)

    def reordered(self, cells: Index) -> Self:
        """A twin whose cell c holds what `cells[c]` held."""
        twin = self.copy()
        for name in self.DEFAULTS:
            setattr(twin, name, getattr(self, name)[..., cells])
        return twin

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        for name in self.DEFAULTS:
            setattr(twin, name, getattr(self, name).copy())
        return twin


class CowArrayTable(ArrayTable):
    """Large ones: a copy borrows the arrays, and whoever writes first takes arrays of its own (`own`)."""

    shared = False

    def ensure_writable(self) -> None:
        """To be called before every write."""
        if self.shared:
            for name in self.DEFAULTS:
                setattr(self, name, getattr(self, name).copy())
            self.shared = False

    def grow(self, size: int) -> None:
        super().grow(size)
        self.shared = False

    def clear(self, cell: int) -> None:
        self.ensure_writable()
        super().clear(cell)

    def move(self, source: int, target: int) -> None:
        self.ensure_writable()
        super().move(source, target)

    def reordered(self, cells: Index) -> Self:
        twin = self.copy()
        for name in self.DEFAULTS:
            setattr(twin, name, getattr(self, name)[..., cells])
        twin.shared = False
        return twin

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        self.shared = twin.shared = True
        return twin
