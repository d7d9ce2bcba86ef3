"""Pods that hold a place, as far as measurements ask about them: where, since when, leaving or not; counts nothing.

(came) ─▶ standing ── deletion seen ──▶ leaving ──▶ (left)
              ▲                            │
              └── still there after `stale`┘   long graces and stuck finalizers: what is used, is used
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from trimtab.core.load.aligned import Aligned, Bools, Floats, Index, Picked, numbered
from trimtab.core.model.pod import Pod

NOWHERE = -1
FIRST_SIZE = 64


class Standing(Aligned):
    """By slot: `row`, when the pod was `placed` (as far as we saw), `since` when it runs, and when it began `leaving`."""

    BLANKS: ClassVar[Mapping[str, float]] = {
        "row": NOWHERE,
        "placed": -np.inf,
        "since": -np.inf,
        "leaving": np.nan,
        "taken": False,
        "kin": -1,
    }

    def __init__(self, slots: int = FIRST_SIZE) -> None:
        self.row: Index = np.full(slots, NOWHERE, dtype=np.intp)
        self.placed: Floats = np.full(slots, -np.inf)
        self.since: Floats = np.full(slots, -np.inf)
        self.leaving: Floats = np.full(slots, np.nan)
        self.taken: Bools = np.zeros(slots, dtype=np.bool_)
        self.kin: Index = np.full(slots, -1, dtype=np.intp)
        self.slot: dict[str, int] = {}  # by namespace/name, which is all that metrics know
        self.keys: dict[int, str] = {}
        self.end = 0  # no slot from here on was ever taken
        self._index: tuple[tuple[str, ...], Index] | None = None

    def came(self, slot: int, pod: Pod, row: int, now: float, kin: int) -> None:
        key = pod.key
        self.slot[key], self.keys[slot] = slot, key
        if slot >= self.end:
            self.end = slot + 1
        since = now if pod.started is None else pod.started
        self.row[slot], self.kin[slot], self.taken[slot] = row, kin, True
        self.placed[slot] = self.since[slot] = since
        self.leaving[slot] = now if pod.deleting and now > -np.inf else np.nan
        self._index = None

    def altered(self, slot: int, pod: Pod, now: float) -> bool:
        """Whether anything that is counted has changed; most news of a pod are about nothing of the kind."""
        since = self.since.item(slot) if pod.started is None else pod.started
        was_leaving = self.leaving.item(slot) == self.leaving.item(slot)
        if since == self.since.item(slot) and pod.deleting == was_leaving:
            return False
        self.since[slot] = since
        if pod.deleting != was_leaving:
            self.leaving[slot] = now if pod.deleting else np.nan
        return True

    def left(self, slot: int) -> None:
        key = self.keys.pop(slot)
        if self.slot.get(key) == slot:  # else its successor of the same name came before it had gone
            del self.slot[key]
        self.row[slot], self.taken[slot], self.leaving[slot] = NOWHERE, False, np.nan
        self.placed[slot] = self.since[slot] = -np.inf
        self._index = None

    def close_row(self, row: int, last: int) -> Index:
        """Returns who stands nowhere now."""
        unseated = np.flatnonzero(self.row == row)
        self.row[unseated] = NOWHERE
        self.row[self.row == last] = row
        return unseated

    def leave(self, slots: Picked, judged: float, patience: float) -> Bools:
        """Who is on the way out, and not for so long that this can no longer be called soon."""
        return np.asarray(judged <= self.leaving[slots] + patience)

    def index(self, names: tuple[str, ...]) -> Index:
        """Slots of these pods, -1 for those that nobody knows; kept while nobody comes or goes."""
        if self._index is None or (self._index[0] is not names and self._index[0] != names):
            self._index = names, numbered(names, self.slot)
        return self._index[1]

    def reordered(self, cells: Index) -> Self:
        twin = super().reordered(cells)
        twin.keys = {new: self.keys[old] for new, old in enumerate(cells.tolist()) if old in self.keys}
        new = {old: slot for slot, old in enumerate(cells.tolist())}
        twin.slot = {key: new[old] for key, old in self.slot.items() if old in new}
        twin._index, twin.end = None, len(cells)
        return twin

    def copy(self) -> Self:
        twin = super().copy()
        twin.slot, twin.keys = self.slot.copy(), self.keys.copy()
        return twin
