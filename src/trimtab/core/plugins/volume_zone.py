"""VolumeZone: a volume labelled with zones or regions can be used only there."""

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
from trimtab.core.framework.volumes import not_found
from trimtab.core.model.change import Change
from trimtab.core.model.csi_migration import BETA_REGION, BETA_ZONE, ZONE_SEPARATOR
from trimtab.core.model.node import REGION, ZONE
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
    """Compares labels of bound volumes with node labels. A node without any such label always passes."""

    name: ClassVar[str] = "VolumeZone"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.LABELS | Change.STORAGE
    needs_kinds: ClassVar[tuple[str, ...]] = (PersistentVolumeClaim.kind, PersistentVolume.kind, StorageClass.kind)

    def needs_kinds_for(self, pod: Pod) -> bool:
        return bool(pod.spec.volumes)

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        if not pod.spec.volumes:
            return PreFilterStatus.SKIP
        labels = _zone_labels(view, pod)
        return labels if isinstance(labels, Reject) else PreFilterStatus.SUCCESS if labels else PreFilterStatus.SKIP

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        labels = _zone_labels(view, pod)
        if isinstance(labels, Reject):
            return np.full(view.count, -1)[rows]
        matching = np.ones(view.count, dtype=np.bool_)
        for key, values in labels:
            matching &= _nodes_in(view, key, values)
        return filter_codes((matching | ~_has_topology_label(view))[rows], -1)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        labels = _zone_labels(view, pod)
        return (labels.reason if isinstance(labels, Reject) else "node(s) had no available volume zone",)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)


def _zone_labels(view: View, pod: Pod) -> ZoneLabels | Reject:
    """Labels that nodes need for the pod's volumes, with the allowed values."""
    claims, volumes = view.objects.of_kind(PersistentVolumeClaim), view.objects.of_kind(PersistentVolume)
    labels: ZoneLabels = []
    for each in pod.spec.volumes:
        if each.kind != CLAIM:
            continue
        if not each.name:
            return Reject("PersistentVolumeClaim had no name")
        claim = claims.get(f"{pod.namespace}/{each.name}")
        if claim is None:
            return Reject(not_found(each.name))
        if not claim.volume:
            error = _unbound_error(view, claim)
            if error:
                return Reject(error)
            continue
        volume = volumes.get(claim.volume)
        if volume is None:
            return Reject(not_found(claim.volume, "persistentvolume"))
        labels += _zones(volume)
    return labels


def _unbound_error(view: View, claim: PersistentVolumeClaim) -> str:
    """What is wrong with a claim without a volume; empty if it is bound together with the pod."""
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = view.objects.of_kind(StorageClass).get(claim.storage_class)
    if storage_class is None:
        return not_found(claim.storage_class, "storageclass.storage.k8s.io")
    if storage_class.binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"'
    return "" if storage_class.binding_mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key in TOPOLOGY_KEYS:
        values = (
            tuple(each.strip() for each in volume.labels[key].split(ZONE_SEPARATOR)) if key in volume.labels else ()
        )
        if values and all(values):  # a label with an empty zone is ignored
            yield key, values


def _nodes_in(view: View, key: str, values: tuple[str, ...]) -> Bools:
    """Nodes with such a label, or, where they lack the beta label, with the GA one."""
    matching = view.matching_label(Requirement(key, "In", values))
    ga_key = GA_KEYS.get(key)
    if ga_key is None:
        return matching
    return matching | (
        view.matching_label(Requirement(key, "DoesNotExist")) & view.matching_label(Requirement(ga_key, "In", values))
    )


def _has_topology_label(view: View) -> Bools:
    has_label = np.zeros(view.count, dtype=np.bool_)
    for key in TOPOLOGY_KEYS:
        has_label |= view.matching_label(Requirement(key, "Exists"))
    return has_label
