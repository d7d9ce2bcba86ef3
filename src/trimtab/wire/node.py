"""Decodes nodes, and Koordinator's annotation with a node's own usage thresholds.

A node whose labels or taints cannot be read is treated as unschedulable: scheduling by what is left would be guessing. No
other annotation is kept.
"""

from __future__ import annotations

from sys import intern
from typing import Any

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.duration import parse_duration
from trimtab.core.model.node import Image, Node, UsageThresholds
from trimtab.core.model.resources import CPU, MEMORY, Amounts, amounts
from trimtab.core.model.taints import Taint
from trimtab.wire.decoding import (
    NULL,
    UNREADABLE,
    Malformed,
    Quantities,
    decode_fields,
    decode_part,
    format_error,
    parse_amounts,
    summarize,
)
from trimtab.wire.interning import GenerationalCache
from trimtab.wire.pod_json import ConditionShape, Name, RawObject

ADDRESS_TYPES = ("InternalIP", "Hostname")
SCHEDULING_FIELDS = ("metadata.labels", "spec", "object")

THRESHOLDS_ANNOTATION = "scheduling.koordinator.sh/usage-thresholds"
THRESHOLDS_PATH = f"metadata.annotations[{THRESHOLDS_ANNOTATION}]"
AGGREGATIONS = ("avg", "p50", "p90", "p95", "p99")
DURATIONS = (0.0, 300.0, 600.0, 1800.0)  # 0 means the longest available

Percents = dict[str, int]
ParsedThresholds = tuple[UsageThresholds | None, str]


class AnnotationsShape(Struct, frozen=True, gc=False):
    """The one annotation that is decoded."""

    thresholds: str | None = msgspec.field(default=None, name=THRESHOLDS_ANNOTATION)


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
    """What must be readable to tell which node it is."""

    name: Name
    uid: str | None = None
    resource_version: str | None = None


class NodeReader:
    """Decodes nodes; use one for all, because it caches what nodes share: images, sizes and thresholds."""

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
            return self._decode_fields(data)

    def build(self, shape: NodeShape) -> Node:
        """The node; raises only when its resourceVersion is not a number."""
        meta, spec, status = shape.metadata, shape.spec or NodeSpecShape(), shape.status or NodeStatusShape()
        allocatable, allocatable_error = self._amounts[bytes(status.allocatable)]
        if allocatable is None and not allocatable_error:
            allocatable, allocatable_error = self._amounts[bytes(status.capacity)]
        capacity, _ = self._amounts[bytes(status.capacity)]
        images = [self._images[bytes(raw)] for raw in status.images or ()]
        thresholds, thresholds_error = self._thresholds[meta.annotations.thresholds if meta.annotations else None]
        return Node(
            name=intern(meta.name),
            uid=meta.uid or "",
            version=int(meta.resource_version or 0),
            labels=meta.labels or {},
            taints=tuple(Taint(each.key or "", each.value or "", each.effect or "") for each in spec.taints or ()),
            unschedulable=bool(spec.unschedulable),
            allocatable=allocatable or (),
            images=tuple(image for image, _ in images),
            addresses=tuple(each.address or "" for each in status.addresses or () if each.type in ADDRESS_TYPES),
            ready=all(each.status == "True" for each in status.conditions or () if each.type == "Ready"),
            error=allocatable_error or next((error for _, error in images if error), thresholds_error),
            capacity=capacity or (),
            thresholds=thresholds,
        )

    def _decode_fields(self, data: bytes | Raw) -> Node | Malformed:
        errors: list[str] = []
        raw_object = decode_part(data, RawObject, "object", errors) or RawObject()
        identity = decode_part(raw_object.metadata, NodeIdentity, "metadata", errors)
        metadata = decode_fields(raw_object.metadata, NodeMetaShape, "metadata", [] if identity is None else errors)
        if identity is None:
            return self._malformed(metadata, summarize(errors) or "metadata: missing")
        spec = NodeSpecShape(**decode_fields(raw_object.spec, NodeSpecShape, "spec", errors))
        status = NodeStatusShape(**decode_fields(raw_object.status, NodeStatusShape, "status", errors))
        try:
            node = self.build(NodeShape(NodeMetaShape(**metadata), spec, status))
        except UNREADABLE:
            return self._malformed(metadata, "metadata.resourceVersion: not a number")
        if not errors:
            return node
        unschedulable = node.unschedulable or any(error.startswith(SCHEDULING_FIELDS) for error in errors)
        return msgspec.structs.replace(node, error=summarize(errors), unschedulable=unschedulable)

    def _malformed(self, metadata: dict[str, Any], error: str) -> Malformed:
        return Malformed(self.kind, metadata.get("name") or "", metadata.get("uid") or "", error)


def _allocatable(raw: bytes) -> tuple[Amounts | None, str]:
    errors: list[str] = []
    quantities = decode_part(raw, Quantities, "status.allocatable", errors)
    if quantities is None:
        return None, summarize(errors)
    return amounts(parse_amounts(quantities, "status.allocatable", errors)), summarize(errors)


def _image(raw: bytes) -> tuple[Image, str]:
    errors: list[str] = []
    shape = decode_part(raw, ImageShape, "status.images", errors) or ImageShape()
    return Image(shape.names or (), max(shape.size_bytes or 0, 0)), summarize(errors)


class AggregatedShape(Struct, frozen=True, rename="camel"):
    usage_thresholds: Percents | None = None
    usage_aggregation_type: str = ""
    usage_aggregated_duration: str = "0s"


class ThresholdsShape(Struct, frozen=True, rename="camel"):
    usage_thresholds: Percents | None = None
    prod_usage_thresholds: Percents | None = None
    aggregated_usage: AggregatedShape | None = None


def parse_thresholds(text: str | None) -> ParsedThresholds:
    """The thresholds in the annotation, and its error if it is invalid; as in Koordinator, an empty map sets none."""
    if not text:
        return None, ""
    try:
        shape = msgspec.json.decode(text, type=ThresholdsShape)
        return _validated(shape), ""
    except UNREADABLE as error:
        return None, summarize([format_error(THRESHOLDS_PATH, error)])


def _validated(shape: ThresholdsShape) -> UsageThresholds | None:
    usage, prod = _cpu_and_memory(shape.usage_thresholds), _cpu_and_memory(shape.prod_usage_thresholds)
    aggregated, kind, seconds = _aggregated(shape.aggregated_usage or AggregatedShape())
    if usage is None and prod is None and aggregated is None:
        return None
    return UsageThresholds(usage, prod, aggregated, kind, seconds)


def _aggregated(shape: AggregatedShape) -> tuple[tuple[int, int] | None, str, float]:
    percents, kind, seconds = _cpu_and_memory(shape.usage_thresholds), shape.usage_aggregation_type, 0.0
    if percents is None or not kind:  # Koordinator ignores one without the other
        return None, "", 0.0
    if kind not in AGGREGATIONS:
        raise ValueError(f"usageAggregationType {kind[:20]!r} is not one of {', '.join(AGGREGATIONS)}")
    seconds = parse_duration(shape.usage_aggregated_duration) or 0.0
    if seconds not in DURATIONS:
        raise ValueError(f"usageAggregatedDuration {shape.usage_aggregated_duration[:20]!r} is not 5m, 10m or 30m")
    return percents, kind, seconds


def _cpu_and_memory(percents: Percents | None) -> tuple[int, int] | None:
    if not percents:
        return None
    for name, percent in percents.items():
        if not 0 <= percent <= 100:
            raise ValueError(f"{name[:40]} is {percent}, and must be from 0 to 100")
    return percents.get(CPU, 0), percents.get(MEMORY, 0)
