"""Decides how a namespace is read; leaves which namespaces a selector picks to the plugins."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from trimtab.core.model.objects import Namespace
from trimtab.wire.decode_errors import UNREADABLE, format_error
from trimtab.wire.interning import GenerationalCache
from trimtab.wire.objects.object_reader import MetaShape, ObjectReader, identity_fields

_decode = msgspec.json.Decoder(dict[str, str] | None).decode


class NamespaceShape(Struct, frozen=True, gc=False):
    metadata: MetaShape


def namespaces() -> ObjectReader[NamespaceShape, Namespace]:
    labels: GenerationalCache[bytes, Mapping[str, str]] = GenerationalCache(_labels)

    def build(shape: NamespaceShape) -> Namespace:
        return Namespace(**identity_fields(shape.metadata), labels=labels[bytes(shape.metadata.labels)])

    return ObjectReader("Namespace", NamespaceShape, build)


def _labels(raw: bytes) -> Mapping[str, str]:
    try:
        return _decode(raw) or {}
    except UNREADABLE as error:
        raise ValueError(format_error("metadata.labels", error)) from None
