"""Decides what a list and each line of a watch say; leaves the connection, and what follows from it, to the reflector.

A body that is no list never passes for an empty one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from trimtab.wire.fault import UNREADABLE, Malformed, read_part, told
from trimtab.wire.status import read_status

T = TypeVar("T", bound="Versioned")
T_co = TypeVar("T_co", bound="Versioned", covariant=True)
S = TypeVar("S")

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Versioned(Protocol):
    """An object that says how new it is."""

    @property
    def version(self) -> int: ...


class Reader(Protocol[T_co]):
    """What turns one kind of object into values."""

    @property
    def kind(self) -> str: ...

    @property
    def shape(self) -> Any: ...

    def build(self, shape: Any) -> T_co: ...

    def read(self, data: bytes | Raw) -> T_co | Malformed: ...


class Listed(Struct, Generic[T], frozen=True):
    """One page of a list, whole at `version`; a `continue_token` asks for the next page."""

    version: int
    continue_token: str
    items: tuple[T | Malformed, ...]


class WatchLine(Struct, Generic[T], frozen=True):
    """One line: a change with its object, a BOOKMARK with its version, or an ERROR with code and message."""

    kind: str
    object: T | Malformed | None = None
    version: int = 0
    code: int = 0
    message: str = ""


class _ListMeta(Struct, frozen=True, rename="camel"):
    resource_version: str
    continue_: str | None = msgspec.field(default=None, name="continue")


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


@cache
def _lists(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_List[shape])


@cache
def _lines(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Line[shape])


def read_list(data: bytes, reader: Reader[T]) -> Listed[T] | Malformed:
    """A page of a list; objects that cannot be read are told apart, the rest is as good as ever."""
    try:
        page, read = _lists(reader.shape).decode(data), reader.build
        items = tuple([read(each) for each in page.items or ()])
        return _listed(page, items)
    except UNREADABLE:
        return _list_piecemeal(data, reader)


def _listed(page: Any, items: tuple[T | Malformed, ...]) -> Listed[T]:
    if not page.kind.endswith("List"):
        raise ValueError(f"kind {page.kind[:40]!r} is not a list")
    if not page.metadata.resource_version.isdecimal():
        raise ValueError("resourceVersion is not a number")
    return Listed(int(page.metadata.resource_version), page.metadata.continue_ or "", items)


def _list_piecemeal(data: bytes, reader: Reader[T]) -> Listed[T] | Malformed:
    try:
        page = _lists(Raw).decode(data)
        return _listed(page, tuple([reader.read(each) for each in page.items or ()]))
    except UNREADABLE as error:
        said = read_status(data).message
        problem = told("list", error) + (f"; the answer reads: {said}" if said else "")
        return Malformed(f"{reader.kind}List", "", "", problem)


def read_line(line: bytes, reader: Reader[T]) -> WatchLine[T]:
    """One line of a watch; what cannot be read is an ERROR of code 0, or a change of a Malformed object."""
    try:
        event = _lines(reader.shape).decode(line)
        if event.type in CHANGES:
            found = reader.build(event.object)
            return WatchLine(event.type, found, found.version)
    except UNREADABLE:
        pass
    return _line_piecemeal(line, reader)


def _line_piecemeal(line: bytes, reader: Reader[T]) -> WatchLine[T]:
    faults: list[str] = []
    event = read_part(line, _Line[Raw], "line", faults)
    if event is None:
        return WatchLine("ERROR", message="; ".join(faults) or "line: null")
    version = _version(event.object)
    if event.type in CHANGES:
        return WatchLine(event.type, reader.read(event.object), version)
    if event.type == "BOOKMARK" and version:
        return WatchLine("BOOKMARK", version=version)
    status = read_status(bytes(event.object))
    return WatchLine("ERROR", code=status.code, message=status.message or f"watch event {event.type[:40]!r}")


def _version(data: Raw) -> int:
    """The resourceVersion of any object, also of one that is otherwise unreadable: the watch goes on from there."""
    marker = read_part(data, _Marker, "", [])
    text = (marker and marker.metadata and marker.metadata.resource_version) or ""
    return int(text) if text.isdecimal() and len(text) < 20 else 0
