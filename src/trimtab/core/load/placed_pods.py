"""Pods that hold a place, as far as measurements ask about them: where, since when, leaving or not; counts nothing.

(came) ─▶ standing ── deletion seen ──▶ leaving ──▶ (left)
              ▲                            │
              └── still there after `stale`┘   long graces and stuck finalizers: what is used, is used
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from trimtab.core.load.array_table import ArrayTable, Bools, Floats, Index, Selection, indices_of
from trimtab.core.model.pod import Pod

NO_ROW = -1
FIRST_SIZE = 64
MAX_DELETED_NAMES = 20_000  # names, of which the last owner is remembered


class PlacedPods(ArrayTable):
    """By slot: `row`, when the pod was `placed` (as far as we saw), `since` when it runs, when it began `leaving`, and
    `after` whom: when the last one that had its name was there, another pod, perhaps on another node."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {
        "row": NO_ROW,
        "placed": -np.inf,
        "since": -np.inf,
        "started": np.nan,
        "leaving": np.nan,
        "after": -np.inf,
        "taken": False,
        "kin": -1,
    }

    def __init__(self, slots: int = FIRST_SIZE) -> None:
        self.row: Index = np.full(slots, NO_ROW, dtype=np.intp)
        self.placed: Floats = np.full(slots, -np.inf)
        self.since: Floats = np.full(slots, -np.inf)
        self.started: Floats = np.full(slots, np.nan)  # by the clock of its node
        self.leaving: Floats = np.full(slots, np.nan)
        self.after: Floats = np.full(slots, -np.inf)
        self.taken: Bools = np.zeros(slots, dtype=np.bool_)
        self.kin: Index = np.full(slots, -1, dtype=np.intp)
        self.slot: dict[str, int] = {}  # by namespace/name, which is all that metrics know
        self.keys: dict[int, tuple[str, str]] = {}  # with the UID
        self.deleted_names: dict[
            str, tuple[str, float, float]
        ] = {}  # who had the name: UID, until when, and after whom
        self.end = 0  # no slot from here on was ever taken
        self._index: tuple[tuple[str, ...], Index] | None = None

    def add_pod(self, slot: int, pod: Pod, row: int, now: float, kin: int) -> None:
        key = pod.key
        self.after[slot] = self._name_free_since(key, pod.uid, now)
        self.slot[key], self.keys[slot] = slot, (key, pod.uid)
        if slot >= self.end:
            self.end = slot + 1
        if pod.started is None:
            since, self.started[slot] = now if now > -np.inf else pod.created or now, np.nan
        else:
            since, self.started[slot] = _start_time(pod.started, now), pod.started
        since = max(since, self.after.item(slot))
        self.row[slot], self.kin[slot], self.taken[slot] = row, kin, True
        self.placed[slot] = self.since[slot] = since
        self.leaving[slot] = now if pod.terminating and now > -np.inf else np.nan
        self._index = None

    def update_pod(self, slot: int, pod: Pod, now: float) -> bool:
        """Whether anything that is counted has changed; most news of a pod are about nothing of the kind. It has not run
        before it was placed, whatever the clock of its node says."""
        since = self.since.item(slot)
        if pod.started is not None and pod.started != self.started.item(slot):
            since, self.started[slot] = max(_start_time(pod.started, now), self.placed.item(slot)), pod.started
        was_leaving = self.leaving.item(slot) == self.leaving.item(slot)
        if since == self.since.item(slot) and pod.terminating == was_leaving:
            return False
        self.since[slot] = since
        if pod.terminating != was_leaving:
            self.leaving[slot] = now if pod.terminating else np.nan
        return True

    def remove_pod(self, slot: int, now: float) -> None:
        key, uid = self.keys.pop(slot)
        heir = self.slot.get(key)
        if heir == slot:
            del self.slot[key]
        elif heir is not None:  # its successor of the same name came before it had gone
            self.after[heir] = max(self.after.item(heir), now)
        self.deleted_names.pop(key, None)
        self.deleted_names[key] = uid, now, self.after.item(slot)
        if len(self.deleted_names) > MAX_DELETED_NAMES:
            del self.deleted_names[next(iter(self.deleted_names))]
        self.row[slot], self.taken[slot], self.leaving[slot] = NO_ROW, False, np.nan
        self.placed[slot] = self.since[slot] = -np.inf
        self._index = None

    def _name_free_since(self, key: str, uid: str, now: float) -> float:
        """When another pod of this name was last there."""
        held = self.slot.get(key)
        if held is not None:
            return now if self.keys[held][1] != uid else self.after.item(held)
        before, gone, after = self.deleted_names.get(key, (uid, -np.inf, -np.inf))
        return gone if before != uid else after

    def remove_row(self, row: int, last: int) -> Index:
        """Returns who stands nowhere now."""
        unseated = np.flatnonzero(self.row == row)
        self.row[unseated] = NO_ROW
        self.row[self.row == last] = row
        return unseated

    def is_terminating(self, slots: Selection, judged: float, timeout: float) -> Bools:
        """Who is on the way out, and not for so long that this can no longer be called soon."""
        return np.asarray(judged <= self.leaving[slots] + timeout)

    def slots_of(self, names: tuple[str, ...]) -> Index:
        """Slots of these pods, -1 for those that nobody knows; kept while nobody comes or goes."""
        if self._index is None or (self._index[0] is not names and self._index[0] != names):
            self._index = names, indices_of(names, self.slot)
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
        twin.slot, twin.keys, twin.deleted_names = self.slot.copy(), self.keys.copy(), self.deleted_names.copy()
        return twin


def _start_time(started: float, now: float) -> float:
    """What is seen to run has begun: its node's clock may be ahead."""
    return min(started, now) if now > -np.inf else started
