"""Decodes list pages and watch events.

A body that is not a list is never taken for an empty one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from trimtab.wire.decoding import UNREADABLE, Malformed, decode_part, format_error, read_status

T = TypeVar("T", bound="Versioned")
T_co = TypeVar("T_co", bound="Versioned", covariant=True)
S = TypeVar("S")

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Versioned(Protocol):
    """An object with a resourceVersion."""

    @property
    def version(self) -> int: ...


class Reader(Protocol[T_co]):
    """Decodes objects of one kind."""

    @property
    def kind(self) -> str: ...

    @property
    def shape(self) -> Any: ...

    def build(self, shape: Any) -> T_co | Malformed: ...

    def read(self, data: bytes | Raw) -> T_co | Malformed: ...


class ListPage(Struct, Generic[T], frozen=True):
    """One page of a list at `version`; `continue_token` asks for the next page, `remaining` is what those behind it hold."""

    version: int
    continue_token: str
    items: tuple[T | Malformed, ...]
    remaining: int | None = 0  # None where the server does not say


class WatchEvent(Struct, Generic[T], frozen=True):
    """A change with its object, a BOOKMARK with its version, or an ERROR with code and message."""

    type: str
    object: T | Malformed | None = None
    version: int = 0
    code: int = 0
    message: str = ""


class _ListMeta(Struct, frozen=True, rename="camel"):
    resource_version: str
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class _List(Struct, Generic[S], frozen=True):
    kind: str
    metadata: _ListMeta
    items: tuple[S, ...] | None


class _Line(Struct, Generic[S], frozen=True):
    type: str
    object: S


class _MarkerMeta(Struct, frozen=True, rename="camel"):
    resource_version: str | None = None


class _Marker(Struct, frozen=True):
    metadata: _MarkerMeta | None = None


_decode_marker = msgspec.json.Decoder(_Line[_Marker]).decode


@cache
def _list_decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_List[shape])


@cache
def _event_decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Line[shape])


def decode_list(data: bytes, reader: Reader[T]) -> ListPage[T] | Malformed:
    """One page of a list; objects that cannot be decoded are Malformed, the others are not affected."""
    try:
        page, read = _list_decoder(reader.shape).decode(data), reader.build
        items = tuple([read(each) for each in page.items or ()])
        return _list_page(page, items)
    except UNREADABLE:
        return _decode_items(data, reader)


def _list_page(page: Any, items: tuple[T | Malformed, ...]) -> ListPage[T]:
    if not page.kind.endswith("List"):
        raise ValueError(f"kind {page.kind[:40]!r} is not a list")
    if not page.metadata.resource_version.isdecimal():
        raise ValueError("resourceVersion is not a number")
    token = page.metadata.continue_ or ""
    remaining = page.metadata.remaining_item_count if token else 0
    return ListPage(int(page.metadata.resource_version), token, items, remaining)


def _decode_items(data: bytes, reader: Reader[T]) -> ListPage[T] | Malformed:
    try:
        page = _list_decoder(Raw).decode(data)
        return _list_page(page, tuple([reader.read(each) for each in page.items or ()]))
    except UNREADABLE as error:
        message = read_status(data).message
        text = format_error("list", error) + (f"; the response body is: {message}" if message else "")
        return Malformed(f"{reader.kind}List", "", "", text)


def decode_watch_event(line: bytes, reader: Reader[T]) -> WatchEvent[T]:
    """One line of a watch; an undecodable line is an ERROR with code 0, an undecodable object is Malformed."""
    try:
        event = _event_decoder(reader.shape).decode(line)
        if event.type in CHANGES:
            found = reader.build(event.object)
            if isinstance(found, Malformed):
                return WatchEvent(event.type, found, _version(_decode_marker(line).object))
            return WatchEvent(event.type, found, found.version)
    except UNREADABLE:
        pass
    return _decode_raw_event(line, reader)


def _decode_raw_event(line: bytes, reader: Reader[T]) -> WatchEvent[T]:
    errors: list[str] = []
    event = decode_part(line, _Line[Raw], "line", errors)
    if event is None:
        return WatchEvent("ERROR", message="; ".join(errors) or "line: null")
    version = _version(decode_part(event.object, _Marker, "", []))
    if event.type in CHANGES:
        return WatchEvent(event.type, reader.read(event.object), version)
    if event.type == "BOOKMARK" and version:
        return WatchEvent("BOOKMARK", version=version)
    status = read_status(bytes(event.object))
    return WatchEvent("ERROR", code=status.code, message=status.message or f"watch event {event.type[:40]!r}")


def _version(marker: _Marker | None) -> int:
    """The resourceVersion of any object, also of a malformed one: the watch continues from there."""
    text = (marker and marker.metadata and marker.metadata.resource_version) or ""
    return int(text) if text.isdecimal() and len(text) < 20 else 0
