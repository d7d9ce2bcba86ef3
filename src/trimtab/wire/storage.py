"""Decodes claims, volumes, storage classes and what CSI drivers report."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

from msgspec import Struct, field
from msgspec.structs import fields

from trimtab.core.model.csi_migration import MIGRATED, UNCOUNTED, migrated_terms, volume_handle
from trimtab.core.model.resources import NANOS
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.core.model.storage import (
    FILESYSTEM,
    ClaimRef,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from trimtab.wire.affinity import NodeSelectorShape, SelectorShape, node_terms, selector
from trimtab.wire.decoding import Quantities
from trimtab.wire.limits import check_node_terms, check_selector
from trimtab.wire.objects import ObjectMetaShape, ObjectReader, identity_fields
from trimtab.wire.pod_json import OwnerShape
from trimtab.wire.quantity import nanos

STORAGE = "storage"

Amount = str | int | float | None


class AnnotationShape(Struct, frozen=True, gc=False):
    """The annotations that affect scheduling; some only by being there."""

    completed: str | None = field(default=None, name="pv.kubernetes.io/bind-completed")
    storage_class: str | None = field(default=None, name="volume.beta.kubernetes.io/storage-class")
    selected_node: str | None = field(default=None, name="volume.kubernetes.io/selected-node")
    migrated: str | None = field(default=None, name="storage.alpha.kubernetes.io/migrated-plugins")


class StoredMeta(ObjectMetaShape, frozen=True, rename="camel"):
    annotations: AnnotationShape | None = None
    deletion_timestamp: Any = None  # any value means that the object is terminating
    owner_references: tuple[OwnerShape, ...] | None = None

    @property
    def annotation_values(self) -> AnnotationShape:
        return self.annotations or AnnotationShape()


class LabelledMeta(StoredMeta, frozen=True, rename="camel"):
    labels: dict[str, str] | None = None  # type: ignore[assignment]


class PhaseShape(Struct, frozen=True, gc=False):
    phase: str | None = None


class ClaimResourcesShape(Struct, frozen=True):
    requests: Quantities | None = None


class PersistentVolumeClaimSpecShape(Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    resources: ClaimResourcesShape | None = None
    selector: SelectorShape | None = None


class PersistentVolumeClaimShape(Struct, frozen=True):
    metadata: StoredMeta
    spec: PersistentVolumeClaimSpecShape | None = None
    status: PhaseShape | None = None


class ReferenceShape(Struct, frozen=True, gc=False):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class RequiredShape(Struct, frozen=True):
    required: NodeSelectorShape | None = None


class CsiSourceShape(Struct, frozen=True, gc=False, rename="camel"):
    driver: str | None = None
    volume_handle: str | None = None


class PersistentVolumeSpecShape(Struct, frozen=True, rename="camel"):
    capacity: Quantities | None = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    claim_ref: ReferenceShape | None = None
    node_affinity: RequiredShape | None = None
    csi: CsiSourceShape | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    azure_disk: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None
    azure_file: dict[str, Any] | None = None
    vsphere_volume: dict[str, Any] | None = None


class PersistentVolumeShape(Struct, frozen=True):
    metadata: LabelledMeta
    spec: PersistentVolumeSpecShape | None = None
    status: PhaseShape | None = None


class TopologyLineShape(Struct, frozen=True, gc=False):
    key: str | None = None
    values: tuple[str, ...] | None = None


class TopologyTermShape(Struct, frozen=True, gc=False, rename="camel"):
    match_label_expressions: tuple[TopologyLineShape, ...] | None = None


class ClassShape(Struct, frozen=True, rename="camel"):
    metadata: StoredMeta
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTermShape, ...] | None = None


class CountShape(Struct, frozen=True, gc=False):
    count: int | None = None


class NodeDriverShape(Struct, frozen=True, gc=False):
    name: str | None = None
    allocatable: CountShape | None = None


class CsiNodeSpecShape(Struct, frozen=True):
    drivers: tuple[NodeDriverShape, ...] | None = None


class CsiNodeShape(Struct, frozen=True):
    metadata: StoredMeta
    spec: CsiNodeSpecShape | None = None


class DriverSpecShape(Struct, frozen=True, gc=False, rename="camel"):
    storage_capacity: bool | None = None


class DriverShape(Struct, frozen=True):
    metadata: StoredMeta
    spec: DriverSpecShape | None = None


class CapacityShape(Struct, frozen=True, rename="camel"):
    metadata: StoredMeta
    storage_class_name: str | None = None
    node_topology: SelectorShape | None = None
    capacity: Amount = None
    maximum_volume_size: Amount = None


class AttachedShape(Struct, frozen=True, gc=False, rename="camel"):
    persistent_volume_name: str | None = None


class AttachmentSpecShape(Struct, frozen=True, gc=False, rename="camel"):
    attacher: str | None = None
    node_name: str | None = None
    source: AttachedShape | None = None


class AttachmentShape(Struct, frozen=True):
    metadata: StoredMeta
    spec: AttachmentSpecShape | None = None


def claims() -> ObjectReader[PersistentVolumeClaimShape, PersistentVolumeClaim]:
    return ObjectReader("PersistentVolumeClaim", PersistentVolumeClaimShape, _claim)


def volumes() -> ObjectReader[PersistentVolumeShape, PersistentVolume]:
    return ObjectReader("PersistentVolume", PersistentVolumeShape, _volume)


def classes() -> ObjectReader[ClassShape, StorageClass]:
    return ObjectReader("StorageClass", ClassShape, _class)


def csi_nodes() -> ObjectReader[CsiNodeShape, CsiNode]:
    return ObjectReader("CSINode", CsiNodeShape, _csi_node)


def csi_drivers() -> ObjectReader[DriverShape, CsiDriver]:
    return ObjectReader("CSIDriver", DriverShape, _csi_driver)


def capacities() -> ObjectReader[CapacityShape, CsiStorageCapacity]:
    return ObjectReader("CSIStorageCapacity", CapacityShape, _capacity)


def attachments() -> ObjectReader[AttachmentShape, VolumeAttachment]:
    return ObjectReader("VolumeAttachment", AttachmentShape, _attachment)


def _claim(shape: PersistentVolumeClaimShape) -> PersistentVolumeClaim:
    spec, annotation_values = shape.spec or PersistentVolumeClaimSpecShape(), shape.metadata.annotation_values
    requests = (spec.resources and spec.resources.requests) or {}
    check_selector(spec.selector, "spec.selector")
    return PersistentVolumeClaim(
        **identity_fields(shape.metadata),
        volume=spec.volume_name or "",
        bind_completed=annotation_values.completed is not None,
        storage_class=_class_name(annotation_values, spec.storage_class_name),
        requested=_size(requests[STORAGE]) if STORAGE in requests else None,
        access_modes=spec.access_modes or (),
        volume_mode=spec.volume_mode or FILESYSTEM,
        volume_attributes_class=spec.volume_attributes_class_name or "",
        selector=selector(spec.selector),
        selected_node=annotation_values.selected_node,
        phase=(shape.status and shape.status.phase) or "",
        terminating=shape.metadata.deletion_timestamp is not None,
        controller_uid=next((each.uid or "" for each in shape.metadata.owner_references or () if each.controller), ""),
    )


def _volume(shape: PersistentVolumeShape) -> PersistentVolume:
    spec, labels = shape.spec or PersistentVolumeSpecShape(), shape.metadata.labels or {}
    ref = spec.claim_ref
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    if required is not None:
        check_node_terms(required.node_selector_terms, "spec.nodeAffinity.required")
    terms = None if required is None else node_terms(required)
    return PersistentVolume(
        **identity_fields(shape.metadata),
        claim=None if ref is None else ClaimRef(ref.namespace or "", ref.name or "", ref.uid or ""),
        storage_class=_class_name(shape.metadata.annotation_values, spec.storage_class_name),
        capacity=_size((spec.capacity or {}).get(STORAGE)),
        access_modes=spec.access_modes or (),
        volume_mode=spec.volume_mode or FILESYSTEM,
        volume_attributes_class=spec.volume_attributes_class_name or "",
        labels=labels,
        phase=(shape.status and shape.status.phase) or "",
        terminating=shape.metadata.deletion_timestamp is not None,
        terms=terms,
        **_source(spec, terms, labels),
    )


def _source(
    spec: PersistentVolumeSpecShape, terms: tuple[NodeSelectorTerm, ...] | None, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The volume's driver, also for an in-tree volume that a CSI driver serves now."""
    if spec.csi is not None:
        return {"driver": intern(spec.csi.driver or ""), "handle": spec.csi.volume_handle or ""}
    for name, (plugin, driver, zone, _) in MIGRATED.items():
        found: dict[str, Any] | None = getattr(spec, _SNAKE[name])
        if found is not None:
            named = {key: value for key, value in found.items() if isinstance(value, str)}
            moved = migrated_terms(zone, terms, labels)
            return {
                "in_tree": plugin,
                "driver": driver,
                "handle": volume_handle(name, named, labels),
                "migrated_terms": moved,
            }
    return next(({"in_tree": UNCOUNTED[name]} for name in UNCOUNTED if getattr(spec, _SNAKE[name])), {})


