"""The parts that pods of one template share, decoded once per template; and a pod's resource requests.

shape ──encode──▶ TemplateKey's bytes ──▶ TemplateFields   a hit for recently seen pods of the same template
                    │ miss
                    ├─ labels, owner                        a hit for pods that differ in another part
                    ├─ SpecKey's bytes ──▶ spec, requests
                    └─ volumes                              last, because each pod of a StatefulSet has its own claims

While a running container is resized there are three figures: what the spec requests, what the node has allocated, and what
the container has. The largest counts, except for a request that the node has called infeasible. Limits have no allocated
figure. Plain init containers cannot be resized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from sys import intern
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.pod import HostPort, Owner, PodSpec, Volume
from trimtab.core.model.resources import ContainerRequests, PodRequests, pod_requests
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
from trimtab.wire.decoding import NULL, Quantities, decode_part, parse_amounts, summarize
from trimtab.wire.interning import GenerationalCache, WeakInterner
from trimtab.wire.limits import MAX_COUNTED, constraints_excess, counted_excess, excess
from trimtab.wire.pod_json import (
    ClaimShape,
    Containers,
    ContainerShape,
    ContainerStatusShape,
    NamedShape,
    OwnerShape,
    PodAnnotationsShape,
    PodMetaShape,
    PodSpecShape,
    PodStatusShape,
    PortShape,
    SchedulingGroupShape,
    SpecKey,
    TemplateKey,
    VolumeShape,
    WorkloadRefShape,
    meaningful_annotations,
)

DEFAULT_SCHEDULER = "default-scheduler"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 (a host port's hostIP)
PARTS_CACHED = 16384
TEMPLATES_CACHED = 4096

_encode = msgspec.json.Encoder().encode
_TEMPLATE_KEY = msgspec.json.Decoder(TemplateKey)
_SPEC_KEY = msgspec.json.Decoder(SpecKey)
_KINDS = tuple((each.name, each.encode_name) for each in msgspec.structs.fields(VolumeShape) if each.type is Raw)
_ANNOTATIONS = {each.name: intern(each.encode_name) for each in msgspec.structs.fields(PodAnnotationsShape)}
_NO_LABELS: dict[str, str] = {}
_NO_ANNOTATIONS: dict[str, str] = {}


class TemplateFields(Struct, frozen=True, gc=False):
    """What pods of one template share; `error` names what could not be read."""

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
    annotations: Mapping[str, str]


class TemplateCache:
    """Recently seen templates. Equal specs are one object, even if decoded from different bytes."""

    def __init__(self) -> None:
        self._specs: WeakInterner[PodSpec] = WeakInterner()
        self._requests: GenerationalCache[PodRequests, PodRequests] = GenerationalCache(
            lambda demand: demand, TEMPLATES_CACHED
        )
        self._labels: GenerationalCache[bytes, tuple[Mapping[str, str], str]] = GenerationalCache(_labels, PARTS_CACHED)
        self._owners: GenerationalCache[bytes, tuple[Owner | None, str]] = GenerationalCache(_owner, PARTS_CACHED)
        self._spec_keys: GenerationalCache[bytes, tuple[PodSpec, PodRequests, str]] = GenerationalCache(
            self._build_spec, TEMPLATES_CACHED
        )
        self._templates: GenerationalCache[bytes, TemplateFields] = GenerationalCache(self._build, TEMPLATES_CACHED)

    def get(
        self, meta: PodMetaShape, spec: PodSpecShape, status: PodStatusShape, resize_infeasible: bool
    ) -> TemplateFields:
        """The template's fields. The tuples are TemplateKey and SpecKey, spelt out because this runs for every pod."""
        volumes = spec.volumes
        relevant = [each for each in volumes or () if each != VolumeShape(each.name)]
        containers, inits = spec.containers or (), spec.init_containers or ()
        spec_key = (
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
            containers[:MAX_COUNTED],
            inits[:MAX_COUNTED],
            status.container_statuses,
            status.init_container_statuses,
            resize_infeasible,
        )
        template_key = (
            meta.namespace,
            spec.scheduler_name,
            spec.priority,
            spec.preemption_policy,
            spec.scheduling_gates,
            meta.labels,
            meta.owner_references,
            relevant[:MAX_COUNTED],
            len(relevant),
            len(containers) + len(inits),
            meta.annotations,
            spec_key,
        )
        return self._templates[_encode(template_key)]

    def _build(self, key: bytes) -> TemplateFields:
        shape, errors = _TEMPLATE_KEY.decode(key), list[str]()
        labels, label_error = self._labels[bytes(shape.labels)]
        owner, owner_error = self._owners[bytes(shape.owner_references)]
        spec, requests, spec_error = self._spec_keys[bytes(shape.spec_key)]
        if shape.volumes:
            spec = self._specs.intern(_with_volumes(spec, shape.volumes, errors))
        if not spec.error and (
            error := counted_excess(spec, requests, labels, shape.container_count, shape.volume_count)
        ):
            spec = self._specs.intern(msgspec.structs.replace(spec, error=error))
        return TemplateFields(
            intern(shape.namespace),
            labels,
            owner,
            intern(shape.scheduler_name or DEFAULT_SCHEDULER),
            shape.priority or 0,
            shape.preemption_policy != "Never",
            _names(shape.scheduling_gates, "spec.schedulingGates", errors),
            spec,
            requests,
            spec_error or summarize(errors) or label_error or owner_error,
            _annotations(shape),
        )

    def _build_spec(self, key: bytes) -> tuple[PodSpec, PodRequests, str]:
        decoded, errors = _SPEC_KEY.decode(key), list[str]()
        spec = self._specs.intern(_spec(decoded, errors))
        return spec, self._requests[read_pod_requests(decoded, errors)], summarize(errors)


