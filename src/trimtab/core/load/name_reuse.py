"""Which nodes have the name of another one that has gone, and until when that was there; what it means is for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from trimtab.core.load.array_table import ArrayTable, Floats

MAX_DELETED_NAMES = 20_000


class NodeNameHistory(ArrayTable):
    """By row: `after` is when the node was there that had this name before, -inf for none that anybody saw."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {"after": -np.inf}

    def __init__(self, rows: int) -> None:
        self.after: Floats = np.full(rows, -np.inf)
        self._deleted_at: dict[str, float] = {}

    def node_added(self, row: int, name: str) -> None:
        self.after[row] = self._deleted_at.get(name, -np.inf)

    def node_removed(self, name: str, at: float) -> None:
        self._deleted_at.pop(name, None)
        self._deleted_at[name] = at
        if len(self._deleted_at) > MAX_DELETED_NAMES:
            del self._deleted_at[next(iter(self._deleted_at))]

    def copy(self) -> Self:
        twin = super().copy()
        twin._deleted_at = self._deleted_at.copy()
        return twin
