"""A pod's PersistentVolumeClaims: which exist, which are bound, and which errors prevent their use."""

from __future__ import annotations

from typing import NamedTuple

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Reject
from trimtab.core.framework.volumes import claim_names, not_found
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import LOST, WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass
from trimtab.core.plugins.volume_binding.reservations import VolumeReservations

IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class ClaimsByState(NamedTuple):
    """Bound claims, and unbound ones that are bound once the pod has a node (WaitForFirstConsumer)."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()


def resolve(view: View, pod: Pod) -> tuple[PersistentVolumeClaim, ...] | Reject:
    """The pod's claims, each once; or the reason why one of them cannot be used."""
    claims = view.objects.of_kind(PersistentVolumeClaim)
    resolved: dict[str, PersistentVolumeClaim] = {}
    for name, ephemeral in claim_names(pod):
        claim = claims.get(f"{pod.namespace}/{name}")
        error = _error(pod, name, ephemeral, claim)
        if error or claim is None:
            return Reject(error)
        resolved[claim.key] = claim
    return tuple(resolved.values())


def _error(pod: Pod, name: str, ephemeral: bool, claim: PersistentVolumeClaim | None) -> str:
    if claim is None and ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return not_found(name)
    if claim.phase == LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.terminating:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and claim.controller_uid != pod.uid:
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


def classify(view: View, reservations: VolumeReservations, pod: Pod) -> ClaimsByState | Reject:
    """The pod's claims by state; a claim that should have been bound before the pod was created is a rejection."""
    claims = resolve(view, pod)
    if isinstance(claims, Reject):
        return claims
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    immediate = False
    classes = view.objects.of_kind(StorageClass)
    for claim in map(reservations.with_selected_node, claims):
        storage_class = classes.get(claim.storage_class)
        if claim.bound:
            bound.append(claim)
        elif storage_class is not None and storage_class.binding_mode is None:
            return Reject(f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"')
        elif storage_class is not None and storage_class.binding_mode == WAIT_FOR_FIRST_CONSUMER and not claim.volume:
            delayed.append(claim)
        else:
            immediate = True
    return Reject(IMMEDIATE) if immediate else ClaimsByState(tuple(bound), tuple(delayed))
