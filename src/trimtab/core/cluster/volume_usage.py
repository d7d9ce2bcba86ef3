"""Volumes in use: per node the pods with volumes and the number of attachable volumes, per claim and disk its users.

An overlay keeps its own changes of claims apart: a pod removed in an overlay frees its claim for a pod on the same node,
and on no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from trimtab.core.model.csi_migration import MIGRATED
from trimtab.core.model.pod import Pod, Volume
from trimtab.core.tables import Ints

CLAIM = "persistentVolumeClaim"
EPHEMERAL = "ephemeral"
ATTACHABLE_KINDS = frozenset({CLAIM, EPHEMERAL, *MIGRATED})

Disk = tuple[str, ...]
K = TypeVar("K")
V = TypeVar("V")


class VolumeUsage:
    """Counts by row and node. Values of the dictionaries are replaced, never changed, so that copies can share them."""

    __slots__ = ("_shared", "attachable", "claims", "disks", "overlay_claims", "pods")

    def __init__(self, capacity: int) -> None:
        self.attachable: Ints = np.zeros(capacity, dtype=np.int64)  # volumes by row; one used by two pods counts twice
        self.pods: dict[str, Mapping[str, Pod]] = {}  # those with volumes, by node and UID
        self.claims: dict[str, int] = {}  # pods by claim (namespace/name)
        self.disks: dict[Disk, Mapping[str, tuple[int, int]]] = {}  # by node: users, and how many of them write
        self.overlay_claims: dict[str, Mapping[str, int]] | None = None  # change by claim and node; None: no overlay
        self._shared = False

    def add(self, row: int, node: str, pod: Pod, sign: int) -> None:
        """Add the pod (1) or remove it (-1)."""
        self._ensure_writable()
        others = {uid: each for uid, each in self.pods.get(node, {}).items() if uid != pod.uid}
        _set_or_drop(self.pods, node, {**others, pod.uid: pod} if sign > 0 else others)
        for volume in pod.spec.volumes:
            self.attachable[row] += sign * (volume.kind in ATTACHABLE_KINDS)
            if volume.kind == CLAIM:
                self._count_claim(f"{pod.namespace}/{volume.name}", node, sign)
            for disk in exclusive_disks(volume):
                self._count_disk(disk, node, sign, writes=not volume.read_only)

    def users_of(self, claim: str) -> tuple[int, Mapping[str, int]]:
        """How many pods use the claim, and by how many more or fewer on the nodes that an overlay changes."""
        return self.claims.get(claim, 0), (self.overlay_claims or {}).get(claim, {})

    def _count_claim(self, claim: str, node: str, sign: int) -> None:
        if self.overlay_claims is not None:
            by_node = self.overlay_claims.get(claim, {})
            self.overlay_claims[claim] = {**by_node, node: by_node.get(node, 0) + sign}
        else:
            _set_or_drop(self.claims, claim, self.claims.get(claim, 0) + sign)

    def _count_disk(self, disk: Disk, node: str, sign: int, *, writes: bool) -> None:
        by_node = self.disks.get(disk, {})
        users, writers = by_node.get(node, (0, 0))
        users, writers = users + sign, writers + (sign if writes else 0)
        others = {name: each for name, each in by_node.items() if name != node}
        _set_or_drop(self.disks, disk, {**others, node: (users, writers)} if users else others)

    def grow(self, capacity: int) -> None:
        extra = np.zeros(capacity - len(self.attachable), dtype=np.int64)
        self.attachable = np.concatenate([self.attachable, extra])

    def copy(self) -> VolumeUsage:
        copy = self.overlay()
        copy.overlay_claims = None if self.overlay_claims is None else dict(self.overlay_claims)
        copy._ensure_writable()
        return copy

    def overlay(self) -> VolumeUsage:
        """A copy for an overlay, valid as long as this one does not change."""
        copy = object.__new__(VolumeUsage)
        copy.attachable, copy.pods, copy.claims, copy.disks = self.attachable, self.pods, self.claims, self.disks
        copy.overlay_claims, copy._shared = dict(self.overlay_claims or {}), True
        return copy

    def _ensure_writable(self) -> None:
        if self._shared:
            self.attachable, self.pods = self.attachable.copy(), self.pods.copy()
            self.claims, self.disks, self._shared = self.claims.copy(), self.disks.copy(), False


def _set_or_drop(table: dict[K, V], key: K, value: V) -> None:
    if value:
        table[key] = value
    else:
        table.pop(key, None)


def exclusive_disks(volume: Volume) -> tuple[Disk, ...]:
    """The disks of a volume whose kind pods cannot share freely; equal tuples are the same disk."""
    fields = dict(volume.source)
    match volume.kind:
        case "gcePersistentDisk":
            return ((volume.kind, fields.get("pdName", "")),)
        case "awsElasticBlockStore":
            return ((volume.kind, fields.get("volumeID", "")),)
        case "iscsi":
            return ((volume.kind, fields.get("iqn", "")),)
        case "rbd":
            image = fields.get("pool", ""), fields.get("image", "")
            return tuple((volume.kind, *image, each) for each in fields.get("monitors", "").split(",") if each)
    return ()
