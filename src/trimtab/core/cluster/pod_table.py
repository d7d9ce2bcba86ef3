"""Pods that hold a place, as columns with one slot each: where they stand and what they are; judges nothing.

A slot is good as long as its pod stands, and is given to another afterwards. Free slots, and those of pods on nodes that
nobody has seen, have the row `NOWHERE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.topology.affinity_terms import AffinityTerms
from trimtab.core.cluster.topology.label_sets import LabelSets
from trimtab.core.model.pod import Pod

Ints = NDArray[np.int64]
Slots = NDArray[np.intp]

NO_ROW = -1
FIRST_CAPACITY = 64
NOT_STARTED = math.inf
MIN_IDS = 4096
STALE_PER_POD = 4


class PodTable:
    """Columns of pods; arrays are the live ones, and longer than there are pods."""

    def __init__(self) -> None:
        self.slot: dict[str, int] = {}  # by UID
        self.pods: list[Pod | None] = [None] * FIRST_CAPACITY
        self.row: NDArray[np.intp] = np.full(FIRST_CAPACITY, NO_ROW, dtype=np.intp)
        self.label_class: NDArray[np.intp] = np.zeros(FIRST_CAPACITY, dtype=np.intp)
        self.carrier: NDArray[np.intp] = np.zeros(FIRST_CAPACITY, dtype=np.intp)
        self.live: NDArray[np.bool_] = np.zeros(FIRST_CAPACITY, dtype=np.bool_)  # not on its way out
        self.tied: NDArray[np.bool_] = np.zeros(FIRST_CAPACITY, dtype=np.bool_)  # holds host ports or volumes
        self.priority: Ints = np.zeros(FIRST_CAPACITY, dtype=np.int64)
        self.started: NDArray[np.float64] = np.zeros(FIRST_CAPACITY)  # `NOT_STARTED` until a node has begun with it
        self.requested: dict[str, Ints] = {}  # by resource, for those that some pod ever asked for
        self.label_sets = LabelSets()
        self.affinity_terms = AffinityTerms()
        self._free = list(range(FIRST_CAPACITY - 1, -1, -1))

    def __len__(self) -> int:
        return len(self.slot)

    def add_pod(self, pod: Pod, row: int) -> int:
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self.slot[pod.uid] = slot
        self._fill(slot, pod, row)
        for resource, amount in pod.requests.amounts:
            column = self.requested.get(resource)
            if column is None:
                column = self.requested[resource] = np.zeros(len(self.row), dtype=np.int64)
            column[slot] = amount
        return slot

    def update_pod(self, pod: Pod) -> int:
        """The same pod with other labels, priority or times; its node and requests are as they were."""
        slot = self.slot[pod.uid]
        self._fill(slot, pod, self.row.item(slot))
        return slot

    def remove_pod(self, uid: str) -> int:
        slot = self.slot.pop(uid)
        pod = self.pods[slot]
        assert pod is not None
        for resource, _ in pod.requests.amounts:
            self.requested[resource][slot] = 0
        self.pods[slot] = None
        self.row[slot] = NO_ROW
        self._free.append(slot)
        return slot

    def assign_row(self, uids: Iterable[str], row: int) -> None:
        """The node of these pods is known now."""
        for uid in uids:
            self.row[self.slot[uid]] = row

    def remove_row(self, row: int, last: int) -> None:
        """The node in this row has gone, and the one in the last row has taken its place."""
        self.row[self.row == row] = NO_ROW
        self.row[self.row == last] = row

    def compact_ids(self) -> bool:
        """Forget the kinds of pods that are gone, once they are most of what is held; says whether numbers changed."""
        if max(len(self.label_sets), len(self.affinity_terms)) < MIN_IDS + STALE_PER_POD * len(self.slot):
            return False
        self.label_sets, self.affinity_terms = LabelSets(), AffinityTerms()
        self.label_class[:] = self.carrier[:] = 0
        for slot in self.slot.values():
            pod = self.pods[slot]
            assert pod is not None
            self.label_class[slot], self.carrier[slot] = self.label_sets.id_of(pod), self.affinity_terms.id_of(pod)
        return True

    def copy(self) -> PodTable:
        twin = object.__new__(PodTable)
        twin.__dict__.update(self.__dict__)  # kinds only grow in number, so both may go on with the same tables
        twin.slot, twin.pods, twin._free = self.slot.copy(), self.pods.copy(), self._free.copy()
        twin.requested = {name: column.copy() for name, column in self.requested.items()}
        for name in _COLUMNS:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def _fill(self, slot: int, pod: Pod, row: int) -> None:
        self.pods[slot] = pod
        self.row[slot] = row
        self.label_class[slot] = self.label_sets.id_of(pod)
        self.carrier[slot] = self.affinity_terms.id_of(pod)
        self.live[slot] = not pod.terminating
        self.tied[slot] = bool(pod.spec.ports or pod.spec.volumes)
        self.priority[slot] = pod.priority
        self.started[slot] = NOT_STARTED if pod.started is None else pod.started

    def _grow(self) -> None:
        size = len(self.row)
        for name in _COLUMNS:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self.row[size:] = NO_ROW
        self.requested = {name: np.concatenate([old, np.zeros_like(old)]) for name, old in self.requested.items()}
        self.pods.extend([None] * size)
        self._free.extend(range(2 * size - 1, size - 1, -1))


_COLUMNS = ("row", "label_class", "carrier", "live", "tied", "priority", "started")
