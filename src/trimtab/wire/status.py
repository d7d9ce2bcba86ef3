"""Decides what an answer's body says about a failure, whatever it is made of; leaves what to do about it to others.

The API server answers with a Status; proxies, load balancers and the server's own flow control answer with plain text,
HTML or nothing at all.
"""

from __future__ import annotations

from msgspec import Struct

from trimtab.wire.decode_errors import decode_part

MAX_MESSAGE = 400


class Status(Struct, frozen=True):
    """What the server said of a request, as far as it said anything; `causes` are reasons by name."""

    succeeded: bool = False
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[str, ...] = ()
    retry_after: int = 0


class _Cause(Struct, frozen=True):
    reason: str | None = None


class _Details(Struct, frozen=True, rename="camel"):
    causes: tuple[_Cause, ...] | None = None
    retry_after_seconds: int | None = None


class _Status(Struct, frozen=True):
    kind: str | None = None
    status: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


def read_status(body: bytes) -> Status:
    """The Status in the body, or its first words when it is none."""
    shape = decode_part(body, _Status, "", [])
    if shape is None or shape.kind != "Status":
        return Status(message=_plain(body))
    details = shape.details or _Details()
    return Status(
        succeeded=shape.status == "Success",
        code=shape.code or 0,
        reason=shape.reason or "",
        message=(shape.message or "")[:MAX_MESSAGE],
        causes=tuple(each.reason or "" for each in details.causes or ()),
        retry_after=max(details.retry_after_seconds or 0, 0),
    )


def _plain(body: bytes) -> str:
    """Printable text in one line: it ends up in logs and events."""
    text = body[: 4 * MAX_MESSAGE].decode(errors="replace")
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:MAX_MESSAGE]
