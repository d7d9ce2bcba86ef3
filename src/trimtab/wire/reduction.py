"""Reduces the JSON of objects to the fields that scheduling decodes, for files that leave the cluster.

    bytes ──▶ the reader's shape with every undecoded part typed ──▶ bytes that the same reader decodes to the same object

This is a list of what may pass, derived from the shapes that the readers decode: a field that no shape names, such as `env`,
`command`, `args`, other annotations, `managedFields` or the content of a volume, is never read and so never written. What
shapes leave undecoded (`Raw`) or open (`Any`) gets its type here, and a test fails if one is forgotten. Messages of
conditions are free text and decide nothing, so they do not pass; nor do volumes, addresses and conditions that are not read.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, UnsetType
from msgspec.structs import FieldInfo, fields, replace

from trimtab.core.model.node import Node
from trimtab.wire.affinity import AffinityShape, SpreadShape, TolerationShape
from trimtab.wire.decoding import UNREADABLE, Malformed, Quantities, format_error
from trimtab.wire.node import ADDRESS_TYPES, ImageShape, NodeShape, NodeStatusShape
from trimtab.wire.objects import BudgetStatus, NamespaceShape, ObjectMetaShape
from trimtab.wire.pod_json import (
    ClaimShape,
    ConditionShape,
    ContainerShape,
    ContainerStatusShape,
    NamedShape,
    OwnerShape,
    PodConditionShape,
    PodMetaShape,
    PodShape,
    PodSpecShape,
    PortShape,
    SchedulingGroupShape,
    VolumeShape,
    WorkloadRefShape,
    meaningful_annotations,
)
from trimtab.wire.pod_template import ResourcesShape
from trimtab.wire.storage import LabelledMeta, PersistentVolumeSpecShape, StoredMeta
from trimtab.wire.watch import Reader

Labels = dict[str, str] | None
DROPPED = UnsetType
READY = "Ready"
POD_CONDITIONS = frozenset({READY, "PodScheduled", "PodResizePending", "DisruptionTarget"})


class NamespaceMeta(ObjectMetaShape, frozen=True, rename="camel"):
    """Of the kinds that `objects` decodes, only namespaces are selected by their labels."""

    labels: Labels = None  # type: ignore[assignment]


class EmptySource(Struct, frozen=True):
    """A volume whose kind alone matters."""


class DriverSource(Struct, frozen=True):
    """An inline CSI volume: what its driver is told may be secret."""

    driver: str | None = None


class DiskSource(Struct, frozen=True, rename="camel"):
    """What tells disks apart, of any in-tree volume plugin; the names are the API's."""

    pd_name: str | None = None
    volume_id: str | None = msgspec.field(default=None, name="volumeID")
    disk_uri: str | None = msgspec.field(default=None, name="diskURI")
    kind: str | None = None
    iqn: str | None = None
    pool: str | None = None
    image: str | None = None
    monitors: tuple[str, ...] | None = None
    share_name: str | None = None
    volume_path: str | None = None
    read_only: bool | None = None


_DISKS = ("aws_elastic_block_store", "gce_persistent_disk", "azure_disk", "cinder", "portworx_volume")
_UNCOUNTED = ("azure_file", "vsphere_volume")

# What is behind the fields that a shape leaves undecoded or open, by shape and field.
PARTS: dict[tuple[type[Struct], str], Any] = {
    (PodMetaShape, "labels"): Labels,
    (PodMetaShape, "owner_references"): tuple[OwnerShape, ...] | None,
    (PodMetaShape, "deletion_timestamp"): str | None,
    (PodSpecShape, "scheduling_gates"): tuple[NamedShape, ...] | None,
    (PodSpecShape, "node_selector"): Labels,
    (PodSpecShape, "affinity"): AffinityShape | None,
    (PodSpecShape, "tolerations"): tuple[TolerationShape, ...] | None,
    (PodSpecShape, "topology_spread_constraints"): tuple[SpreadShape, ...] | None,
    (PodSpecShape, "overhead"): Quantities | None,
    (PodSpecShape, "resources"): ResourcesShape | None,
    (PodSpecShape, "resource_claims"): tuple[NamedShape, ...] | None,
    (PodSpecShape, "workload_ref"): WorkloadRefShape | None,
    (PodSpecShape, "scheduling_group"): SchedulingGroupShape | None,
    (ContainerShape, "resources"): ResourcesShape | None,
    (ContainerShape, "ports"): tuple[PortShape, ...] | None,
    (ContainerStatusShape, "resources"): ResourcesShape | None,
    (ContainerStatusShape, "allocated_resources"): Quantities | None,
    (VolumeShape, "persistent_volume_claim"): ClaimShape | None,
    (VolumeShape, "ephemeral"): EmptySource | None,
    (VolumeShape, "csi"): DriverSource | None,
    **{(VolumeShape, name): DiskSource | None for name in (*_DISKS, *_UNCOUNTED, "iscsi", "rbd")},
    (ConditionShape, "message"): DROPPED,
    (PodConditionShape, "message"): DROPPED,
    (NodeStatusShape, "allocatable"): Quantities | None,
    (NodeStatusShape, "capacity"): Quantities | None,
    (NodeStatusShape, "images"): tuple[ImageShape, ...] | None,
    (ObjectMetaShape, "labels"): DROPPED,
    (NamespaceShape, "metadata"): NamespaceMeta,
    (NamespaceMeta, "labels"): Labels,
    (StoredMeta, "deletion_timestamp"): str | None,
    (LabelledMeta, "labels"): Labels,
    (BudgetStatus, "disrupted_pods"): dict[str, str | None] | None,
    **{(PersistentVolumeSpecShape, name): DiskSource | None for name in (*_DISKS, *_UNCOUNTED)},
}


