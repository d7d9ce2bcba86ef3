"""Decides how any further object is read: who it is, and whether it can be read at all; leaves its fields to its own file.

An object is read as a whole or not at all: what a controller or a budget says in part could be worse than nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.objects import Object
from trimtab.core.model.selectors import LabelSelector, Pairs
from trimtab.wire.affinity import SelectorShape, selector
from trimtab.wire.decode_errors import NULL, UNREADABLE, Malformed, decode_fields, decode_part, format_error
from trimtab.wire.pod_json import Name, RawObject, Time

S = TypeVar("S", bound=Struct)
T = TypeVar("T", bound=Object)


class MetaShape(Struct, frozen=True, gc=False, rename="camel"):
    name: Name
    uid: Name
    namespace: str | None = None
    resource_version: str | None = None
    creation_timestamp: Time = None
    labels: Raw = NULL


class ObjectReader(Generic[S, T]):
    """Reads one kind; `build` makes the value of a shape and raises ValueError, naming the field, where it cannot."""

    def __init__(self, kind: str, shape: type[S], build: Callable[[S], T]) -> None:
        self.kind, self.shape, self.build = kind, shape, build
        self._decode = msgspec.json.Decoder(shape).decode

    def read(self, data: bytes | Raw) -> T | Malformed:
        """The object in these bytes."""
        try:
            return self.build(self._decode(data))
        except UNREADABLE as error:
            return self._malformed(data, error)

    def _malformed(self, data: bytes | Raw, error: Exception) -> Malformed:
        thirds = decode_part(data, RawObject, "", []) or RawObject()
        known = decode_fields(thirds.metadata, MetaShape, "", [])
        key = f"{known.get('namespace') or ''}/{known.get('name') or ''}".strip("/")
        return Malformed(self.kind, key, known.get("uid") or "", format_error("", error).lstrip(".: "))


def identity_fields(meta: MetaShape) -> dict[str, Any]:
    """The fields that every further object has, for its constructor."""
    return {
        "name": meta.name,
        "uid": meta.uid,
        "namespace": intern(meta.namespace or ""),
        "version": int(meta.resource_version or 0),
    }


def interned_selector(shape: SelectorShape | None) -> LabelSelector | None:
    """A selector whose words are those that others use, too: there may be tens of thousands of ReplicaSets."""
    found = selector(shape)
    return found and LabelSelector(_interned(found.match_labels), found.match_expressions)


def label_map_selector(labels: Mapping[str, str] | None) -> LabelSelector | None:
    """The older form of a selector, labels alone; none at all selects nothing."""
    return None if labels is None else LabelSelector(_interned(tuple(sorted(labels.items()))))


def _interned(labels: Pairs) -> Pairs:
    return tuple((intern(key), intern(value)) for key, value in labels)
