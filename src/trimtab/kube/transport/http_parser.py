"""Decides where an HTTP/1.1 answer ends and what it says; leaves the connection that brought it to the conversation.

Only what an API server sends in answer to a write is understood: a length, or chunks. Whatever else arrives is Garbled: a
guess about where an answer ends would give one pod's outcome to another.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trimtab.kube.transport.contract import Response

MAX_HEAD_BYTES = 64 << 10
NO_BODY = (204, 304)
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
LENGTH = re.compile(r"[0-9]{1,10}")
CHUNK_LENGTH = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
FRAMING = ("content-length", "transfer-encoding")


class HttpParseError(Exception):
    """What arrived is not an answer that we understand."""


class ParsedResponse(NamedTuple):
    """A complete answer, and whether the connection may be asked again after it."""

    response: Response
    reusable: bool


def parse(data: bytes, max_bytes: int) -> ParsedResponse | None:
    """The answer in these bytes; None while its end has not arrived."""
    end = data.find(b"\r\n\r\n")
    if end > MAX_HEAD_BYTES or (end < 0 and len(data) > MAX_HEAD_BYTES):
        raise HttpParseError(f"the head of the answer is longer than {MAX_HEAD_BYTES} bytes")
    if end < 0:
        return None
    first, *lines = data[:end].split(b"\r\n")
    opening = STATUS_LINE.fullmatch(first)
    if opening is None or opening[2] < b"200":
        raise HttpParseError("the answer is not HTTP/1.1")
    status, headers = int(opening[2]), _headers(lines)
    found = _body(data, end + 4, status, headers, max_bytes)
    if found is None:
        return None
    body, used = found
    stays = opening[1] == b"1" and headers.get("connection", "").lower() != "close"
    return ParsedResponse(Response(status, headers, body), stays and used == len(data))


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        name = name.lower()
        if not colon or name.strip() != name or (name in FRAMING and name in headers):
            raise HttpParseError("a header of the answer cannot be read")
        headers[name] = value.strip()
    return headers


def _body(data: bytes, start: int, status: int, headers: dict[str, str], max_bytes: int) -> tuple[bytes, int] | None:
    """The body and where it ends in the data."""
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if status in NO_BODY:
        return b"", start
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise HttpParseError("the answer says in two ways how long it is")
        return _chunks(data, start, max_bytes)
    if length is None or not LENGTH.fullmatch(length):
        raise HttpParseError("the answer does not say how long it is")
    end = start + _check_size(int(length), max_bytes)
    return (data[start:end], end) if len(data) >= end else None


def _chunks(data: bytes, at: int, max_bytes: int) -> tuple[bytes, int] | None:
    pieces: list[bytes] = []
    total = 0
    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = CHUNK_LENGTH.fullmatch(data, at, line_end)
        if size is None:
            raise HttpParseError("a chunk of the answer has no length")
        length, begin = int(size[1], 16), line_end + 2
        total = _check_size(total + length, max_bytes)
        if len(data) < begin + length + 2:
            return None
        if data[begin + length : begin + length + 2] != b"\r\n":
            raise HttpParseError("a chunk of the answer is not as long as it says")
        if length == 0:
            return b"".join(pieces), begin + 2
        pieces.append(data[begin : begin + length])
        at = begin + length + 2
    return None


def _check_size(size: int, max_bytes: int) -> int:
    if size > max_bytes:
        raise HttpParseError(f"the answer is larger than {max_bytes} bytes")
    return size
