"""Which claims a pod has and whether they can be used at all; on which nodes is left to `reach` and `matching`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trimtab.core.cluster.view import View
from trimtab.core.cluster.volume_usage import CLAIM, EPHEMERAL
from trimtab.core.framework.interface import Reject
from trimtab.core.framework.volumes.reservations import VolumeReservations
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import LOST, WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass

IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class ClaimsByState(NamedTuple):
    """Claims that have their volume, and claims that get one when the pod gets a node."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()


def claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Names of the claims that the pod's volumes stand for, and whether they come and go with the pod."""
    for volume in pod.spec.volumes:
        if volume.kind == CLAIM:
            yield volume.name, False
        elif volume.kind == EPHEMERAL:
            yield f"{pod.name}-{volume.name}", True


def resolve(view: View, pod: Pod) -> tuple[PersistentVolumeClaim, ...] | Reject:
    """The pod's claims, each once; or what keeps one of them from being used."""
    held = view.objects.of_kind(PersistentVolumeClaim)
    found: dict[str, PersistentVolumeClaim] = {}
    for name, ephemeral in claim_names(pod):
        claim = held.get(f"{pod.namespace}/{name}")
        fault = _error(pod, name, ephemeral, claim)
        if fault or claim is None:
            return Reject(fault)
        found[claim.key] = claim
    return tuple(found.values())


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


def not_found(name: str, kind: str = "persistentvolumeclaim") -> str:
    """What the API server says of an object that is not there."""
    return f'{kind} "{name}" not found'


def classify(view: View, reservations: VolumeReservations, pod: Pod) -> ClaimsByState | Reject:
    """Who of the pod's claims still needs a volume; one that should have had it before the pod came is a refusal."""
    claims = resolve(view, pod)
    if isinstance(claims, Reject):
        return claims
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    immediate = False
    classes = view.objects.of_kind(StorageClass)
    for claim in map(reservations.with_selected_node, claims):
        given = classes.get(claim.storage_class)
        if claim.bound:
            bound.append(claim)
        elif given is not None and given.binding_mode is None:
            return Reject(f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"')
        elif given is not None and given.binding_mode == WAIT_FOR_FIRST_CONSUMER and not claim.volume:
            delayed.append(claim)
        else:
            immediate = True
    return Reject(IMMEDIATE) if immediate else ClaimsByState(tuple(bound), tuple(delayed))
