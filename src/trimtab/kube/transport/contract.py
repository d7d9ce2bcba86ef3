"""What a transport to the API server offers, and the checks that every request passes before it is sent.

A failure says whether the request may have arrived: only then can a write have taken effect.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from trimtab.wire.requests import Request

CONNECT_TIMEOUT = 3.0
# The API server closes idle connections after 90 s; closing them well before avoids writing to a closed one.
KEEPALIVE_TIMEOUT = 30.0
MAX_RESPONSE_BYTES = 4 << 20
MAX_CONNECTIONS = 32
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "trimtab"}


class Response(NamedTuple):
    """A response with any status; header names are lower case or looked up case-insensitively."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unreachable(Exception):
    """No response. `sent` is false only when the request certainly did not arrive.

    `permanent` means that waiting does not help: the server is not trusted, or the request cannot be sent to anybody.
    """

    def __init__(self, message: str, sent: bool, permanent: bool = False) -> None:
        super().__init__(message)
        self.sent, self.permanent = sent, permanent


class NoCredentials(Unreachable):
    """Nothing was sent, because the credentials could not be read or issued."""


class IdleTimeout(Unreachable):
    """A stream received nothing for too long: nothing happened, or the connection is half-open."""


def allow() -> bool:
    """For requests that need no leadership."""
    return True


class Stream(Protocol):
    """A streamed response, by whole lines."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def lines(self) -> AsyncIterator[list[bytes]]:
        """The lines that arrived together; ends when the server ends the stream."""

    async def body(self) -> bytes:
        """The whole body, for an error response."""

    def close(self) -> None:
        """Close it now; a reader waiting for lines gets Unreachable."""


class Transport(Protocol):
    """A way to reach the API server."""

    async def send(
        self,
        request: Request,
        timeout: float,
        max_bytes: int = MAX_RESPONSE_BYTES,
        may_send: Callable[[], bool] = allow,
    ) -> Response:
        """The response, or Unreachable; the timeout covers everything, including credentials and the rate limit.

        `may_send` is asked after all other waiting, right before the request is sent, and again before a second attempt.
        """

    def stream(self, request: Request, idle_timeout: float) -> AbstractAsyncContextManager[Stream]:
        """A response without end; IdleTimeout when nothing arrives for so long."""

    async def close(self) -> None:
        """Close every connection."""


class SendGate:
    """The last check before a request is sent; `maybe_sent` says whether the server may have acted on it."""

    def __init__(self, may_send: Callable[[], bool]) -> None:
        self.maybe_sent = False
        self._may_send = may_send

    def check(self) -> None:
        """Call right before the request is written."""
        if not self._may_send():
            raise Unreachable("not sent: this replica may no longer be the leader", sent=False)
        self.maybe_sent = True

    def rejected(self) -> None:
        """Call after a 401: the server did nothing."""
        self.maybe_sent = False


class RateLimiter:
    """A token bucket: `burst` requests at once, `qps` per second in the long run; first come, first served."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._credit = (max(burst, 1) - 1) * self._interval
        self._next = float("-inf")

    async def wait(self) -> None:
        """Wait for a token."""
        now = asyncio.get_running_loop().time()
        turn = max(self._next, now - self._credit)
        self._next = turn + self._interval
        if turn > now:
            await asyncio.sleep(turn - now)


def rate_limiter(qps: float | None, burst: int | None) -> RateLimiter | None:
    """The limiter for clientConnection's qps and burst; None without a positive qps."""
    return RateLimiter(qps, burst or 1) if qps is not None and qps > 0 else None


def requests_by_host(sent: Iterable[tuple[str, Mapping[tuple[str, str], int]]]) -> Mapping[tuple[str, str, str], int]:
    """By code, host and method: what transports to these servers have sent, by method and code."""
    found = Counter[tuple[str, str, str]]()
    for server, requests in sent:
        host = urlsplit(server).netloc
        found.update({(code, host, method): n for (method, code), n in dict(requests).items()})  # other threads may add
    return found
