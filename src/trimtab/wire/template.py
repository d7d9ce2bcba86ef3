"""Decides what pods of one template have in common, once per template; leaves what differs to the pod's reader."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.affinity import Affinity
from trimtab.core.model.pod import HostPort, PodSpec, Volume
from trimtab.core.model.resources import Demand
from trimtab.core.model.selectors import Pairs, pairs
from trimtab.wire.affinity import AffinityShape, SpreadShape, TolerationShape, affinity, spread, toleration
from trimtab.wire.demand import demand
from trimtab.wire.fault import NULL, read_part
from trimtab.wire.intern import Canon, Recent
from trimtab.wire.shapes import (
    NamedShape,
    Parts,
    PodSpecShape,
    PodStatusShape,
    PortShape,
    SchedulingGroupShape,
    VolumeShape,
    WorkloadRefShape,
)

_encode = msgspec.json.Encoder().encode
_PARTS = msgspec.json.Decoder(Parts)
_KINDS = tuple((each.name, each.encode_name) for each in msgspec.structs.fields(VolumeShape) if each.name != "name")

ANY_ADDRESS = "0.0.0.0"


class Template(Struct, frozen=True, gc=False):
    """The shared parts of pods, and the first fields of them that could not be read."""

    spec: PodSpec
    demand: Demand
    fault: str


class Templates:
    """The templates seen of late. Equal specs are one object, also when they come from different bytes."""

    def __init__(self) -> None:
        self._specs: Canon[PodSpec] = Canon()
        self._demands: Recent[Demand, Demand] = Recent(lambda demand: demand)
        self._recent: Recent[bytes, Template] = Recent(self._built)

    def of(self, spec: PodSpecShape, status: PodStatusShape, resize_infeasible: bool) -> Template:
        volumes = spec.volumes
        parts = (
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
            volumes and [each for each in volumes if each != VolumeShape(each.name)],
            status.container_statuses,
            status.init_container_statuses,
            resize_infeasible,
        )
        return self._recent[_encode(parts)]

    def _built(self, key: bytes) -> Template:
        parts, faults = _PARTS.decode(key), list[str]()
        spec = self._specs.one(_spec(parts, faults))
        wanted = self._demands[demand(parts, faults)]
        return Template(spec, wanted, summary(faults))


def summary(faults: list[str]) -> str:
    """The first fault, and how many more there are."""
    return f"{faults[0]} (and {len(faults) - 1} more)" if len(faults) > 1 else "".join(faults)


def _spec(parts: Parts, faults: list[str]) -> PodSpec:
    tolerations = read_part(parts.tolerations, tuple[TolerationShape, ...], "spec.tolerations", faults)
    spreads = read_part(
        parts.topology_spread_constraints,
        tuple[SpreadShape, ...],
        "spec.topologySpreadConstraints",
        faults,
    )
    every = (*(parts.containers or ()), *(parts.init_containers or ()))
    return PodSpec(
        node_selector=_node_selector(parts.node_selector, faults),
        affinity=_affinity(parts.affinity, faults),
        tolerations=tuple(toleration(each) for each in tolerations or ()),
        spread=tuple(spread(each) for each in spreads or ()),
        images=tuple(each.image or "" for each in every),
        ports=_ports(parts, faults),
        volumes=tuple(_volume(each, faults) for each in parts.volumes or ()),
        claims=names(parts.resource_claims, "spec.resourceClaims", faults),
        group=_group(parts, faults),
        host_network=bool(parts.host_network),
    )


def _node_selector(raw: Raw, faults: list[str]) -> Pairs | None:
    labels = read_part(raw, dict[str, str], "spec.nodeSelector", faults)
    return None if labels is None else pairs(labels)


def _affinity(raw: Raw, faults: list[str]) -> Affinity | None:
    return affinity(read_part(raw, AffinityShape, "spec.affinity", faults))


def _ports(parts: Parts, faults: list[str]) -> tuple[HostPort, ...]:
    """Ports that are taken as long as the pod runs: those of sidecars and of plain containers."""
    lasting = [each for each in parts.init_containers or () if each.sidecar]
    found: list[PortShape] = []
    for container in (*lasting, *(parts.containers or ())):
        path = f"spec.containers[name={container.name}].ports"
        found += read_part(container.ports, tuple[PortShape, ...], path, faults) or ()
    return tuple(
        HostPort(port.protocol or "TCP", port.host_ip or ANY_ADDRESS, port.host_port)
        for port in found
        if port.host_port and port.host_port > 0
    )


def _volume(shape: VolumeShape, faults: list[str]) -> Volume:
    name, kind = next(pair for pair in _KINDS if bytes(getattr(shape, pair[0])) != b"null")
    source = read_part(getattr(shape, name), dict[str, Any], f"spec.volumes[name={shape.name}].{kind}", faults) or {}
    read_only = source.get("readOnly") is True
    if kind == "persistentVolumeClaim":
        return Volume(kind, str(source.get("claimName") or ""), read_only=read_only)
    return Volume(kind, shape.name or "", () if kind == "ephemeral" else _source(source), read_only)


def _source(fields: dict[str, Any]) -> Pairs:
    """What a volume points at, as text; nested fields (secrets) say nothing about where it may be mounted."""
    found = {}
    for name, value in fields.items():
        if isinstance(value, list):
            found[name] = ",".join(str(each) for each in value)
        elif isinstance(value, str | int) and name != "readOnly":
            found[name] = str(value)
    return pairs(found)


def names(raw: Raw, path: str, faults: list[str]) -> tuple[str, ...]:
    """The names in a list of named things."""
    if raw is NULL:
        return ()
    named = read_part(raw, tuple[NamedShape, ...], path, faults)
    return tuple(each.name or "" for each in named or ())


def _group(parts: Parts, faults: list[str]) -> str:
    workload = read_part(parts.workload_ref, WorkloadRefShape, "spec.workloadRef", faults)
    if workload is not None:
        return "/".join(filter(None, (workload.name, workload.pod_group, workload.pod_group_replica_key)))
    group = read_part(parts.scheduling_group, SchedulingGroupShape, "spec.schedulingGroup", faults)
    return group.pod_group_name or "" if group else ""
