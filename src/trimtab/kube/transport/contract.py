"""Decides what a way to the API server must offer; leaves how to the implementations.

A failure says whether the request may have arrived: only then can a write have happened all the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from trimtab.wire.requests import Request

CONNECT_TIMEOUT = 3.0
KEEPALIVE_TIMEOUT = (
    30.0  # the API server closes idle connections after 90 s; well before that, nobody trips over a closed one
)
MAX_RESPONSE_BYTES = 4 << 20
MAX_CONNECTIONS = 32
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "trimtab"}


class Response(NamedTuple):
    """An answer, whatever it says; header names are in lower case, or looked up in any."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unreachable(Exception):
    """No answer came. `sent` is false only where the request has certainly not arrived."""

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class IdleTimeout(Unreachable):
    """A stream brought nothing for too long: quiet, or dead without a word."""


def allow() -> bool:
    """For what anybody may send at any time."""
    return True


class Stream(Protocol):
    """A streamed answer, by whole lines."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def lines(self) -> AsyncIterator[list[bytes]]:
        """The lines that have arrived together; ends when the server ends the stream."""

    async def body(self) -> bytes:
        """All of it, for an answer that turns out to be no stream."""

    def close(self) -> None:
        """End it now; a reader waiting for lines gets Unreachable."""


class Transport(Protocol):
    """The way to the API server; an implementation need only offer these three."""

    async def send(
        self,
        request: Request,
        timeout: float,
        max_bytes: int = MAX_RESPONSE_BYTES,
        may_send: Callable[[], bool] = allow,
    ) -> Response:
        """One request, one answer, or Unreachable, within the patience whatever it is that takes long.

        `may_send` is asked after all other waiting, right before the request leaves, and again when it has to be sent
        a second time.
        """

    def stream(self, request: Request, idle_timeout: float) -> AbstractAsyncContextManager[Stream]:
        """An answer without end; Silent when nothing comes for so long."""

    async def close(self) -> None:
        """Let go of every connection."""