def _spec(key: SpecKey, errors: list[str]) -> PodSpec:
    tolerations = decode_part(key.tolerations, tuple[TolerationShape, ...], "spec.tolerations", errors)
    spreads = decode_part(
        key.topology_spread_constraints, tuple[SpreadShape, ...], "spec.topologySpreadConstraints", errors
    )
    selector = decode_part(key.node_selector, dict[str, str], "spec.nodeSelector", errors)
    affinities = decode_part(key.affinity, AffinityShape, "spec.affinity", errors)
    error = constraints_excess(selector, affinities, tolerations, spreads)
    if error:  # not one of them is kept: the pod is not evaluated
        selector, affinities, tolerations, spreads = None, None, (), ()
    pod_affinity = affinity(affinities)
    containers = (*(key.containers or ()), *(key.init_containers or ()))
    return PodSpec(
        node_selector=None if selector is None else label_pairs(selector),
        affinity=pod_affinity,
        tolerations=tuple(toleration(each) for each in tolerations or ()),
        topology_spread=tuple(spread(each) for each in spreads or ()),
        images=tuple(each.image or "" for each in containers),
        ports=_ports(key, errors),
        resource_claims=_names(key.resource_claims, "spec.resourceClaims", errors),
        scheduling_group=_group(key, errors),
        host_network=bool(key.host_network),
        error=error or validate(pod_affinity, spreads or ()),
    )


def _ports(key: SpecKey, errors: list[str]) -> tuple[HostPort, ...]:
    """Host ports held while the pod runs: those of sidecars and of plain containers."""
    sidecars = [each for each in key.init_containers or () if each.sidecar]
    found: list[PortShape] = []
    for container in (*sidecars, *(key.containers or ())):
        if container.ports == NULL:
            continue
        path = f"spec.containers[name={container.name}].ports"
        found += decode_part(container.ports, tuple[PortShape, ...], path, errors) or ()
    return tuple(
        HostPort(port.protocol or "TCP", port.host_ip or ANY_ADDRESS, port.host_port)
        for port in found
        if port.host_port and port.host_port > 0
    )


def _group(key: SpecKey, errors: list[str]) -> str:
    workload = decode_part(key.workload_ref, WorkloadRefShape, "spec.workloadRef", errors)
    if workload is not None:
        return "/".join(filter(None, (workload.name, workload.pod_group, workload.pod_group_replica_key)))
    group = decode_part(key.scheduling_group, SchedulingGroupShape, "spec.schedulingGroup", errors)
    return group.pod_group_name or "" if group else ""


def _with_volumes(spec: PodSpec, shapes: Sequence[VolumeShape], errors: list[str]) -> PodSpec:
    volumes = (_volume(each, errors) for each in shapes if each.empty_dir is None and each.host_path is None)
    local = tuple(intern(each.name or "") for each in shapes if each.local)
    return msgspec.structs.replace(spec, volumes=tuple(filter(None, volumes)), local_volumes=local)


def _annotations(shape: TemplateKey) -> Mapping[str, str]:
    """One shared mapping if there are none, as for most pods."""
    if shape.annotations is None:
        return _NO_ANNOTATIONS
    found = meaningful_annotations(shape.annotations, shape.volumes)
    return {_ANNOTATIONS[name]: value for name, value in found.items() if value is not None} or _NO_ANNOTATIONS


def _volume(shape: VolumeShape, errors: list[str]) -> Volume | None:
    """The volume; None if its source is null, or unreadable (with an error)."""
    path = f"spec.volumes[name={shape.name}]"
    if shape.persistent_volume_claim is not NULL:
        claim = decode_part(shape.persistent_volume_claim, ClaimShape, f"{path}.persistentVolumeClaim", errors)
        return Volume("persistentVolumeClaim", claim.claim_name or "", (), bool(claim.read_only)) if claim else None
    name, kind = next(each for each in _KINDS if getattr(shape, each[0]) is not NULL)
    source = decode_part(getattr(shape, name), dict[str, Any], f"{path}.{kind}", errors)
    if source is None:
        return None
    attributes = () if kind == "ephemeral" else _source(source)
    return Volume(kind, shape.name or "", attributes, source.get("readOnly") is True)


