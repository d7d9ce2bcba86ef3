"""Decides what pods of one template have in common, once per template; leaves what differs to the pod's reader.

shape ──encode──▶ Kinship's bytes ──▶ Kin      a hit for the siblings of a pod that was seen of late
                    │ miss
                    ├─ labels, owner           a hit for pods that differ in another part
                    ├─ Body's bytes ──▶ spec, demand
                    └─ volumes                 last, because each pod of a StatefulSet has claims of its own
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.pod import HostPort, Owner, PodSpec, Volume
from trimtab.core.model.resources import PodRequests
from trimtab.core.model.selectors import Pairs, label_pairs
from trimtab.wire.affinity import (
    AffinityShape,
    SpreadShape,
    TolerationShape,
    affinity,
    spread,
    toleration,
    validate,
)
from trimtab.wire.decode_errors import NULL, decode_part, summarize
from trimtab.wire.interning import GenerationalCache, WeakInterner
from trimtab.wire.pod_json import (
    ClaimShape,
    NamedShape,
    OwnerShape,
    PodMetaShape,
    PodSpecShape,
    PodStatusShape,
    PortShape,
    SchedulingGroupShape,
    SpecKey,
    TemplateKey,
    VolumeShape,
    WorkloadRefShape,
)
from trimtab.wire.pod_requests import read_pod_requests

DEFAULT_SCHEDULER = "default-scheduler"
ANY_ADDRESS = "0.0.0.0"
PARTS_CACHED = 16384
TEMPLATES_CACHED = 4096

_encode = msgspec.json.Encoder().encode
_TEMPLATE_KEY = msgspec.json.Decoder(TemplateKey)
_SPEC_KEY = msgspec.json.Decoder(SpecKey)
_KINDS = tuple((each.name, each.encode_name) for each in msgspec.structs.fields(VolumeShape) if each.name != "name")
_NO_LABELS: dict[str, str] = {}


class TemplateFields(Struct, frozen=True, gc=False):
    """What a pod shares with its siblings; `fault` tells what of it could not be read."""

    namespace: str
    labels: Mapping[str, str]
    owner: Owner | None
    scheduler_name: str
    priority: int
    may_preempt: bool
    scheduling_gates: tuple[str, ...]
    spec: PodSpec
    requests: PodRequests
    error: str


class TemplateCache:
    """The templates seen of late. Equal specs are one object, also when they come from different bytes."""

    def __init__(self) -> None:
        self._specs: WeakInterner[PodSpec] = WeakInterner()
        self._requests: GenerationalCache[PodRequests, PodRequests] = GenerationalCache(
            lambda demand: demand, TEMPLATES_CACHED
        )
        self._labels: GenerationalCache[bytes, tuple[Mapping[str, str], str]] = GenerationalCache(_labels, PARTS_CACHED)
        self._owners: GenerationalCache[bytes, tuple[Owner | None, str]] = GenerationalCache(_owner, PARTS_CACHED)
        self._bodies: GenerationalCache[bytes, tuple[PodSpec, PodRequests, str]] = GenerationalCache(
            self._body, TEMPLATES_CACHED
        )
        self._templates: GenerationalCache[bytes, TemplateFields] = GenerationalCache(self._build, TEMPLATES_CACHED)

    def get(
        self, meta: PodMetaShape, spec: PodSpecShape, status: PodStatusShape, resize_infeasible: bool
    ) -> TemplateFields:
        """What the pod shares. The tuples are those of Kinship and Body, spelt out because this runs for every pod."""
        volumes = spec.volumes
        tying = volumes and [each for each in volumes if each != VolumeShape(each.name)]
        body = (
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.resource_claims,
            spec.workload_ref,
            spec.scheduling_group,
            spec.overhead,
            spec.resources,
            spec.host_network,
            spec.containers,
            spec.init_containers,
            status.container_statuses,
            status.init_container_statuses,
            resize_infeasible,
        )
        kinship = (
            meta.namespace,
            spec.scheduler_name,
            spec.priority,
            spec.preemption_policy,
            spec.scheduling_gates,
            meta.labels,
            meta.owner_references,
            tying,
            body,
        )
        return self._templates[_encode(kinship)]

    def _build(self, key: bytes) -> TemplateFields:
        shape, faults = _TEMPLATE_KEY.decode(key), list[str]()
        labels, label_fault = self._labels[bytes(shape.labels)]
        owner, owner_fault = self._owners[bytes(shape.owner_references)]
        spec, wanted, body_fault = self._bodies[bytes(shape.body)]
        if shape.volumes:
            volumes = tuple([each for each in [_volume(each, faults) for each in shape.volumes] if each])
            spec = self._specs.intern(msgspec.structs.replace(spec, volumes=volumes))
        return TemplateFields(
            intern(shape.namespace),
            labels,
            owner,
            intern(shape.scheduler_name or DEFAULT_SCHEDULER),
            shape.priority or 0,
            shape.preemption_policy != "Never",
            _names(shape.scheduling_gates, "spec.schedulingGates", faults),
            spec,
            wanted,
            body_fault or summarize(faults) or label_fault or owner_fault,
        )

    def _body(self, key: bytes) -> tuple[PodSpec, PodRequests, str]:
        body, faults = _SPEC_KEY.decode(key), list[str]()
        spec = self._specs.intern(_spec(body, faults))
        return spec, self._requests[read_pod_requests(body, faults)], summarize(faults)


def _spec(body: SpecKey, errors: list[str]) -> PodSpec:
    tolerations = decode_part(body.tolerations, tuple[TolerationShape, ...], "spec.tolerations", errors)
    spreads = decode_part(
        body.topology_spread_constraints, tuple[SpreadShape, ...], "spec.topologySpreadConstraints", errors
    )
    selector = decode_part(body.node_selector, dict[str, str], "spec.nodeSelector", errors)
    every = (*(body.containers or ()), *(body.init_containers or ()))
    wishes = affinity(decode_part(body.affinity, AffinityShape, "spec.affinity", errors))
    return PodSpec(
        node_selector=None if selector is None else label_pairs(selector),
        affinity=wishes,
        tolerations=tuple(toleration(each) for each in tolerations or ()),
        topology_spread=tuple(spread(each) for each in spreads or ()),
        images=tuple(each.image or "" for each in every),
        ports=_ports(body, errors),
        resource_claims=_names(body.resource_claims, "spec.resourceClaims", errors),
        scheduling_group=_group(body, errors),
        host_network=bool(body.host_network),
        error=validate(wishes, spreads or ()),
    )


def _ports(body: SpecKey, errors: list[str]) -> tuple[HostPort, ...]:
    """Ports that are taken as long as the pod runs: those of sidecars and of plain containers."""
    lasting = [each for each in body.init_containers or () if each.sidecar]
    found: list[PortShape] = []
    for container in (*lasting, *(body.containers or ())):
        path = f"spec.containers[name={container.name}].ports"
        found += decode_part(container.ports, tuple[PortShape, ...], path, errors) or ()
    return tuple(
        HostPort(port.protocol or "TCP", port.host_ip or ANY_ADDRESS, port.host_port)
        for port in found
        if port.host_port and port.host_port > 0
    )


def _group(body: SpecKey, errors: list[str]) -> str:
    workload = decode_part(body.workload_ref, WorkloadRefShape, "spec.workloadRef", errors)
    if workload is not None:
        return "/".join(filter(None, (workload.name, workload.pod_group, workload.pod_group_replica_key)))
    group = decode_part(body.scheduling_group, SchedulingGroupShape, "spec.schedulingGroup", errors)
    return group.pod_group_name or "" if group else ""


def _volume(shape: VolumeShape, errors: list[str]) -> Volume | None:
    """The volume, or None where its source is null or, with a fault, unreadable."""
    path = f"spec.volumes[name={shape.name}]"
    if shape.persistent_volume_claim is not NULL:
        claim = decode_part(shape.persistent_volume_claim, ClaimShape, f"{path}.persistentVolumeClaim", errors)
        return Volume("persistentVolumeClaim", claim.claim_name or "", (), bool(claim.read_only)) if claim else None
    name, kind = next(each for each in _KINDS if getattr(shape, each[0]) is not NULL)
    source = decode_part(getattr(shape, name), dict[str, Any], f"{path}.{kind}", errors)
    if source is None:
        return None
    pointed = () if kind == "ephemeral" else _source(source)
    return Volume(kind, shape.name or "", pointed, source.get("readOnly") is True)


def _source(fields: dict[str, Any]) -> Pairs:
    """What a volume points at, as text; nested fields (secrets) say nothing about where it may be mounted."""
    found = {}
    for name, value in fields.items():
        if isinstance(value, list):
            found[name] = ",".join(str(each) for each in value)
        elif isinstance(value, str | int) and name != "readOnly":
            found[name] = str(value)
    return label_pairs(found)


def _names(raw: Raw, path: str, errors: list[str]) -> tuple[str, ...]:
    """The names in a list of named things."""
    return tuple(each.name or "" for each in decode_part(raw, tuple[NamedShape, ...], path, errors) or ())


def _labels(raw: bytes) -> tuple[Mapping[str, str], str]:
    faults: list[str] = []
    return decode_part(raw, dict[str, str], "metadata.labels", faults) or _NO_LABELS, summarize(faults)


def _owner(raw: bytes) -> tuple[Owner | None, str]:
    """The controller among the owners: there is at most one, and the others only keep the pod from being collected."""
    faults: list[str] = []
    owners = decode_part(raw, tuple[OwnerShape, ...], "metadata.ownerReferences", faults) or ()
    found = next((each for each in owners if each.controller), None)
    if found is None:
        return None, summarize(faults)
    return Owner(found.kind or "", found.name or "", found.uid or "", found.api_version or ""), summarize(faults)
