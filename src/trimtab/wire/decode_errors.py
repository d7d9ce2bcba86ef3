"""Decides how an unreadable part of an object is named and told; leaves what stands in for it to the reader.

A field is read alone only after reading all of them at once has failed, so good objects pay nothing for this.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from trimtab.wire.quantity import QuantityError, nanos

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

# Malformed JSON, wrong types and bad UTF-8 are ValueErrors; nesting without end is the other one.
UNREADABLE = (ValueError, RecursionError)

NULL = Raw(b"null")
MAX_MESSAGE = 400

Quantities = dict[str, str | int | float | None]


class Malformed(Struct, frozen=True, gc=False):
    """An object that cannot even be identified; `key` and `uid` as far as they could be read."""

    kind: str
    key: str
    uid: str
    error: str


def format_error(path: str, error: Exception) -> str:
    """The field and what is wrong with it, in one line."""
    message, _, at = str(error).partition(" - at `$")
    return f"{path}{at.rstrip('`')}: {message}"[:MAX_MESSAGE]


def summarize(errors: list[str]) -> str:
    """What to tell people: the first fault, how many more there are, and what to do."""
    if not errors:
        return ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}; correct the field"


def decode_part(data: bytes | Raw, shape: type[T], path: str, errors: list[str]) -> T | None:
    """The part as the shape says; None when there is none, and a fault as well when it cannot be read."""
    try:
        return cast("T | None", _decoder(cast(Hashable, shape)).decode(data))
    except UNREADABLE as error:
        errors.append(format_error(path, error))
        return None


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """Kept, because making one costs more than using it; there are only as many as the code has shapes."""
    return msgspec.json.Decoder(shape | None)


def decode_fields(data: bytes | Raw, shape: type[S], path: str, errors: list[str]) -> dict[str, Any]:
    """What can be read of a struct's fields, by their Python names."""
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
    """Billionths by resource; what is no quantity is left out, what is below zero counts as nothing."""
    found: dict[str, int] = {}
    for name, text in (quantities or {}).items():
        try:
            found[name] = nanos(text)
        except QuantityError as error:
            errors.append(f"{path}.{name}: {error}, as 500m, 2 or 1.5Gi would be")
            found[name] = 0
    return found
