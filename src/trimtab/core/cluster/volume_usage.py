"""Which volumes the pods on each node use: claims, disks that pods may not share, and how many; judges nothing.

An overlay counts as real what is real, and keeps apart what it only pretends: a pod taken away from one node in a trial
frees its claim for a newcomer to that node, and for no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from trimtab.core.cluster.exact_column import Ints
from trimtab.core.model.csi_migration import MIGRATED
from trimtab.core.model.pod import Pod, Volume

CLAIM = "persistentVolumeClaim"
EPHEMERAL = "ephemeral"
ATTACHABLE_KINDS = frozenset({CLAIM, EPHEMERAL, *MIGRATED})

Disk = tuple[str, ...]
K = TypeVar("K")
V = TypeVar("V")


class VolumeUsage:
    """Counts by row and node. Values of the tables are replaced, never changed, so that a copy may share them."""

    __slots__ = ("_shared", "attachable", "claims", "disks", "overlay_claims", "pods")

    def __init__(self, capacity: int) -> None:
        self.attachable: Ints = np.zeros(capacity, dtype=np.int64)  # volumes by row, the same one perhaps several times
        self.pods: dict[str, Mapping[str, Pod]] = {}  # those with volumes, by node and UID
        self.claims: dict[str, int] = {}  # by namespace and name: pods that use it
        self.disks: dict[Disk, Mapping[str, tuple[int, int]]] = {}  # by node: users, and those of them who write
        self.overlay_claims: dict[str, Mapping[str, int]] | None = None  # of claims, by node; None where all is real
        self._shared = False

    def add(self, row: int, node: str, pod: Pod, sign: int) -> None:
        """Count the pod in, or out."""
        self._ensure_writable()
        held = {uid: each for uid, each in self.pods.get(node, {}).items() if uid != pod.uid}
        _put(self.pods, node, {**held, pod.uid: pod} if sign > 0 else held)
        for volume in pod.spec.volumes:
            self.attachable[row] += sign * (volume.kind in ATTACHABLE_KINDS)
            if volume.kind == CLAIM:
                self._count_claim(f"{pod.namespace}/{volume.name}", node, sign)
            for disk in exclusive_disks(volume):
                users, writers = self.disks.get(disk, {}).get(node, (0, 0))
                counts = users + sign, writers + (0 if volume.read_only else sign)
                others = {name: each for name, each in self.disks.get(disk, {}).items() if name != node}
                _put(self.disks, disk, {**others, node: counts} if counts[0] else others)

    def users_of(self, claim: str) -> tuple[int, Mapping[str, int]]:
        """How many pods use the claim, and by how many more or fewer on nodes where something is pretended."""
        return self.claims.get(claim, 0), (self.overlay_claims or {}).get(claim, {})

    def grow(self, capacity: int) -> None:
        more = np.zeros(capacity - len(self.attachable), dtype=np.int64)
        self.attachable = np.concatenate([self.attachable, more])

    def copy(self) -> VolumeUsage:
        twin = self.overlay()
        twin.overlay_claims = None if self.overlay_claims is None else dict(self.overlay_claims)
        twin._ensure_writable()
        return twin

    def overlay(self) -> VolumeUsage:
        """A twin to pretend on, good as long as this one does not change."""
        twin = object.__new__(VolumeUsage)
        twin.attachable, twin.pods, twin.claims, twin.disks = self.attachable, self.pods, self.claims, self.disks
        twin.overlay_claims, twin._shared = dict(self.overlay_claims or {}), True
        return twin

    def _ensure_writable(self) -> None:
        if self._shared:
            self.attachable, self.pods = self.attachable.copy(), self.pods.copy()
            self.claims, self.disks, self._shared = self.claims.copy(), self.disks.copy(), False

    def _count_claim(self, claim: str, node: str, sign: int) -> None:
        if self.overlay_claims is not None:
            held = self.overlay_claims.get(claim, {})
            self.overlay_claims[claim] = {**held, node: held.get(node, 0) + sign}
        else:
            _put(self.claims, claim, self.claims.get(claim, 0) + sign)


def _put(table: dict[K, V], key: K, value: V) -> None:
    """Keep the value; an empty one is not worth keeping."""
    if value:
        table[key] = value
    else:
        table.pop(key, None)


def exclusive_disks(volume: Volume) -> tuple[Disk, ...]:
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
