"""VolumeRestrictions: keeps pods apart that may not share a disk or a ReadWriteOncePod claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.cluster.volume_usage import CLAIM, exclusive_disks
from trimtab.core.framework.interface import (
    Bools,
    Ints,
    PreFilterResult,
    PreFilterStatus,
    Reject,
    Rows,
    any_node_passes,
)
from trimtab.core.framework.volumes import not_found
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim

NEVER_SHARED = "awsElasticBlockStore"  # not even read-only
DISK_CONFLICT, READ_WRITE_ONCE_POD_CONFLICT, MISSING_CLAIM = 1, 2, -1
REASONS = {
    DISK_CONFLICT: "node(s) had no available disk",
    READ_WRITE_ONCE_POD_CONFLICT: "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use "
    "by another pod",
}


@dataclass(frozen=True, slots=True)
class VolumeRestrictions:
    """Evicting the other pod would help in both cases."""

    name: ClassVar[str] = "VolumeRestrictions"
    requeue_on: ClassVar[Change] = Change.POD_DELETED | Change.NODE_ADDED | Change.STORAGE
    needs_kinds: ClassVar[tuple[str, ...]] = (PersistentVolumeClaim.kind,)

    def needs_kinds_for(self, pod: Pod) -> bool:
        return bool(pod.spec.volumes)

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        if not pod.spec.volumes:
            return PreFilterStatus.SKIP
        exclusive = _exclusive_claims(view, pod)
        if isinstance(exclusive, Reject):
            return exclusive
        in_use = any(view.volume_usage.users_of(claim)[0] for claim in exclusive)
        return (
            PreFilterStatus.SUCCESS if in_use or any(map(exclusive_disks, pod.spec.volumes)) else PreFilterStatus.SKIP
        )

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        exclusive = _exclusive_claims(view, pod)
        codes = np.zeros(view.count, dtype=np.int64)
        if isinstance(exclusive, Reject):
            return (codes + MISSING_CLAIM)[rows]
        for claim in exclusive:
            users, added = view.volume_usage.users_of(claim)
            counts = np.full(view.count, users)
            for node, count in added.items():
                if (row := view.row(node)) is not None:
                    counts[row] += count
            codes[counts > 0] = READ_WRITE_ONCE_POD_CONFLICT
        codes[_disk_conflicts(view, pod)] = DISK_CONFLICT
        return codes[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        exclusive = _exclusive_claims(view, pod)
        return (exclusive.reason if isinstance(exclusive, Reject) else REASONS[code],)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)


def _exclusive_claims(view: View, pod: Pod) -> set[str] | Reject:
    """The pod's claims with access mode ReadWriteOncePod."""
    claims = view.objects.of_kind(PersistentVolumeClaim)
    exclusive: set[str] = set()
    for volume in pod.spec.volumes:
        if volume.kind == CLAIM:
            claim = claims.get(f"{pod.namespace}/{volume.name}")
            if claim is None:
                return Reject(not_found(volume.name))
            if READ_WRITE_ONCE_POD in claim.access_modes:
                exclusive.add(claim.key)
    return exclusive


def _disk_conflicts(view: View, pod: Pod) -> Bools:
    """Nodes where a pod uses one of the disks, unless all only read and the kind of volume allows that."""
    conflicts = np.zeros(view.count, dtype=np.bool_)
    for volume in pod.spec.volumes:
        shared = volume.read_only and volume.kind != NEVER_SHARED
        for disk in exclusive_disks(volume):
            users = view.volume_usage.disks.get(disk, {})
            conflicts |= view.rows_named(
                node for node, (total, writers) in users.items() if (writers if shared else total)
            )
    return conflicts
