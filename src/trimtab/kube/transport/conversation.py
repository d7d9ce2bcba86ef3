"""Decides what happens on one connection between question and answer; leaves which connection to ask to the pool.

idle ──(ask)──▶ waiting ──(a whole answer)──▶ idle, or closed where the server wants that
  │                └──(lost, aborted or garbled)──▶ closed: Unreachable, though it may have arrived
  └──(anything arrives, or lost)──▶ closed
"""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

from trimtab.kube.transport.answer import Garbled, parse
from trimtab.kube.transport.contract import Response, Unreachable


class Conversation(asyncio.Protocol):
    """One connection, one question at a time."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Response] | None = None
        self._arrived = b""
        self._largest = 0

    @property
    def idle(self) -> bool:
        """Whether another question may be asked."""
        return self._transport is not None and self._waiting is None

    def ask(self, question: bytes, largest: int) -> asyncio.Future[Response]:
        """Send it; the answer, or Unreachable."""
        if self._transport is None:
            raise Unreachable("the connection is closed", sent=False)
        self._largest = largest
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(question)
        return self._waiting

    def abort(self, reason: str) -> None:
        """End it now, whatever is under way, without a farewell that a dead server would never answer."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        waiting, self._waiting = self._waiting, None
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
        if self._waiting is None:
            self.abort("the server speaks without being asked")
            return
        self._arrived = self._arrived + data if self._arrived else data
        try:
            answer = parse(self._arrived, self._largest)
        except Garbled as error:
            self.abort(str(error))
            return
        if answer is not None:
            waiting, self._waiting, self._arrived = self._waiting, None, b""
            if not waiting.done():
                waiting.set_result(answer.response)
            if not answer.reusable:
                self.abort("the server closes the connection")
