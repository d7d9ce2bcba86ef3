"""A minimal HTTP/1.1 client connection for writes: one request at a time, and a strict response parser.

::

    idle ──(send)──▶ waiting ──(a complete response)──▶ idle, or closed if the server wants that
      │                 └──(lost, aborted or unparsable)──▶ closed: Unreachable, and the request may have arrived
      └──(data arrives, or lost)──▶ closed

The parser understands only what an API server sends in response to a write: a Content-Length, or chunks. Anything else is an
HttpParseError: a wrong guess where a response ends would give one pod's outcome to another.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import NamedTuple, cast

from trimtab.kube.transport.contract import Response, Unreachable

MAX_HEAD_BYTES = 64 << 10
NO_BODY = (204, 304)
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
LENGTH = re.compile(r"[0-9]{1,10}")
CHUNK_LENGTH = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
FRAMING = ("content-length", "transfer-encoding")


class HttpConnection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Response] | None = None
        self._buffer = b""
        self._max_bytes = 0

    @property
    def idle(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and self._response is None

    def send(self, request: bytes, max_bytes: int) -> asyncio.Future[Response]:
        """Write the request; the response, or Unreachable."""
        if self._transport is None:
            raise Unreachable("the connection is closed", sent=False)
        self._max_bytes = max_bytes
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._response

    def abort(self, reason: str) -> None:
        """Close it now, without a TLS shutdown that a dead server would never answer."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        response, self._response = self._response, None
        if response is not None and not response.done():
            response.set_exception(Unreachable(reason, sent=True))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.abort("the server closed the connection" if exc is None else str(exc) or type(exc).__name__)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._response is None:
            self.abort("the server sent data without a request")
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            parsed = parse(self._buffer, self._max_bytes)
        except HttpParseError as error:
            self.abort(str(error))
            return
        if parsed is not None:
            response, self._response, self._buffer = self._response, None, b""
            if not response.done():
                response.set_result(parsed.response)
            if not parsed.reusable:
                self.abort("the server closes the connection")


class HttpParseError(Exception):
    """The bytes are not a response that we understand."""


class ParsedResponse(NamedTuple):
    """A complete response, and whether the connection may be used again."""

    response: Response
    reusable: bool


def parse(data: bytes, max_bytes: int) -> ParsedResponse | None:
    """The response in these bytes; None while it is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end > MAX_HEAD_BYTES or (end < 0 and len(data) > MAX_HEAD_BYTES):
        raise HttpParseError(f"the response head is longer than {MAX_HEAD_BYTES} bytes")
    if end < 0:
        return None
    first, *lines = data[:end].split(b"\r\n")
    status_line = STATUS_LINE.fullmatch(first)
    if status_line is None or status_line[2] < b"200":
        raise HttpParseError("the response is not HTTP/1.1")
    status, headers = int(status_line[2]), _headers(lines)
    found = _body(data, end + 4, status, headers, max_bytes)
    if found is None:
        return None
    body, used = found
    keep_alive = status_line[1] == b"1" and headers.get("connection", "").lower() != "close"
    return ParsedResponse(Response(status, headers, body), keep_alive and used == len(data))


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        name = name.lower()
        if not colon or name.strip() != name or (name in FRAMING and name in headers):
            raise HttpParseError("invalid response header")
        headers[name] = value.strip()
    return headers


def _body(data: bytes, start: int, status: int, headers: dict[str, str], max_bytes: int) -> tuple[bytes, int] | None:
    """The body and where it ends in the data."""
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if status in NO_BODY:
        return b"", start
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise HttpParseError("the response has conflicting lengths")
        return _chunks(data, start, max_bytes)
    if length is None or not LENGTH.fullmatch(length):
        raise HttpParseError("the response has no length")
    end = start + _check_size(int(length), max_bytes)
    return (data[start:end], end) if len(data) >= end else None


def _chunks(data: bytes, start: int, max_bytes: int) -> tuple[bytes, int] | None:
    pieces: list[bytes] = []
    total = 0
    while (line_end := data.find(b"\r\n", start)) >= 0:
        size = CHUNK_LENGTH.fullmatch(data, start, line_end)
        if size is None:
            raise HttpParseError("a chunk of the response has no length")
        length, begin = int(size[1], 16), line_end + 2
        total = _check_size(total + length, max_bytes)
        if len(data) < begin + length + 2:
            return None
        if data[begin + length : begin + length + 2] != b"\r\n":
            raise HttpParseError("a chunk of the response has the wrong length")
        if length == 0:
            return b"".join(pieces), begin + 2
        pieces.append(data[begin : begin + length])
        start = begin + length + 2
    return None


def _check_size(size: int, max_bytes: int) -> int:
    if size > max_bytes:
        raise HttpParseError(f"the response is larger than {max_bytes} bytes")
    return size
