"""Decodes lists of metadata alone (PartialObjectMetadataList): which objects exist, and their resourceVersions."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from trimtab.wire.decoding import UNREADABLE, Malformed, format_error
from trimtab.wire.pod_json import Name


class ObjectMetadata(Struct, frozen=True, gc=False):
    """An object of any kind, by name, UID and resourceVersion."""

    name: str
    uid: str
    version: int
    namespace: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Meta(Struct, frozen=True, gc=False, rename="camel"):
    name: Name
    uid: Name
    resource_version: str
    namespace: str = ""


class _Shape(Struct, frozen=True, gc=False):
    metadata: _Meta


class MetadataReader:
    """Reads the metadata of an object; whatever else the object has is skipped."""

    kind = "PartialObjectMetadata"
    shape = _Shape
    _decode = msgspec.json.Decoder(_Shape).decode

    def build(self, shape: _Shape) -> ObjectMetadata:
        """Raises ValueError where the resourceVersion is not a number."""
        meta = shape.metadata
        return ObjectMetadata(meta.name, meta.uid, int(meta.resource_version), meta.namespace)

    def read(self, data: bytes | Raw) -> ObjectMetadata | Malformed:
        """The metadata in these bytes."""
        try:
            return self.build(self._decode(data))
        except UNREADABLE as error:
            return Malformed(self.kind, "", "", format_error("", error))
