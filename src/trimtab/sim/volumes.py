"""Volumes of the simulated cluster: what the volume controller and a provisioner make of the scheduler's requests."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from trimtab.core.model.instructions import BindVolume, SelectNode
from trimtab.core.model.node import HOSTNAME
from trimtab.core.model.objects import Object
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.core.model.storage import ClaimRef, PersistentVolume, PersistentVolumeClaim

BOUND = "Bound"

Objects = Mapping[tuple[str, str], Object]


def bind_volume(objects: Objects, instruction: BindVolume) -> tuple[Object, ...] | str:
    """The volume and the claim once they are bound to each other, or why they cannot be."""
    volume = objects.get((PersistentVolume.kind, instruction.volume))
    claim = objects.get((PersistentVolumeClaim.kind, f"{instruction.claim_namespace}/{instruction.claim}"))
    if not isinstance(volume, PersistentVolume) or not isinstance(claim, PersistentVolumeClaim):
        return "the volume or the claim was deleted"
    if volume.version != instruction.version:
        return "the volume has been modified"
    return _bound(volume, claim)


def provision_volume(objects: Objects, instruction: SelectNode) -> tuple[Object, ...] | str:
    """A new volume that only the selected node can reach, and the claim bound to it; or why there is none."""
    claim = objects.get((PersistentVolumeClaim.kind, f"{instruction.claim_namespace}/{instruction.claim}"))
    if not isinstance(claim, PersistentVolumeClaim):
        return "the claim was deleted"
    name = f"pvc-{claim.uid}"
    volume = PersistentVolume(
        name=name,
        uid=name,
        storage_class=claim.storage_class,
        capacity=claim.requested or 0,
        access_modes=claim.access_modes,
        volume_mode=claim.volume_mode,
        terms=(NodeSelectorTerm((Requirement(HOSTNAME, "In", (instruction.node,)),)),),
    )
    return _bound(volume, replace(claim, selected_node=instruction.node))


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[Object, ...]:
    reference = ClaimRef(claim.namespace, claim.name, claim.uid)
    return (
        replace(volume, claim=reference, phase=BOUND),
        replace(claim, volume=volume.name, bind_completed=True, phase=BOUND),
    )
