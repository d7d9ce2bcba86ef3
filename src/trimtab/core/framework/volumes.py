"""PersistentVolumeClaims of pods, as volume plugins and the scheduling queue both need them."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.core.cluster.view import View
from trimtab.core.cluster.volume_usage import CLAIM, EPHEMERAL
from trimtab.core.framework.interface import Bools
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import CsiNode, PersistentVolume, PersistentVolumeClaim


def claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Names of the claims behind the pod's volumes, and whether they are ephemeral."""
    for volume in pod.spec.volumes:
        if volume.kind == CLAIM:
            yield volume.name, False
        elif volume.kind == EPHEMERAL:
            yield f"{pod.name}-{volume.name}", True


def not_found(name: str, kind: str = "persistentvolumeclaim") -> str:
    """The API server's message for an object that does not exist."""
    return f'{kind} "{name}" not found'


def can_bind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the claim could be bound to the volume, if that is free."""
    same_class = volume.storage_class == claim.storage_class
    return same_class and not claim.bound and volume_fits(claim, volume) and selects_volume(claim, volume)


def volume_fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the volume has the size and modes of the claim."""
    return (
        volume.capacity >= (claim.requested or 0)
        and volume.volume_mode == claim.volume_mode
        and volume.volume_attributes_class == claim.volume_attributes_class
        and not volume.terminating
    )


def selects_volume(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the claim's selector and access modes allow the volume; a volume reserved for it needs neither."""
    if claim.selector is not None and not (claim.selector.valid and claim.selector.matches(volume.labels)):
        return False
    return claim.access_modes == volume.access_modes or set(claim.access_modes) <= set(volume.access_modes)


def migrated_nodes(view: View, plugin: str) -> Bools:
    """Nodes where a CSI driver has taken over this in-tree plugin."""

    def named() -> Bools:
        return view.rows_named(name for name, node in view.objects.of_kind(CsiNode).items() if plugin in node.migrated)

    version = view.node_table.epoch, view.objects.generation(CsiNode)
    return view.objects.cached(("migrated", plugin), version, named)
