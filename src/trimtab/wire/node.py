"""Decodes nodes.

A node whose labels or taints cannot be read is treated as unschedulable: scheduling by what is left would be guessing. Of its
annotations only those that plugins read are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import intern
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.node import Image, Node
from trimtab.core.model.resources import Amounts, amounts
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

MAX_SHARED_IMAGES = 1_000  # of a node; more would push those of all others out of the cache
ADDRESS_TYPES = ("InternalIP", "Hostname")
SCHEDULING_FIELDS = ("metadata.labels", "spec", "object")

ParseAnnotation = Callable[[str], object]  # None for an annotation without effect; ValueError for an invalid one


class AnnotationsShape(Struct, frozen=True, gc=False):
    """The annotations that plugins read, which a NodeReader adds as fields."""


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
    """Decodes nodes; use one for all, because it caches what nodes share.

    annotations: a parser for each annotation that some plugin reads.
    """

    kind = "Node"

    def __init__(self, annotations: Mapping[str, ParseAnnotation] | None = None) -> None:
        self._parsers = tuple((annotations or {}).items())
        self._meta_shape, self.shape = _shapes(annotations or ())
        self._decode = msgspec.json.Decoder(self.shape).decode
        self._images: GenerationalCache[bytes, tuple[Image, str]] = GenerationalCache(_image)
        self._amounts: GenerationalCache[bytes, tuple[Amounts | None, str]] = GenerationalCache(_allocatable)
        self._annotations: GenerationalCache[AnnotationsShape | None, tuple[Mapping[str, str], str]] = (
            GenerationalCache(self._read_annotations)
        )

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
        capacity = allocatable
        if status.capacity != status.allocatable:
            capacity, capacity_error = self._amounts[bytes(status.capacity)]
            if allocatable is None and not allocatable_error:
                allocatable, allocatable_error = capacity, capacity_error
        raw_images = status.images or ()
        if len(raw_images) <= MAX_SHARED_IMAGES:
            images = [self._images[bytes(raw)] for raw in raw_images]
        else:
            images = _many_images(raw_images)
        annotations, annotation_error = self._annotations[meta.annotations]
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
            error=allocatable_error or next((error for _, error in images if error), annotation_error),
            capacity=capacity or (),
            annotations=annotations,
        )

    def _decode_fields(self, data: bytes | Raw) -> Node | Malformed:
        errors: list[str] = []
        raw_object = decode_part(data, RawObject, "object", errors) or RawObject()
        identity = decode_part(raw_object.metadata, NodeIdentity, "metadata", errors)
        metadata = decode_fields(raw_object.metadata, self._meta_shape, "metadata", [] if identity is None else errors)
        if identity is None:
            return self._malformed(metadata, summarize(errors) or "metadata: missing")
        spec = NodeSpecShape(**decode_fields(raw_object.spec, NodeSpecShape, "spec", errors))
        status = NodeStatusShape(**decode_fields(raw_object.status, NodeStatusShape, "status", errors))
        try:
            node = self.build(self.shape(metadata=self._meta_shape(**metadata), spec=spec, status=status))
        except UNREADABLE:
            return self._malformed(metadata, "metadata.resourceVersion: not a number")
        if not errors:
            return node
        unschedulable = node.unschedulable or any(error.startswith(SCHEDULING_FIELDS) for error in errors)
        return msgspec.structs.replace(node, error=summarize(errors), unschedulable=unschedulable)

    def _read_annotations(self, shape: AnnotationsShape | None) -> tuple[Mapping[str, str], str]:
        """The valid annotations that have an effect, by key, and the first error."""
        found: dict[str, str] = {}
        errors: list[str] = []
        texts = msgspec.structs.astuple(shape) if shape is not None else ()
        for (key, parse), text in zip(self._parsers, texts, strict=False):
            try:
                if text and parse(text) is not None:
                    found[key] = text
            except UNREADABLE as error:
                errors.append(format_error(f"metadata.annotations[{key}]", error))
        return found, summarize(errors)

    def _malformed(self, metadata: dict[str, Any], error: str) -> Malformed:
        return Malformed(self.kind, metadata.get("name") or "", metadata.get("uid") or "", error)


def _shapes(annotations: Iterable[str]) -> tuple[type[NodeMetaShape], type[NodeShape]]:
    """The shapes with these annotations as fields, so that no other annotation is decoded."""
    fields = [
        (f"at_{index}", str | None, msgspec.field(default=None, name=key)) for index, key in enumerate(annotations)
    ]
    shape = msgspec.defstruct("AnnotationsShape", fields, bases=(AnnotationsShape,), frozen=True, gc=False)
    meta = msgspec.defstruct(
        "NodeMetaShape", [("annotations", shape | None, None)], bases=(NodeMetaShape,), frozen=True, rename="camel"
    )
    node = msgspec.defstruct("NodeShape", [("metadata", meta)], bases=(NodeShape,), frozen=True, gc=False, kw_only=True)
    return cast("type[NodeMetaShape]", meta), cast("type[NodeShape]", node)


def _allocatable(raw: bytes) -> tuple[Amounts | None, str]:
    errors: list[str] = []
    quantities = decode_part(raw, Quantities, "status.allocatable", errors)
    if quantities is None:
        return None, summarize(errors)
    return amounts(parse_amounts(quantities, "status.allocatable", errors)), summarize(errors)


_decode_image = msgspec.json.Decoder(ImageShape | None).decode
_decode_images = msgspec.json.Decoder(tuple[ImageShape | None, ...]).decode
_NO_IMAGE = ImageShape()


def _many_images(raw_images: tuple[Raw, ...]) -> list[tuple[Image, str]]:
    """All at once, which is cheaper, unless one of them cannot be read."""
    try:
        shapes = _decode_images(b"[%b]" % b",".join(raw_images))
    except UNREADABLE:
        return [_image(bytes(raw)) for raw in raw_images]
    return [(_built_image(shape or _NO_IMAGE), "") for shape in shapes]


def _image(raw: bytes) -> tuple[Image, str]:
    error = ""
    try:
        shape = _decode_image(raw) or _NO_IMAGE
    except UNREADABLE as unreadable:
        shape, error = _NO_IMAGE, summarize([format_error("status.images", unreadable)])
    return _built_image(shape), error


def _built_image(shape: ImageShape) -> Image:
    return Image(shape.names or (), max(shape.size_bytes or 0, 0))
