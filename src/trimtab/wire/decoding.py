"""Decodes parts of objects, naming each field that cannot be read, and the Status that the API server answers with.

A field is decoded on its own only after decoding the whole object has failed, so valid objects pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from trimtab.wire.quantity import QuantityError, all_nanos, nanos

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

# Malformed JSON, wrong types and bad UTF-8 are ValueErrors; endless nesting is a RecursionError.
UNREADABLE = (ValueError, RecursionError)

NULL = Raw(b"null")
MAX_MESSAGE = 400

Quantities = dict[str, str | int | float | None]


class Malformed(Struct, frozen=True, gc=False):
    """An object that cannot be identified or decoded; `key` and `uid` as far as they could be read."""

    kind: str
    key: str
    uid: str
    error: str


def format_error(path: str, error: Exception) -> str:
    """The field and its error, in one line."""
    message, _, at = str(error).partition(" - at `$")
    return f"{path}{at.rstrip('`')}: {message}"[:MAX_MESSAGE]


def summarize(errors: list[str]) -> str:
    """The first error, how many more there are, and what to do."""
    if not errors:
        return ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}; correct the field"


def decode_part(data: bytes | Raw, shape: type[T], path: str, errors: list[str]) -> T | None:
    """Decode the data as the shape; None if it is null, or, with an error, if it cannot be decoded."""
    try:
        return cast("T | None", _decoder(cast(Hashable, shape)).decode(data))
    except UNREADABLE as error:
        errors.append(format_error(path, error))
        return None


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """Cached, because making one costs more than using it; there are only as many as the code has shapes."""
    return msgspec.json.Decoder(shape | None)


def decode_fields(data: bytes | Raw, shape: type[S], path: str, errors: list[str]) -> dict[str, Any]:
    """Those of a struct's fields that can be decoded, by their Python names."""
    pieces = decode_part(data, dict[str, Raw], path, errors) or {}
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(shape):
        if field.encode_name in pieces:
            try:
                kept[field.name] = msgspec.json.decode(pieces[field.encode_name], type=field.type)
            except UNREADABLE as error:
                errors.append(format_error(f"{path}.{field.encode_name}", error))
    return kept


def parse_amounts(quantities: Quantities | None, path: str, errors: list[str]) -> dict[str, int]:
    """Billionths by resource; an invalid quantity counts as zero, with an error."""
    if not quantities:
        return {}
    try:
        return all_nanos(quantities)
    except QuantityError:
        return _valid_amounts(quantities, path, errors)


def _valid_amounts(quantities: Quantities, path: str, errors: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in quantities.items():
        try:
            found[name] = nanos(text)
        except QuantityError as error:
            errors.append(f"{path}.{name}: {error}, as 500m, 2 or 1.5Gi would be")
            found[name] = 0
    return found


class Status(Struct, frozen=True):
    """The API server's Status; `causes` are reasons. A proxy's plain text becomes the message."""

    succeeded: bool = False
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[str, ...] = ()
    retry_after: int = 0


class _StatusCause(Struct, frozen=True):
    reason: str | None = None


class _StatusDetails(Struct, frozen=True, rename="camel"):
    causes: tuple[_StatusCause, ...] | None = None
    retry_after_seconds: int | None = None


class _StatusShape(Struct, frozen=True):
    kind: str | None = None
    status: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _StatusDetails | None = None


def read_status(body: bytes) -> Status:
    """The Status in the body; if it is none, one with the beginning of its text."""
    shape = decode_part(body, _StatusShape, "", [])
    if shape is None or shape.kind != "Status":
        return Status(message=_plain(body))
    details = shape.details or _StatusDetails()
    return Status(
        succeeded=shape.status == "Success",
        code=shape.code or 0,
        reason=shape.reason or "",
        message=(shape.message or "")[:MAX_MESSAGE],
        causes=tuple(each.reason or "" for each in details.causes or ()),
        retry_after=max(details.retry_after_seconds or 0, 0),
    )


def _plain(body: bytes) -> str:
    """Printable text in one line, because it ends up in logs and Events."""
    text = body[: 4 * MAX_MESSAGE].decode(errors="replace")
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:MAX_MESSAGE]
