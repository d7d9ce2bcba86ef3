"""Arrays whose last axis means the same cells: they grow, move and are copied together; what they hold is for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Picked = Index | slice


def sums(cells: Index, amounts: Floats | Bools, size: int) -> Floats:
    """What the amounts come to in each cell; those of cell -1 are nobody's."""
    return np.asarray(np.bincount(cells + 1, amounts, minlength=size + 1)[1:], dtype=np.float64)


def numbered(names: tuple[str, ...], numbers: Mapping[str, int]) -> Index:
    """Where each stands, -1 for those that nobody knows."""
    try:
        return np.fromiter(map(numbers.__getitem__, names), dtype=np.intp, count=len(names))
    except KeyError:
        return np.fromiter((numbers.get(name, -1) for name in names), dtype=np.intp, count=len(names))


class Aligned:
    """`BLANKS` names the arrays, and says what stands in a cell that nobody uses."""

    BLANKS: ClassVar[Mapping[str, float]] = {}

    @property
    def size(self) -> int:
        return int(getattr(self, next(iter(self.BLANKS))).shape[-1])

    def grow(self, size: int) -> None:
        for name, blank in self.BLANKS.items():
            old: NDArray[Any] = getattr(self, name)
            grown = np.empty((*old.shape[:-1], size), dtype=old.dtype)
            grown[..., : old.shape[-1]] = old
            grown[..., old.shape[-1] :] = blank
            setattr(self, name, grown)

    def clear(self, cell: int) -> None:
        for name, blank in self.BLANKS.items():
            getattr(self, name)[..., cell] = blank

    def move(self, source: int, target: int) -> None:
        """What stood in one cell stands in the other now, and nothing where it was."""
        for name in self.BLANKS:
            array = getattr(self, name)
            array[..., target] = array[..., source]
        self.clear(source)

    def reordered(self, cells: Index) -> Self:
        """A twin whose cell c holds what `cells[c]` held."""
        twin = self.copy()
        for name in self.BLANKS:
            setattr(twin, name, getattr(self, name)[..., cells])
        return twin

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        for name in self.BLANKS:
            setattr(twin, name, getattr(self, name).copy())
        return twin


class Lent(Aligned):
    """Large ones: a copy borrows the arrays, and whoever writes first takes arrays of its own (`own`)."""

    lent = False

    def own(self) -> None:
        """To be called before every write."""
        if self.lent:
            for name in self.BLANKS:
                setattr(self, name, getattr(self, name).copy())
            self.lent = False

    def grow(self, size: int) -> None:
        super().grow(size)
        self.lent = False

    def clear(self, cell: int) -> None:
        self.own()
        super().clear(cell)

    def move(self, source: int, target: int) -> None:
        self.own()
        super().move(source, target)

    def reordered(self, cells: Index) -> Self:
        twin = self.copy()
        for name in self.BLANKS:
            setattr(twin, name, getattr(self, name)[..., cells])
        twin.lent = False
        return twin

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        self.lent = twin.lent = True
        return twin
