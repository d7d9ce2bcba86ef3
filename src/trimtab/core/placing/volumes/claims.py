"""Which claims a pod has and whether they can be used at all; on which nodes is left to `reach` and `matching`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trimtab.core.cluster.mounts import CLAIM, EPHEMERAL
from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import FIRST_CONSUMER, LOST, PersistentVolumeClaim, StorageClass
from trimtab.core.placing.contract import Refuse
from trimtab.core.placing.volumes.plans import Plans

IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class Sorted(NamedTuple):
    """Claims that have their volume, and claims that get one when the pod gets a node."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()


def names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Names of the claims that the pod's volumes stand for, and whether they come and go with the pod."""
    for volume in pod.spec.volumes:
        if volume.kind == CLAIM:
            yield volume.name, False
        elif volume.kind == EPHEMERAL:
            yield f"{pod.name}-{volume.name}", True


def usable(view: View, pod: Pod) -> tuple[PersistentVolumeClaim, ...] | Refuse:
    """The pod's claims, each once; or what keeps one of them from being used."""
    held = view.objects.of(PersistentVolumeClaim)
    found: dict[str, PersistentVolumeClaim] = {}
    for name, ephemeral in names(pod):
        claim = held.get(f"{pod.namespace}/{name}")
        fault = _fault(pod, name, ephemeral, claim)
        if fault or claim is None:
            return Refuse(fault)
        found[claim.key] = claim
    return tuple(found.values())


def _fault(pod: Pod, name: str, ephemeral: bool, claim: PersistentVolumeClaim | None) -> str:
    if claim is None and ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return missing(name)
    if claim.phase == LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and claim.owner != pod.uid:
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


def missing(name: str, kind: str = "persistentvolumeclaim") -> str:
    """What the API server says of an object that is not there."""
    return f'{kind} "{name}" not found'


def sort(view: View, plans: Plans, pod: Pod) -> Sorted | Refuse:
    """Who of the pod's claims still needs a volume; one that should have had it before the pod came is a refusal."""
    claims = usable(view, pod)
    if isinstance(claims, Refuse):
        return claims
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    immediate = False
    classes = view.objects.of(StorageClass)
    for claim in map(plans.claim, claims):
        given = classes.get(claim.storage_class)
        if claim.bound:
            bound.append(claim)
        elif given is not None and given.binding is None:
            return Refuse(f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"')
        elif given is not None and given.binding == FIRST_CONSUMER and not claim.volume:
            delayed.append(claim)
        else:
            immediate = True
    return Refuse(IMMEDIATE) if immediate else Sorted(tuple(bound), tuple(delayed))