def _source(fields: dict[str, Any]) -> Pairs:
    """The fields of a volume source as text; nested ones (secrets) do not affect scheduling."""
    found = {}
    for name, value in fields.items():
        if isinstance(value, list):
            found[name] = ",".join(str(each) for each in value)
        elif isinstance(value, str | int) and name != "readOnly":
            found[name] = str(value)
    return label_pairs(found)


def _names(raw: Raw, path: str, errors: list[str]) -> tuple[str, ...]:
    """The names in a list of named objects."""
    return tuple(each.name or "" for each in decode_part(raw, tuple[NamedShape, ...], path, errors) or ())


def _labels(raw: bytes) -> tuple[Mapping[str, str], str]:
    errors: list[str] = []
    return decode_part(raw, dict[str, str], "metadata.labels", errors) or _NO_LABELS, summarize(errors)


def _owner(raw: bytes) -> tuple[Owner | None, str]:
    """The controller among the owners, at most one; the others only matter to the garbage collector."""
    errors: list[str] = []
    owners = decode_part(raw, tuple[OwnerShape, ...], "metadata.ownerReferences", errors) or ()
    found = next((each for each in owners if each.controller), None)
    if found is None:
        return None, summarize(errors)
    return Owner(found.kind or "", found.name or "", found.uid or "", found.api_version or ""), summarize(errors)


class ResourcesShape(Struct, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


Amounts = dict[str, int]
Statuses = Mapping[str | None, ContainerStatusShape]  # by name of the container


def read_pod_requests(key: SpecKey, errors: list[str]) -> PodRequests:
    """The pod's requests as the scheduler counts them."""
    all_statuses = (*(key.container_statuses or ()), *(key.init_container_statuses or ()))
    statuses = {each.name: each for each in all_statuses}
    return pod_requests(*read_spec_resources(key, statuses, key.resize_infeasible, errors))


class SpecResources(NamedTuple):
    """All resources of a pod's spec, as `pod_requests` takes them."""

    containers: list[ContainerRequests]
    inits: list[ContainerRequests]
    pod_level: ContainerRequests
    overhead: Amounts


def read_spec_resources(
    spec: SpecKey | PodSpecShape, statuses: Statuses, infeasible: bool, errors: list[str]
) -> SpecResources:
    overhead = decode_part(spec.overhead, Quantities, "spec.overhead", errors)
    requests, limits = _resources(spec.resources, "spec.resources", errors) or ({}, {})
    return SpecResources(
        _container_requests("spec.containers", spec.containers, statuses, infeasible, errors),
        _container_requests("spec.initContainers", spec.init_containers, statuses, infeasible, errors),
        ContainerRequests(requests, limits),
        parse_amounts(overhead, "spec.overhead", errors),
    )


def _container_requests(
    path: str,
    containers: Containers,
    statuses: Statuses,
    infeasible: bool,
    errors: list[str],
) -> list[ContainerRequests]:
    asks = []
    for index, each in enumerate(containers or ()):
        resizable = path == "spec.containers" or each.sidecar
        status = statuses.get(each.name) if resizable else None
        asks.append(_one_container(each, status, infeasible, f"{path}[{index}]", errors))
    return asks


def _one_container(
    container: ContainerShape, status: ContainerStatusShape | None, infeasible: bool, path: str, errors: list[str]
) -> ContainerRequests:
    requests, limits = _resources(container.resources, f"{path}.resources", errors) or ({}, {})
    actual = _resources(status.resources, f"{path} in status.resources", errors) if status else None
    if status and actual:
        where = f"{path} in status.allocatedResources"
        quantities = decode_part(status.allocated_resources, Quantities, where, errors)
        allocated = parse_amounts(quantities, where, errors)
        requests = _maximum(*(() if infeasible else (requests,)), actual[0], allocated)
        limits = _maximum(*(() if infeasible else (limits,)), actual[1])
    return ContainerRequests(requests, limits, container.sidecar)


def _resources(raw: Raw, path: str, errors: list[str]) -> tuple[Amounts, Amounts] | None:
    """Requests and limits; None if there is no such field, which an empty one is not."""
    shape = decode_part(raw, ResourcesShape, path, errors)
    if shape is None:
        return None
    return (
        _counted_amounts(shape.requests, f"{path}.requests", errors),
        _counted_amounts(shape.limits, f"{path}.limits", errors),
    )


def _counted_amounts(quantities: Quantities | None, path: str, errors: list[str]) -> Amounts:
    """Without the extended resources beyond those that are counted."""
    if quantities is not None and (error := excess(path, "resources", quantities, MAX_COUNTED)):
        errors.append(error)
        native = {name: amount for name, amount in quantities.items() if "/" not in name}
        quantities = dict(islice((native | quantities).items(), max(MAX_COUNTED, len(native))))
    return parse_amounts(quantities, path, errors)


def _maximum(*amounts_list: Amounts) -> Amounts:
    largest: Amounts = {}
    for amounts in amounts_list:
        for name, amount in amounts.items():
            largest[name] = max(amount, largest.get(name, 0))
    return largest