class Reduced(Struct, frozen=True, gc=False):
    """The JSON of an object of which only the fields of its reduced shape are left: a tenth of what the struct would take."""

    content: bytes
    shape: type[Struct]
    version: int = 0

    def decode(self) -> Any:
        """The struct again."""
        return _decoder(self.shape).decode(self.content)


@cache
def _decoder(shape: type[Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


class Reduction:
    """Reads objects of one kind as their reduced shapes: a `Reader` that `decode_list` can be given.

    An object with a field of another type than the shape's is `Malformed` as a whole: half of it could mislead.
    """

    def __init__(self, reader: Reader[Any]) -> None:
        self.kind, self.shape = reader.kind, reduced_shape(reader.shape)
        self._reader, self._of = reader, reader.shape
        self._decode = _decoder(self.shape).decode

    def build(self, shape: Any) -> Reduced:
        if issubclass(self._of, PodShape):
            shape = _tidy_pod(shape)
        elif issubclass(self._of, NodeShape):
            shape = _tidy_node(shape)
        return Reduced(msgspec.json.encode(shape), self.shape, int(shape.metadata.resource_version or 0))

    def read(self, data: bytes | Raw) -> Reduced | Malformed:
        """The reduced object in these bytes."""
        try:
            return self.build(self._decode(data))
        except UNREADABLE as error:
            found = self._reader.read(data)
            if isinstance(found, Malformed):
                return found
            key = found.name if isinstance(found, Node) else found.key
            return Malformed(self.kind, key, found.uid, format_error("", error).lstrip(".: "))


def _tidy_pod(shape: Any) -> Any:
    """Without the volumes, conditions and values of annotations that the reader passes over."""
    meta, spec, status = shape.metadata, shape.spec, shape.status
    if meta.annotations is not None:
        kept = type(meta.annotations)(**meaningful_annotations(meta.annotations, spec and spec.volumes))
        meta = replace(meta, annotations=None if kept == type(kept)() else kept)
    if spec is not None and spec.volumes:
        plain = type(spec.volumes[0])
        volumes = tuple(each for each in spec.volumes if each != plain(name=each.name))
        spec = replace(spec, volumes=volumes or None)
    if status is not None and status.conditions:
        status = replace(status, conditions=_conditions(status.conditions, POD_CONDITIONS))
    return replace(shape, metadata=meta, spec=spec, status=status)


def _tidy_node(shape: Any) -> Any:
    """Without the addresses and conditions that the reader passes over."""
    status = shape.status
    if status is None:
        return shape
    addresses = tuple(each for each in status.addresses or () if each.type in ADDRESS_TYPES)
    conditions = _conditions(status.conditions or (), frozenset({READY}))
    return replace(shape, status=replace(status, conditions=conditions, addresses=addresses or None))


def _conditions(conditions: tuple[Any, ...], read: frozenset[str]) -> tuple[Any, ...] | None:
    """Those that are read, with their reason as far as that is read, too."""
    kept = (each for each in conditions if each.type in read)
    return tuple(replace(each, reason=None) if each.type == READY else each for each in kept) or None


ORIGINALS: dict[type, type[Struct]] = {}  # the reader's shape behind each reduced one


@cache
def reduced_shape(shape: type[Struct]) -> type[Struct]:
    """The same shape with its undecoded parts typed; what is null or absent is left out when it is encoded."""
    typed = [(each, _part(shape, each)) for each in fields(shape)]
    kept = [
        (each.name, _reduced_type(kind), msgspec.field(name=each.encode_name, **_default(each)))
        for each, kind in typed
        if kind is not DROPPED
    ]
    found = msgspec.defstruct(shape.__name__, kept, frozen=True, gc=False, omit_defaults=True, kw_only=True)
    ORIGINALS[found] = shape
    return found


def _part(shape: type[Struct], field: FieldInfo) -> Any:
    """The type of a field: as listed in PARTS for the shape, or for the nearest one that it extends."""
    listed = (PARTS[each, field.name] for each in shape.__mro__ if (each, field.name) in PARTS)
    return next(listed, field.type)


def _default(field: FieldInfo) -> dict[str, Any]:
    """None, where the reader's own default is an undecoded null."""
    return {} if field.required else {"default": None if isinstance(field.default, Raw) else field.default}


def _reduced_type(kind: Any) -> Any:
    """The type with reduced shapes in place of the readers'."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return reduced_shape(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return reduce(or_, map(_reduced_type, arguments))
    if origin in (tuple, dict):
        return origin[tuple(_reduced_type(each) if each is not Ellipsis else each for each in arguments)]
    return kind