_SNAKE: Mapping[str, str] = {each.encode_name: each.name for each in fields(PersistentVolumeSpecShape)}


def _class(shape: ClassShape) -> StorageClass:
    return StorageClass(
        **identity_fields(shape.metadata),
        provisioner=shape.provisioner or "",
        binding_mode=shape.volume_binding_mode,
        allowed_topologies=tuple(map(_topology, shape.allowed_topologies or ())),
    )


def _topology(shape: TopologyTermShape) -> NodeSelectorTerm:
    lines = shape.match_label_expressions or ()
    return NodeSelectorTerm(tuple(Requirement(line.key or "", "In", line.values or ()) for line in lines))


def _csi_node(shape: CsiNodeShape) -> CsiNode:
    drivers = (shape.spec and shape.spec.drivers) or ()
    moved = shape.metadata.annotation_values.migrated
    return CsiNode(
        **identity_fields(shape.metadata),
        limits=tuple(
            (intern(each.name or ""), each.allocatable.count)
            for each in drivers
            if each.allocatable is not None and each.allocatable.count is not None
        ),
        migrated=tuple(moved.split(",")) if moved else (),
    )


def _csi_driver(shape: DriverShape) -> CsiDriver:
    return CsiDriver(
        **identity_fields(shape.metadata), tracks_capacity=bool(shape.spec and shape.spec.storage_capacity)
    )


def _capacity(shape: CapacityShape) -> CsiStorageCapacity:
    limit = shape.capacity if shape.maximum_volume_size is None else shape.maximum_volume_size
    check_selector(shape.node_topology, "nodeTopology")
    return CsiStorageCapacity(
        **identity_fields(shape.metadata),
        storage_class=shape.storage_class_name or "",
        topology=selector(shape.node_topology),
        max_volume_size=None if limit is None else _size(limit),
    )


def _attachment(shape: AttachmentShape) -> VolumeAttachment:
    spec = shape.spec or AttachmentSpecShape()
    return VolumeAttachment(
        **identity_fields(shape.metadata),
        attacher=intern(spec.attacher or ""),
        node=intern(spec.node_name or ""),
        volume=(spec.source and spec.source.persistent_volume_name) or "",
    )


def _class_name(annotation_values: AnnotationShape, named: str | None) -> str:
    return intern(annotation_values.storage_class if annotation_values.storage_class is not None else named or "")


def _size(amount: Amount) -> int:
    """Whole bytes, rounded up."""
    return -(-nanos(amount) // NANOS)
