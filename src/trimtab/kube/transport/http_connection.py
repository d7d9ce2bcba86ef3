"""Decides what happens on one connection between question and answer; leaves which connection to ask to the pool.

idle ──(ask)──▶ waiting ──(a whole answer)──▶ idle, or closed where the server wants that
  │                └──(lost, aborted or garbled)──▶ closed: Unreachable, though it may have arrived
  └──(anything arrives, or lost)──▶ closed
"""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

from trimtab.kube.transport.contract import Response, Unreachable
from trimtab.kube.transport.http_parser import HttpParseError, parse


class HttpConnection(asyncio.Protocol):
    """One connection, one question at a time."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Response] | None = None
        self._buffer = b""
        self._max_bytes = 0

    @property
    def idle(self) -> bool:
        """Whether another question may be asked."""
        return self._transport is not None and self._response is None

    def send(self, request: bytes, max_bytes: int) -> asyncio.Future[Response]:
        """Send it; the answer, or Unreachable."""
        if self._transport is None:
            raise Unreachable("the connection is closed", sent=False)
        self._max_bytes = max_bytes
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._response

    def abort(self, reason: str) -> None:
        """End it now, whatever is under way, without a farewell that a dead server would never answer."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        waiting, self._response = self._response, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(Unreachable(reason, sent=True))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.abort(str(exc or "the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._response is None:
            self.abort("the server speaks without being asked")
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            answer = parse(self._buffer, self._max_bytes)
        except HttpParseError as error:
            self.abort(str(error))
            return
        if answer is not None:
            waiting, self._response, self._buffer = self._response, None, b""
            if not waiting.done():
                waiting.set_result(answer.response)
            if not answer.reusable:
                self.abort("the server closes the connection")
