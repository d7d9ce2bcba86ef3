"""VolumeRestrictions: keeps pods apart that may not share a disk or a claim; which volumes they get is left to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.mounts import CLAIM, disks
from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from trimtab.core.placing.contract import Ahead, Bools, Ints, Prefiltered, Refuse, Rows, passes_somewhere
from trimtab.core.placing.volumes.claims import missing

UNSHARED = "awsElasticBlockStore"  # not even by pods that only read
DISK, CLAIMED, UNKNOWN = 1, 2, -1
WORDS = {
    DISK: "node(s) had no available disk",
    CLAIMED: "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod",
}


@dataclass(frozen=True, slots=True)
class VolumeRestrictions:
    """Evicting the pod in the way would help in both cases."""

    name: ClassVar[str] = "VolumeRestrictions"
    woken_by: ClassVar[Change] = Change.POD_LEFT | Change.NODE_ADDED | Change.STORAGE
    watches: ClassVar[tuple[str, ...]] = (PersistentVolumeClaim.kind,)

    def prefilter(self, view: View, pod: Pod) -> Prefiltered:
        if not pod.spec.volumes:
            return Ahead.SKIP
        alone = _alone(view, pod)
        if isinstance(alone, Refuse):
            return alone
        taken = any(view.mounts.users(claim)[0] for claim in alone)
        return Ahead.GO if taken or any(map(disks, pod.spec.volumes)) else Ahead.SKIP

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        alone = _alone(view, pod)
        found = np.zeros(view.count, dtype=np.int64)
        if isinstance(alone, Refuse):
            return (found + UNKNOWN)[rows]
        for claim in alone:
            users, more = view.mounts.users(claim)
            counts = np.full(view.count, users)
            for node, number in more.items():
                if (row := view.row(node)) is not None:
                    counts[row] += number
            found[counts > 0] = CLAIMED
        found[_clashing(view, pod)] = DISK
        return found[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        alone = _alone(view, pod)
        return (alone.reason if isinstance(alone, Refuse) else WORDS[code],)

    def wakes(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return passes_somewhere(self, view, pod)


def _alone(view: View, pod: Pod) -> set[str] | Refuse:
    """The pod's claims that one pod at a time may use."""
    claims = view.objects.of(PersistentVolumeClaim)
    found: set[str] = set()
    for volume in pod.spec.volumes:
        if volume.kind == CLAIM:
            claim = claims.get(f"{pod.namespace}/{volume.name}")
            if claim is None:
                return Refuse(missing(volume.name))
            if READ_WRITE_ONCE_POD in claim.access_modes:
                found.add(claim.key)
    return found


def _clashing(view: View, pod: Pod) -> Bools:
    """Nodes where a pod uses one of the disks, unless all of them only read and the kind allows that."""
    found = np.zeros(view.count, dtype=np.bool_)
    for volume in pod.spec.volumes:
        shared = volume.read_only and volume.kind != UNSHARED
        for disk in disks(volume):
            users = view.mounts.disks.get(disk, {})
            found |= view.named(node for node, (every, writers) in users.items() if (writers if shared else every))
    return found
