"""The pod table: one slot per pod that has a place, with its row, labels, affinity terms, priority and requests.

A slot belongs to its pod until the pod is removed, and is reused afterwards. Free slots, and those of pods on unknown
nodes, have the row `NO_ROW`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np

from trimtab.core.cluster.topology.affinity_terms import AffinityTerms
from trimtab.core.model.pod import Pod
from trimtab.core.tables import (
    NO_ROW,
    ArrayTable,
    Bools,
    ExactColumn,
    Floats,
    Index,
    Ints,
    clear_amount,
    column,
    set_amount,
)

FIRST_CAPACITY = 64
NOT_STARTED = math.inf
MIN_IDS, STALE_PER_POD = 4096, 4
MAX_INDEXED = 1000  # labels of one pod
MIN_ENTRIES, STALE_ENTRIES = (
    200_000,
    2,
)  # of labels and terms: compacted when there are more, and twice as many as before

Labels = Mapping[str, str]
Pair = tuple[str, str]


class LabelSets:
    """Ids of label sets: pods with equal namespace and labels share one. Ids only grow, so forks share one object."""

    __slots__ = ("_ids", "_wide", "_with_pair", "entries", "sets")

    def __init__(self) -> None:
        self.sets: list[tuple[str, Labels]] = []  # namespace and labels by id
        self._with_pair: dict[Pair, list[int]] = {}  # ids of the sets that have a label, ascending
        self._wide: list[int] = []  # ids of sets with too many labels for that
        self.entries = 0  # labels of all sets
        self._ids: dict[tuple[str, frozenset[Pair]], int] = {}

    def __len__(self) -> int:
        return len(self.sets)

    def id_of(self, pod: Pod) -> int:
        key = (pod.namespace, frozenset(pod.labels.items()))
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self.sets)
            self.sets.append((pod.namespace, pod.labels))
            self.entries += len(pod.labels)
            if len(pod.labels) > MAX_INDEXED:
                self._wide.append(number)
            else:
                for pair in pod.labels.items():
                    self._with_pair.setdefault(pair, []).append(number)
        return number

    def candidates(self, pair: Pair) -> Sequence[int]:
        """Ids of the sets that may have the label, ascending."""
        found = self._with_pair.get(pair, ())
        return sorted((*found, *self._wide)) if self._wide else found


class PodTable(ArrayTable):
    """By slot; arrays are the live ones."""

    row: Index = column(NO_ROW, np.intp)
    label_set: Index = column(0, np.intp)  # id in `label_sets`
    term_set: Index = column(0, np.intp)  # id in `affinity_terms`
    not_terminating: Bools = column(False, np.bool_)
    has_ports_or_volumes: Bools = column(False, np.bool_)
    priority: Ints = column(0, np.int64)
    started: Floats = column()  # `NOT_STARTED` until the kubelet has started it

    def __init__(self) -> None:
        super().__init__(FIRST_CAPACITY)
        self.slot: dict[str, int] = {}  # by UID
        self.pods: list[Pod | None] = [None] * self.size
        self.requested: dict[str, ExactColumn] = {}  # by resource
        self.label_sets = LabelSets()
        self.affinity_terms = AffinityTerms()
        self._free = list(range(self.size - 1, -1, -1))
        self._entries_kept = 0  # labels and terms after the last compaction

    def __len__(self) -> int:
        return len(self.slot)

    def add_pod(self, pod: Pod, row: int) -> int:
        if not self._free:
            self.grow(2 * self.size)
        slot = self._free.pop()
        self.slot[pod.uid] = slot
        self._fill(slot, pod, row)
        for resource, amount in pod.requests.amounts:
            set_amount(self.requested, resource, slot, amount, self.size)
        return slot

    def update_pod(self, pod: Pod) -> int:
        """The same pod with other labels, priority or times; its node and requests are unchanged."""
        slot = self.slot[pod.uid]
        self._fill(slot, pod, self.row.item(slot))
        return slot

    def remove_pod(self, uid: str) -> int:
        slot = self.slot.pop(uid)
        pod = self.pods[slot]
        assert pod is not None
        for resource, _ in pod.requests.amounts:
            clear_amount(self.requested, resource, slot)
        self.pods[slot] = None
        self.row[slot] = NO_ROW
        self._free.append(slot)
        return slot

    def assign_row(self, uids: Iterable[str], row: int) -> None:
        """The node of these pods, which was unknown, has this row."""
        for uid in uids:
            self.row[self.slot[uid]] = row

    def remove_row(self, row: int, last: int) -> None:
        """The node of this row was removed, and the node of the last row moves into it."""
        self.row[self.row == row] = NO_ROW
        self.row[self.row == last] = row

    def compact_ids(self) -> bool:
        """Drop ids of label and term sets that no pod has, once they are most of all; returns whether ids changed."""
        entries = self.label_sets.entries + len(self.affinity_terms.terms)
        if (
            max(len(self.label_sets), len(self.affinity_terms)) < MIN_IDS + STALE_PER_POD * len(self.slot)
            and entries < MIN_ENTRIES + STALE_ENTRIES * self._entries_kept
        ):
            return False
        self.label_sets, self.affinity_terms = LabelSets(), AffinityTerms()
        self.label_set[:] = self.term_set[:] = 0
        for slot in self.slot.values():
            pod = self.pods[slot]
            assert pod is not None
            self.label_set[slot], self.term_set[slot] = self.label_sets.id_of(pod), self.affinity_terms.id_of(pod)
        self._entries_kept = self.label_sets.entries + len(self.affinity_terms.terms)
        return True

    def _fill(self, slot: int, pod: Pod, row: int) -> None:
        self.pods[slot] = pod
        self.row[slot] = row
        self.label_set[slot] = self.label_sets.id_of(pod)
        self.term_set[slot] = self.affinity_terms.id_of(pod)
        self.not_terminating[slot] = not pod.terminating
        self.has_ports_or_volumes[slot] = bool(pod.spec.ports or pod.spec.volumes)
        self.priority[slot] = pod.priority
        self.started[slot] = NOT_STARTED if pod.started is None else pod.started

    def grow(self, size: int) -> None:
        before = self.size
        super().grow(size)
        for amounts in self.requested.values():
            amounts.grow(size)
        self.pods.extend([None] * (size - before))
        self._free.extend(range(size - 1, before - 1, -1))

    def copy(self) -> Self:
        """Label and term sets are shared: their ids only grow."""
        copy = super().copy()
        copy.slot, copy.pods, copy._free = self.slot.copy(), self.pods.copy(), self._free.copy()
        copy.requested = {name: amounts.copy() for name, amounts in self.requested.items()}
        return copy
