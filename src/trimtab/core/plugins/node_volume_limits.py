"""NodeVolumeLimits: the number of volumes that a CSI driver can attach to a node.

An exact count has to look at every pod of a node. It is made only where an upper bound, which may count volumes twice,
exceeds the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.cluster.volume_usage import ATTACHABLE_KINDS, CLAIM, EPHEMERAL
from trimtab.core.framework.interface import Ints, PreFilterResult, PreFilterStatus, Rows, any_node_passes
from trimtab.core.framework.volumes import migrated_nodes, not_found
from trimtab.core.model.change import Change
from trimtab.core.model.csi_migration import (
    BY_PLUGIN,
    MIGRATABLE,
    MIGRATED,
    MIGRATED_PER_NODE,
    UNCOUNTED,
    volume_handle,
)
from trimtab.core.model.pod import Pod, Volume
from trimtab.core.model.storage import (
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

LIMIT_EXCEEDED, MISSING_CLAIM = 1, -1
NO_LIMIT = np.int64(1 << 62)

AttachableVolume = tuple[str, str, str]  # driver, volume handle, in-tree plugin


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits:
    """Counts volumes of the node's pods and attached ones, each once; limits are those of its CSINode."""

    name: ClassVar[str] = "NodeVolumeLimits"
    requeue_on: ClassVar[Change] = Change.POD_DELETED | Change.NODE_ADDED | Change.STORAGE
    needs_kinds: ClassVar[tuple[str, ...]] = (
        PersistentVolumeClaim.kind,
        PersistentVolume.kind,
        StorageClass.kind,
        CsiNode.kind,
        VolumeAttachment.kind,
    )

    def needs_kinds_for(self, pod: Pod) -> bool:
        return bool(pod.spec.volumes)

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        for volume in pod.spec.volumes:
            if volume.kind in ATTACHABLE_KINDS or volume.kind in UNCOUNTED:
                return PreFilterStatus.SUCCESS
        return PreFilterStatus.SKIP

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        codes = np.zeros(view.count, dtype=np.int64)
        if _missing_claim(view, pod):
            return (codes + MISSING_CLAIM)[rows]
        volumes = _attachable_volumes(view, pod)
        for driver in {each[0] for each in volumes}:
            added = [each for each in volumes if each[0] == driver]
            limits = _limits(view, driver)
            over_bound = np.flatnonzero(_upper_bound(view) + len(added) > limits)
            for row in over_bound.tolist():
                if _count_after(view, row, driver, added) > limits.item(row):
                    codes[row] = LIMIT_EXCEEDED
        return codes[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        if code == MISSING_CLAIM:
            return (
                f"looking up PVC {pod.namespace}/{_missing_claim(view, pod)}: {not_found(_missing_claim(view, pod))}",
            )
        return ("node(s) exceed max volume count",)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)


def _missing_claim(view: View, pod: Pod) -> str:
    """The first claim of the pod that does not exist."""
    claims = view.objects.of_kind(PersistentVolumeClaim)
    names = (_claim_name(pod, volume) for volume in pod.spec.volumes)
    return next((name for name in names if name and f"{pod.namespace}/{name}" not in claims), "")


def _claim_name(pod: Pod, volume: Volume) -> str:
    if volume.kind == EPHEMERAL:
        return f"{pod.name}-{volume.name}"
    return volume.name if volume.kind == CLAIM else ""


def _attachable_volumes(view: View, pod: Pod) -> set[AttachableVolume]:
    """The volumes that the pod needs attached, each once."""
    volumes: set[AttachableVolume] = set()
    for volume in pod.spec.volumes:
        if volume.kind in MIGRATED:
            plugin, driver, _, _ = MIGRATED[volume.kind]
            volumes.add((driver, volume_handle(volume.kind, dict(volume.source)), plugin))
        elif name := _claim_name(pod, volume):
            claim = view.objects.of_kind(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
            if claim is not None and (volume.kind == CLAIM or claim.controller_uid == pod.uid):
                volumes.add(_attachable_volume(view, claim))
    return {each for each in volumes if each[0] and each[1]}


def _attachable_volume(view: View, claim: PersistentVolumeClaim) -> AttachableVolume:
    volume = view.objects.of_kind(PersistentVolume).get(claim.volume) if claim.volume else None
    if volume is not None:
        return volume.driver, volume.handle, volume.in_tree
    storage_class = view.objects.of_kind(StorageClass).get(claim.storage_class)
    if storage_class is None or storage_class.provisioner in MIGRATABLE - BY_PLUGIN.keys():
        return "", "", ""
    placeholder = f"\0{claim.key}"  # never a handle of a driver
    if storage_class.provisioner in BY_PLUGIN:
        return BY_PLUGIN[storage_class.provisioner].driver, placeholder, storage_class.provisioner
    return storage_class.provisioner, placeholder, ""


def _limits(view: View, driver: str) -> Ints:
    """By row the driver's limit."""

    def column() -> Ints:
        limits = np.full(view.count, NO_LIMIT)
        for name, node in view.objects.of_kind(CsiNode).items():
            row = view.row(name)
            for each, limit in node.limits if row is not None else ():
                if each == driver:
                    limits[row] = limit
        return limits

    stamp = view.node_table.epoch, view.objects.generation(CsiNode)
    return view.objects.cached(("limits", driver), stamp, column)


def _upper_bound(view: View) -> Ints:
    """By row an upper bound on the number of attached volumes, of all drivers together."""

    def column() -> Ints:
        counts = np.zeros(view.count, dtype=np.int64)
        for name, attached in view.objects.by_index(VolumeAttachment, "node").items():
            row = view.row(name)
            if row is not None:
                counts[row] = len(attached)
        return counts

    stamp = view.node_table.epoch, view.objects.generation(VolumeAttachment)
    return view.volume_usage.attachable[: view.count] + view.objects.cached("attachments", stamp, column)


def _count_after(view: View, row: int, driver: str, new: list[AttachableVolume]) -> int:
    """How many volumes of the driver the node would have attached; 0 if the pod adds none."""
    node = view.nodes[row].name
    in_use = [disk for pod in view.volume_usage.pods.get(node, {}).values() for disk in _attachable_volumes(view, pod)]
    present, added = (
        {handle for name, handle, plugin in disks if name == driver and _is_counted(view, row, plugin)}
        for disks in (in_use, new)
    )
    # A volume that is attached but in_use by no pod counts twice, as in kube-scheduler.
    return len(present | _attached(view, node, driver)) + len(added - present) if added - present else 0


def _is_counted(view: View, row: int, plugin: str) -> bool:
    """Whether volumes of an in-tree plugin count as the driver's; CSI volumes always do."""
    return plugin != MIGRATED_PER_NODE or bool(migrated_nodes(view, plugin)[row])


def _attached(view: View, node: str, driver: str) -> set[str]:
    volumes: Mapping[str, PersistentVolume] = view.objects.of_kind(PersistentVolume)
    attached = view.objects.by_index(VolumeAttachment, "node").get(node, {}).values()
    attached_volumes = (volumes.get(each.volume) for each in attached if each.attacher == driver)
    return {volume.handle for volume in attached_volumes if volume is not None and volume.handle and not volume.in_tree}
