"""Decides how a namespace is read; leaves which namespaces a selector picks to the plugins."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from trimtab.core.model.objects import Namespace
from trimtab.wire.fault import UNREADABLE, told
from trimtab.wire.intern import Recent
from trimtab.wire.objects.reading import MetaShape, ObjectReader, identity

_decode = msgspec.json.Decoder(dict[str, str] | None).decode


class NamespaceShape(Struct, frozen=True, gc=False):
    metadata: MetaShape


def namespaces() -> ObjectReader[NamespaceShape, Namespace]:
    labels: Recent[bytes, Mapping[str, str]] = Recent(_labels)

    def build(shape: NamespaceShape) -> Namespace:
        return Namespace(**identity(shape.metadata), labels=labels[bytes(shape.metadata.labels)])

    return ObjectReader("Namespace", NamespaceShape, build)


def _labels(raw: bytes) -> Mapping[str, str]:
    try:
        return _decode(raw) or {}
    except UNREADABLE as error:
        raise ValueError(told("metadata.labels", error)) from None
