"""Decides how a node's JSON becomes the model's node, on the safe side where it cannot be read; leaves use to the core.

A node whose labels or taints cannot be read takes no new pods: placing by what is left of them would be guessing.
"""

from __future__ import annotations

from sys import intern
from typing import Any

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.node import Image, Node
from trimtab.core.model.resources import Amounts, amounts
from trimtab.core.model.taints import Taint
from trimtab.wire.decode_errors import (
    NULL,
    UNREADABLE,
    Malformed,
    Quantities,
    decode_fields,
    decode_part,
    parse_amounts,
    summarize,
)
from trimtab.wire.interning import GenerationalCache
from trimtab.wire.objects.koordinator import AnnotationsShape, ParsedThresholds, parse_thresholds
from trimtab.wire.pod_json import ConditionShape, Name, RawObject

ADDRESS_TYPES = ("InternalIP", "Hostname")
SCHEDULING_FIELDS = ("metadata.labels", "spec", "object")


class NodeMetaShape(Struct, frozen=True, rename="camel"):
    name: Name
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: AnnotationsShape | None = None


class TaintShape(Struct, frozen=True, gc=False):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpecShape(Struct, frozen=True, gc=False):
    unschedulable: bool | None = None
    taints: tuple[TaintShape, ...] | None = None


class AddressShape(Struct, frozen=True, gc=False):
    type: str | None = None
    address: str | None = None


class ImageShape(Struct, frozen=True, gc=False, rename="camel"):
    names: tuple[str, ...] | None = None
    size_bytes: int | None = None


class NodeStatusShape(Struct, frozen=True, gc=False):
    allocatable: Raw = NULL
    capacity: Raw = NULL
    images: tuple[Raw, ...] | None = None
    addresses: tuple[AddressShape, ...] | None = None
    conditions: tuple[ConditionShape, ...] | None = None


class NodeShape(Struct, frozen=True, gc=False):
    metadata: NodeMetaShape
    spec: NodeSpecShape | None = None
    status: NodeStatusShape | None = None


class NodeIdentity(Struct, frozen=True, rename="camel"):
    """Without these there is no telling which node it is."""

    name: Name
    uid: str | None = None
    resource_version: str | None = None


class NodeReader:
    """Reads nodes; keep one for all of them, because nodes share images, sizes and taints."""

    kind = "Node"
    shape = NodeShape

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(NodeShape).decode
        self._images: GenerationalCache[bytes, tuple[Image, str]] = GenerationalCache(_image)
        self._amounts: GenerationalCache[bytes, tuple[Amounts | None, str]] = GenerationalCache(_allocatable)
        self._thresholds: GenerationalCache[str | None, ParsedThresholds] = GenerationalCache(parse_thresholds)

    def read(self, data: bytes | Raw) -> Node | Malformed:
        """The node in these bytes."""
        try:
            return self.build(self._decode(data))
        except UNREADABLE:
            return self._piecemeal(data)

    def build(self, shape: NodeShape) -> Node:
        """The node of this shape; raises only when its resourceVersion is no number."""
        meta, spec, status = shape.metadata, shape.spec or NodeSpecShape(), shape.status or NodeStatusShape()
        offered, offer_fault = self._amounts[bytes(status.allocatable)]
        if offered is None and not offer_fault:
            offered, offer_fault = self._amounts[bytes(status.capacity)]
        had, _ = self._amounts[bytes(status.capacity)]
        images = [self._images[bytes(raw)] for raw in status.images or ()]
        own, own_fault = self._thresholds[meta.annotations.thresholds if meta.annotations else None]
        return Node(
            name=intern(meta.name),
            uid=meta.uid or "",
            version=int(meta.resource_version or 0),
            labels=meta.labels or {},
            taints=tuple(Taint(each.key or "", each.value or "", each.effect or "") for each in spec.taints or ()),
            unschedulable=bool(spec.unschedulable),
            allocatable=offered or (),
            images=tuple(image for image, _ in images),
            addresses=tuple(each.address or "" for each in status.addresses or () if each.type in ADDRESS_TYPES),
            ready=all(each.status == "True" for each in status.conditions or () if each.type == "Ready"),
            error=offer_fault or next((fault for _, fault in images if fault), own_fault),
            capacity=had or (),
            thresholds=own,
        )

    def _piecemeal(self, data: bytes | Raw) -> Node | Malformed:
        faults: list[str] = []
        thirds = decode_part(data, RawObject, "object", faults) or RawObject()
        identity = decode_part(thirds.metadata, NodeIdentity, "metadata", faults)
        known = decode_fields(thirds.metadata, NodeMetaShape, "metadata", [] if identity is None else faults)
        if identity is None:
            return self._malformed(known, summarize(faults) or "metadata: missing")
        spec = NodeSpecShape(**decode_fields(thirds.spec, NodeSpecShape, "spec", faults))
        status = NodeStatusShape(**decode_fields(thirds.status, NodeStatusShape, "status", faults))
        try:
            node = self.build(NodeShape(NodeMetaShape(**known), spec, status))
        except UNREADABLE:
            return self._malformed(known, "metadata.resourceVersion: not a number")
        if not faults:
            return node
        closed = node.unschedulable or any(fault.startswith(SCHEDULING_FIELDS) for fault in faults)
        return msgspec.structs.replace(node, error=summarize(faults), unschedulable=closed)

    def _malformed(self, known: dict[str, Any], problem: str) -> Malformed:
        return Malformed(self.kind, known.get("name") or "", known.get("uid") or "", problem)


def _allocatable(raw: bytes) -> tuple[Amounts | None, str]:
    faults: list[str] = []
    quantities = decode_part(raw, Quantities, "status.allocatable", faults)
    if quantities is None:
        return None, summarize(faults)
    return amounts(parse_amounts(quantities, "status.allocatable", faults)), summarize(faults)


def _image(raw: bytes) -> tuple[Image, str]:
    faults: list[str] = []
    shape = decode_part(raw, ImageShape, "status.images", faults) or ImageShape()
    return Image(shape.names or (), max(shape.size_bytes or 0, 0)), summarize(faults)
