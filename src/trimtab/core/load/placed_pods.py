"""Pods that have a place, as far as measurements need them: the row, since when, and whether they are terminating.

(add_pod) ─▶ placed ── deletion seen ──▶ terminating ──▶ (remove_pod)
                ▲                            │
                └── still there after `stale`┘   long grace periods and stuck finalizers: the pod counts again
"""

from __future__ import annotations

from typing import Self

import numpy as np

from trimtab.core.load.estimates import WorkloadKey, workload_key
from trimtab.core.model.pod import Pod
from trimtab.core.tables import NO_ROW, ArrayTable, Bools, Floats, Index, Selection, column, indices_of

FIRST_SIZE = 64
MAX_DELETED_NAMES = 20_000


class PlacedPods(ArrayTable):
    """By slot. Metrics know a pod only by namespace and name, which another pod, perhaps on another node, may have had
    before: samples that reach back to `name_free_since` or earlier are rejected.
    """

    row: Index = column(NO_ROW, np.intp)
    placed_at: Floats = column(-np.inf)
    running_since: Floats = column(-np.inf)
    started_at: Floats = column(np.nan)  # by the clock of its node
    terminating_since: Floats = column(np.nan)
    name_free_since: Floats = column(-np.inf)
    in_use: Bools = column(False, np.bool_)
    workload: Index = column(-1, np.intp)

    def __init__(self, slots: int = FIRST_SIZE) -> None:
        super().__init__(slots)
        self.slot: dict[str, int] = {}  # by namespace/name
        self.keys: dict[int, tuple[str, str, WorkloadKey | None]] = {}  # namespace/name, UID and workload, by slot
        self.deleted_names: dict[str, tuple[str, float, float]] = {}  # UID, when removed, its own name_free_since
        self.end = 0  # no slot from here on was ever used
        self._slots_of: tuple[tuple[str, ...], Index] | None = None

    def add_pod(self, slot: int, pod: Pod, row: int, now: float, workload: int) -> None:
        key = pod.key
        self.name_free_since[slot] = self._name_free_since(key, pod.uid, now)
        self.slot[key], self.keys[slot] = slot, (key, pod.uid, workload_key(pod))
        if slot >= self.end:
            self.end = slot + 1
        if pod.started is None:
            since, self.started_at[slot] = now if now > -np.inf else pod.created or now, np.nan
        else:
            since, self.started_at[slot] = _start_time(pod.started, now), pod.started
        since = max(since, self.name_free_since.item(slot))
        self.row[slot], self.workload[slot], self.in_use[slot] = row, workload, True
        self.placed_at[slot] = self.running_since[slot] = since
        self.terminating_since[slot] = now if pod.terminating and now > -np.inf else np.nan
        self._slots_of = None

    def update_pod(self, slot: int, pod: Pod, now: float) -> bool:
        """Whether anything that matters here has changed. A pod does not run before it is placed, whatever the clock of
        its node says."""
        since = self.running_since.item(slot)
        if pod.started is not None and pod.started != self.started_at.item(slot):
            since, self.started_at[slot] = max(_start_time(pod.started, now), self.placed_at.item(slot)), pod.started
        was_terminating = self.terminating_since.item(slot) == self.terminating_since.item(slot)
        if since == self.running_since.item(slot) and pod.terminating == was_terminating:
            return False
        self.running_since[slot] = since
        if pod.terminating != was_terminating:
            self.terminating_since[slot] = now if pod.terminating else np.nan
        return True

    def remove_pod(self, slot: int, now: float) -> None:
        key, uid, _ = self.keys.pop(slot)
        successor = self.slot.get(key)
        if successor == slot:
            del self.slot[key]
        elif successor is not None:  # a pod of the same name was added before this one was removed
            self.name_free_since[successor] = max(self.name_free_since.item(successor), now)
        self.deleted_names.pop(key, None)
        self.deleted_names[key] = uid, now, self.name_free_since.item(slot)
        if len(self.deleted_names) > MAX_DELETED_NAMES:
            del self.deleted_names[next(iter(self.deleted_names))]
        self.row[slot], self.in_use[slot], self.terminating_since[slot] = NO_ROW, False, np.nan
        self.placed_at[slot] = self.running_since[slot] = -np.inf
        self._slots_of = None

    def workload_key(self, slot: int) -> WorkloadKey | None:
        """None for a pod without an owner."""
        return self.keys[slot][2]

    def _name_free_since(self, key: str, uid: str, now: float) -> float:
        """When another pod last had this name."""
        slot = self.slot.get(key)
        if slot is not None:
            return now if self.keys[slot][1] != uid else self.name_free_since.item(slot)
        last_uid, removed_at, free_since = self.deleted_names.get(key, (uid, -np.inf, -np.inf))
        return removed_at if last_uid != uid else free_since

    def remove_row(self, row: int, last: int) -> Index:
        """The last row moves into the removed one; returns the slots of pods that have no row now."""
        orphaned = np.flatnonzero(self.row == row)
        self.row[orphaned] = NO_ROW
        self.row[self.row == last] = row
        return orphaned

    def is_terminating(self, slots: Selection, now: float, stale_after: float) -> Bools:
        """Terminating pods, except those that have been for so long that they count again."""
        return np.asarray(now <= self.terminating_since[slots] + stale_after)

    def slots_of(self, names: tuple[str, ...]) -> Index:
        """Slots of these pods, -1 for unknown ones; cached until a pod is added or removed."""
        if self._slots_of is None or (self._slots_of[0] is not names and self._slots_of[0] != names):
            self._slots_of = names, indices_of(names, self.slot)
        return self._slots_of[1]

    def reordered(self, cells: Index) -> Self:
        copy = super().reordered(cells)
        new_slot = {old: slot for slot, old in enumerate(cells.tolist())}
        copy.keys = {new_slot[old]: key for old, key in self.keys.items() if old in new_slot}
        copy.slot = {key: new_slot[old] for key, old in self.slot.items() if old in new_slot}
        copy._slots_of, copy.end = None, len(cells)
        return copy

    def copy(self) -> Self:
        copy = super().copy()
        copy.slot, copy.keys, copy.deleted_names = self.slot.copy(), self.keys.copy(), self.deleted_names.copy()
        return copy


def _start_time(started: float, now: float) -> float:
    """Never later than now: the node's clock may be ahead."""
    return min(started, now) if now > -np.inf else started
