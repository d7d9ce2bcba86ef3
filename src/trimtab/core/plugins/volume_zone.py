"""VolumeZone: a volume that is labelled with zones or regions is used only there; binding it is left to others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.cluster.volume_usage import CLAIM
from trimtab.core.framework.interface import (
    Bools,
    Ints,
    PreFilterResult,
    PreFilterStatus,
    Reject,
    Rows,
    any_node_passes,
    filter_codes,
)
from trimtab.core.framework.volumes.claims import not_found
from trimtab.core.model.change import Change
from trimtab.core.model.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_SEPARATOR
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

TOPOLOGY_KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
GA_KEYS = {BETA_ZONE: ZONE, BETA_REGION: REGION}

ZoneLabels = list[tuple[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class VolumeZone:
    """Compares labels of bound volumes with labels of nodes. A node without any such label is taken to be everywhere."""

    name: ClassVar[str] = "VolumeZone"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.LABELS | Change.STORAGE
    needs_kinds: ClassVar[tuple[str, ...]] = (PersistentVolumeClaim.kind, PersistentVolume.kind, StorageClass.kind)

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        if not pod.spec.volumes:
            return PreFilterStatus.SKIP
        marks = _zone_labels(view, pod)
        return marks if isinstance(marks, Reject) else PreFilterStatus.SUCCESS if marks else PreFilterStatus.SKIP

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        marks = _zone_labels(view, pod)
        if isinstance(marks, Reject):
            return np.full(view.count, -1)[rows]
        fits = np.ones(view.count, dtype=np.bool_)
        for key, values in marks:
            fits &= _nodes_in(view, key, values)
        return filter_codes((fits | ~_has_topology_label(view))[rows], -1)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        marks = _zone_labels(view, pod)
        return (marks.reason if isinstance(marks, Reject) else "node(s) had no available volume zone",)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)


def _zone_labels(view: View, pod: Pod) -> ZoneLabels | Reject:
    """Labels that nodes must have for the pod's volumes, with the values that will do."""
    claims, volumes = view.objects.of_kind(PersistentVolumeClaim), view.objects.of_kind(PersistentVolume)
    found: ZoneLabels = []
    for each in pod.spec.volumes:
        if each.kind != CLAIM:
            continue
        if not each.name:
            return Reject("PersistentVolumeClaim had no name")
        claim = claims.get(f"{pod.namespace}/{each.name}")
        if claim is None:
            return Reject(not_found(each.name))
        if not claim.volume:
            fault = _unbound_error(view, claim)
            if fault:
                return Reject(fault)
            continue
        volume = volumes.get(claim.volume)
        if volume is None:
            return Reject(not_found(claim.volume, "persistentvolume"))
        found += _zones(volume)
    return found


def _unbound_error(view: View, claim: PersistentVolumeClaim) -> str:
    """What is wrong with a claim that has no volume; nothing where it gets one with the pod."""
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    given = view.objects.of_kind(StorageClass).get(claim.storage_class)
    if given is None:
        return not_found(claim.storage_class, "storageclass.storage.k8s.io")
    if given.binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"'
    return "" if given.binding_mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key in TOPOLOGY_KEYS:
        values = (
            tuple(each.strip() for each in volume.labels[key].split(ZONE_SEPARATOR)) if key in volume.labels else ()
        )
        if values and all(values):  # an empty one among them makes the label meaningless
            yield key, values


def _nodes_in(view: View, key: str, values: tuple[str, ...]) -> Bools:
    """Nodes with such a label, or, where they lack the old one, with the newer one of the same meaning."""
    fits = view.matching_label(Requirement(key, "In", values))
    newer = GA_KEYS.get(key)
    if newer is None:
        return fits
    return fits | (
        view.matching_label(Requirement(key, "DoesNotExist")) & view.matching_label(Requirement(newer, "In", values))
    )


def _has_topology_label(view: View) -> Bools:
    found = np.zeros(view.count, dtype=np.bool_)
    for key in TOPOLOGY_KEYS:
        found |= view.matching_label(Requirement(key, "Exists"))
    return found
