"""Which nodes have the name of another one that has gone, and until when that was there; what it means is for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from trimtab.core.load.aligned import Aligned, Floats

MOST_GONE = 20_000


class Ground(Aligned):
    """By row: `after` is when the node was there that had this name before, -inf for none that anybody saw."""

    BLANKS: ClassVar[Mapping[str, float]] = {"after": -np.inf}

    def __init__(self, rows: int) -> None:
        self.after: Floats = np.full(rows, -np.inf)
        self._gone: dict[str, float] = {}

    def opened(self, row: int, name: str) -> None:
        self.after[row] = self._gone.get(name, -np.inf)

    def closed(self, name: str, at: float) -> None:
        self._gone.pop(name, None)
        self._gone[name] = at
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def copy(self) -> Self:
        twin = super().copy()
        twin._gone = self._gone.copy()
        return twin
