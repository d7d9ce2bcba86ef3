"""One replica more for a while: reads a Deployment or ReplicaSet, says what forbids it, and builds the requests.

A label says whom the further replica is for, and is written together with `spec.replicas`. So whoever takes over a move sees
whether its workload has a further replica, and taking it back twice takes it back once. Annotations would not do: Deployments
copy them to their ReplicaSets, and `kubectl rollout undo` puts those of the earlier ReplicaSet in their place.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from trimtab.core.model.instructions import EndSurge, StartSurge
from trimtab.wire.decoding import UNREADABLE
from trimtab.wire.quantity import QuantityError
from trimtab.wire.quota import PodTemplate, exhausted_quota
from trimtab.wire.requests import MERGE_PATCH, Request, json_request, quote

SURGE = "trimtab.dev/surge-for"  # the UID of the pod that is to be replaced
SURGE_REPLICAS = "trimtab.dev/surge-replicas"  # without the further one
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
LOWEST_COST = str(-(1 << 31) + 1)
RESOURCES = {"Deployment": "deployments", "ReplicaSet": "replicasets"}
# Labels and annotations of tools that write the number of replicas back.
GITOPS = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}


class _OwnerReference(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _Meta(Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[_OwnerReference, ...] | None = None


class _Spec(Struct, frozen=True):
    replicas: int | None = None
    paused: bool | None = None
    template: PodTemplate = PodTemplate()


class _Status(Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0


class Workload(Struct, frozen=True):
    """What matters of a Deployment or ReplicaSet."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def replicas(self) -> int:
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def surge_for(self) -> str:
        return (self.metadata.labels or {}).get(SURGE, "")

    @property
    def replicas_before(self) -> int | None:
        text = (self.metadata.labels or {}).get(SURGE_REPLICAS, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


class _ScaleTarget(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _AutoscalerSpec(Struct, frozen=True, rename="camel"):
    scale_target_ref: _ScaleTarget = _ScaleTarget()


class _NamedMeta(Struct, frozen=True):
    name: str = ""


class _Autoscaler(Struct, frozen=True):
    metadata: _NamedMeta = _NamedMeta()
    spec: _AutoscalerSpec = _AutoscalerSpec()


class _AutoscalerList(Struct, frozen=True):
    items: tuple[_Autoscaler, ...] = ()


def workload_request(surge: StartSurge | EndSurge) -> Request:
    return Request("GET", _path(surge))


def autoscalers_request(surge: StartSurge) -> Request:
    return Request("GET", f"/apis/autoscaling/v2/namespaces/{quote(surge.namespace)}/horizontalpodautoscalers")


def _path(surge: StartSurge | EndSurge) -> str:
    resource = RESOURCES[surge.kind]
    return f"/apis/apps/v1/namespaces/{quote(surge.namespace)}/{resource}/{quote(surge.workload)}"


def decode_workload(body: bytes) -> Workload | None:
    try:
        return msgspec.json.decode(body, type=Workload)
    except UNREADABLE:
        return None


class Obstacle(NamedTuple):
    """Why a workload should not get a further replica; unless it `lasts`, another time it may."""

    reason: str
    lasts: bool = True


def workload_obstacle(workload: Workload) -> Obstacle | None:
    """What in the workload itself speaks against it."""
    meta, status = workload.metadata, workload.status
    owner = next((each for each in meta.owner_references or () if each.controller), None)
    if owner is not None:
        return Obstacle(f"it belongs to {owner.kind} {owner.name}")
    marks = {**(meta.labels or {}), **(meta.annotations or {})}
    tool = next((name for key, name in GITOPS.items() if key in marks), "")
    if tool:
        return Obstacle(f"{tool} manages it, and would take the further replica back")
    if workload.surge_for:
        return Obstacle("another pod of it is being replaced", lasts=False)
    if workload.spec.paused:
        return Obstacle("its rollout is paused")
    settled = status.observed_generation >= meta.generation and status.replicas == workload.replicas
    if not settled or status.ready_replicas < workload.replicas:
        return Obstacle(f"{status.ready_replicas} of its {workload.replicas} replicas are ready", lasts=False)
    return None


def autoscaler_obstacle(surge: StartSurge, body: bytes) -> Obstacle | None:
    try:
        found = msgspec.json.decode(body, type=_AutoscalerList).items
    except UNREADABLE as error:
        return Obstacle(f"the HorizontalPodAutoscalers of its namespace cannot be read: {error}", lasts=False)
    target = _ScaleTarget(surge.kind, surge.workload)
    scaling = next((each.metadata.name for each in found if each.spec.scale_target_ref == target), "")
    return Obstacle(f"HorizontalPodAutoscaler {scaling} sets its replicas") if scaling else None


def quota_obstacle(workload: Workload, body: bytes) -> Obstacle | None:
    """A quota that has no room for one pod more."""
    try:
        reason = exhausted_quota(workload.spec.template, body)
    except (*UNREADABLE, QuantityError) as error:
        return Obstacle(f"the quotas of its namespace cannot be read: {error}", lasts=False)
    return Obstacle(reason) if reason else None


def start_request(surge: StartSurge, workload: Workload) -> Request:
    """Refused if anything of the workload has changed since it was read."""
    marks = {SURGE: surge.uid, SURGE_REPLICAS: str(workload.replicas)}
    metadata = {"resourceVersion": workload.metadata.resource_version, "labels": marks}
    return json_request(
        "PATCH", _path(surge), {"metadata": metadata, "spec": {"replicas": workload.replicas + 1}}, MERGE_PATCH
    )


def deletion_cost_request(surge: EndSurge) -> Request:
    """The pod that a ReplicaSet gives up first, of those that are ready."""
    path = f"/api/v1/namespaces/{quote(surge.namespace)}/pods/{quote(surge.leaves)}"
    return json_request("PATCH", path, {"metadata": {"annotations": {DELETION_COST: LOWEST_COST}}}, MERGE_PATCH)


def end_request(surge: EndSurge, workload: Workload) -> Request:
    """Take the replica back, unless somebody has set another number since."""
    metadata = {
        "resourceVersion": workload.metadata.resource_version,
        "labels": {SURGE: None, SURGE_REPLICAS: None},
    }
    before = workload.replicas_before
    body: dict[str, object] = {"metadata": metadata}
    if before is not None and workload.replicas == before + 1:
        body["spec"] = {"replicas": before}
    return json_request("PATCH", _path(surge), body, MERGE_PATCH)
