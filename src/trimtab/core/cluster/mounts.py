"""Which volumes the pods on each node use: claims, disks that pods may not share, and how many; judges nothing.

An overlay counts as real what is real, and keeps apart what it only pretends: a pod taken away from one node in a trial
frees its claim for a newcomer to that node, and for no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from trimtab.core.cluster.cells import Ints
from trimtab.core.model.pod import Pod, Volume
from trimtab.core.model.storage.migration import MIGRATED

CLAIM = "persistentVolumeClaim"
EPHEMERAL = "ephemeral"
ATTACHED = frozenset({CLAIM, EPHEMERAL, *MIGRATED})

Disk = tuple[str, ...]
K = TypeVar("K")
V = TypeVar("V")


class Mounts:
    """Counts by row and node. Values of the tables are replaced, never changed, so that a copy may share them."""

    __slots__ = ("_lent", "attachable", "claims", "disks", "pods", "pretended")

    def __init__(self, capacity: int) -> None:
        self.attachable: Ints = np.zeros(capacity, dtype=np.int64)  # volumes by row, the same one perhaps several times
        self.pods: dict[str, Mapping[str, Pod]] = {}  # those with volumes, by node and UID
        self.claims: dict[str, int] = {}  # by namespace and name: pods that use it
        self.disks: dict[Disk, Mapping[str, tuple[int, int]]] = {}  # by node: users, and those of them who write
        self.pretended: dict[str, Mapping[str, int]] | None = None  # of claims, by node; None where all is real
        self._lent = False

    def add(self, row: int, node: str, pod: Pod, sign: int) -> None:
        """Count the pod in, or out."""
        self._own()
        held = {uid: each for uid, each in self.pods.get(node, {}).items() if uid != pod.uid}
        _put(self.pods, node, {**held, pod.uid: pod} if sign > 0 else held)
        for volume in pod.spec.volumes:
            self.attachable[row] += sign * (volume.kind in ATTACHED)
            if volume.kind == CLAIM:
                self._use(f"{pod.namespace}/{volume.name}", node, sign)
            for disk in disks(volume):
                users, writers = self.disks.get(disk, {}).get(node, (0, 0))
                counts = users + sign, writers + (0 if volume.read_only else sign)
                others = {name: each for name, each in self.disks.get(disk, {}).items() if name != node}
                _put(self.disks, disk, {**others, node: counts} if counts[0] else others)

    def users(self, claim: str) -> tuple[int, Mapping[str, int]]:
        """How many pods use the claim, and by how many more or fewer on nodes where something is pretended."""
        return self.claims.get(claim, 0), (self.pretended or {}).get(claim, {})

    def grow(self, capacity: int) -> None:
        more = np.zeros(capacity - len(self.attachable), dtype=np.int64)
        self.attachable = np.concatenate([self.attachable, more])

    def copy(self) -> Mounts:
        twin = self.overlay()
        twin.pretended = None if self.pretended is None else dict(self.pretended)
        twin._own()
        return twin

    def overlay(self) -> Mounts:
        """A twin to pretend on, good as long as this one does not change."""
        twin = object.__new__(Mounts)
        twin.attachable, twin.pods, twin.claims, twin.disks = self.attachable, self.pods, self.claims, self.disks
        twin.pretended, twin._lent = dict(self.pretended or {}), True
        return twin

    def _own(self) -> None:
        if self._lent:
            self.attachable, self.pods = self.attachable.copy(), self.pods.copy()
            self.claims, self.disks, self._lent = self.claims.copy(), self.disks.copy(), False

    def _use(self, claim: str, node: str, sign: int) -> None:
        if self.pretended is not None:
            held = self.pretended.get(claim, {})
            self.pretended[claim] = {**held, node: held.get(node, 0) + sign}
        else:
            _put(self.claims, claim, self.claims.get(claim, 0) + sign)


def _put(table: dict[K, V], key: K, value: V) -> None:
    """Keep the value; an empty one is not worth keeping."""
    if value:
        table[key] = value
    else:
        table.pop(key, None)


def disks(volume: Volume) -> tuple[Disk, ...]:
    """What the volume is on, for kinds that pods may not share freely; equal ones are the same disk."""
    named = dict(volume.source)
    match volume.kind:
        case "gcePersistentDisk":
            return ((volume.kind, named.get("pdName", "")),)
        case "awsElasticBlockStore":
            return ((volume.kind, named.get("volumeID", "")),)
        case "iscsi":
            return ((volume.kind, named.get("iqn", "")),)
        case "rbd":
            image = named.get("pool", ""), named.get("image", "")
            return tuple((volume.kind, *image, each) for each in named.get("monitors", "").split(",") if each)
    return ()
