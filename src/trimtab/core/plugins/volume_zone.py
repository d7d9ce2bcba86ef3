"""VolumeZone: a volume that is labelled with zones or regions is used only there; binding it is left to others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.mounts import CLAIM
from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.storage import FIRST_CONSUMER, PersistentVolume, PersistentVolumeClaim, StorageClass
from trimtab.core.model.storage.migration import BETA_REGION, BETA_ZONE, REGION, SEVERAL, ZONE
from trimtab.core.placing.contract import Ahead, Bools, Ints, Prefiltered, Refuse, Rows, codes, passes_somewhere
from trimtab.core.placing.volumes.claims import missing

KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
NEWER = {BETA_ZONE: ZONE, BETA_REGION: REGION}

Marks = list[tuple[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class VolumeZone:
    """Compares labels of bound volumes with labels of nodes. A node without any such label is taken to be everywhere."""

    name: ClassVar[str] = "VolumeZone"
    woken_by: ClassVar[Change] = Change.NODE_ADDED | Change.LABELS | Change.STORAGE
    watches: ClassVar[tuple[str, ...]] = (PersistentVolumeClaim.kind, PersistentVolume.kind, StorageClass.kind)

    def prefilter(self, view: View, pod: Pod) -> Prefiltered:
        if not pod.spec.volumes:
            return Ahead.SKIP
        marks = _marks(view, pod)
        return marks if isinstance(marks, Refuse) else Ahead.GO if marks else Ahead.SKIP

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        marks = _marks(view, pod)
        if isinstance(marks, Refuse):
            return np.full(view.count, -1)[rows]
        fits = np.ones(view.count, dtype=np.bool_)
        for key, values in marks:
            fits &= _in(view, key, values)
        return codes((fits | ~_somewhere(view))[rows], -1)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        marks = _marks(view, pod)
        return (marks.reason if isinstance(marks, Refuse) else "node(s) had no available volume zone",)

    def wakes(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return passes_somewhere(self, view, pod)


def _marks(view: View, pod: Pod) -> Marks | Refuse:
    """Labels that nodes must have for the pod's volumes, with the values that will do."""
    claims, volumes = view.objects.of(PersistentVolumeClaim), view.objects.of(PersistentVolume)
    found: Marks = []
    for each in pod.spec.volumes:
        if each.kind != CLAIM:
            continue
        if not each.name:
            return Refuse("PersistentVolumeClaim had no name")
        claim = claims.get(f"{pod.namespace}/{each.name}")
        if claim is None:
            return Refuse(missing(each.name))
        if not claim.volume:
            fault = _unbound(view, claim)
            if fault:
                return Refuse(fault)
            continue
        volume = volumes.get(claim.volume)
        if volume is None:
            return Refuse(missing(claim.volume, "persistentvolume"))
        found += _zones(volume)
    return found


def _unbound(view: View, claim: PersistentVolumeClaim) -> str:
    """What is wrong with a claim that has no volume; nothing where it gets one with the pod."""
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    given = view.objects.of(StorageClass).get(claim.storage_class)
    if given is None:
        return missing(claim.storage_class, "storageclass.storage.k8s.io")
    if given.binding is None:
        return f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"'
    return "" if given.binding == FIRST_CONSUMER else "PersistentVolume had no name"


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key in KEYS:
        values = tuple(each.strip() for each in volume.labels[key].split(SEVERAL)) if key in volume.labels else ()
        if values and all(values):  # an empty one among them makes the label meaningless
            yield key, values


def _in(view: View, key: str, values: tuple[str, ...]) -> Bools:
    """Nodes with such a label, or, where they lack the old one, with the newer one of the same meaning."""
    fits = view.labelled(Requirement(key, "In", values))
    newer = NEWER.get(key)
    if newer is None:
        return fits
    return fits | (view.labelled(Requirement(key, "DoesNotExist")) & view.labelled(Requirement(newer, "In", values)))


def _somewhere(view: View) -> Bools:
    found = np.zeros(view.count, dtype=np.bool_)
    for key in KEYS:
        found |= view.labelled(Requirement(key, "Exists"))
    return found
