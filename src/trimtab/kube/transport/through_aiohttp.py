"""Decides how any request travels through aiohttp; leaves what to ask and what an answer means to others.

A 401 never happened, so it is tried once more with credentials read afresh. Redirects are not followed: a token is for
one host. Whether a request may leave is asked before aiohttp looks for a connection, so it leaves within the connect
timeout after that.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.proof import Identity
from trimtab.kube.limiter import Limiter
from trimtab.kube.transport.contract import (
    CONNECT_TIMEOUT,
    CONNECTIONS,
    HEADERS,
    KEEP_IDLE,
    LARGEST_ANSWER,
    Response,
    Stream,
    Unreachable,
    always,
)
from trimtab.kube.transport.door import Door
from trimtab.kube.transport.failures import said_plainly
from trimtab.wire.request import Request

TURNS_TO_CLOSE = 5  # of the loop, until a dropped TLS connection has closed its socket
LARGEST_LINE = 16 << 20
READ_BUFFER = 2 << 20

Limits = Callable[[], aiohttp.ClientTimeout]


class AiohttpStream:
    """A Stream on an aiohttp response."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Split at line ends here: aiohttp's own line reader fails on long lines."""
        pieces: list[bytes] = []
        size = 0
        with said_plainly():
            async for chunk in self._response.content.iter_any():
                first, *others = chunk.split(b"\n")
                pieces.append(first)
                size += len(first)
                if size > LARGEST_LINE:
                    raise Unreachable(f"a line is longer than {LARGEST_LINE} bytes", sent=True)
                if others:
                    complete = [b"".join(pieces), *others[:-1]]
                    pieces, size = [others[-1]], len(others[-1])
                    yield [line for line in complete if line]

    async def body(self) -> bytes:
        """Read to the end."""
        with said_plainly():
            return await _capped(self._response, LARGEST_ANSWER)

    def close(self) -> None:
        """Drop the connection, without a farewell that a dead server would never answer."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


class AiohttpTransport:
    """A pool of keep-alive HTTP/1.1 connections to one API server."""

    def __init__(
        self, credentials: Credentials, connections: int = CONNECTIONS, limiter: Limiter | None = None
    ) -> None:
        self._credentials, self._connections, self._limiter = credentials, connections, limiter
        self._session: aiohttp.ClientSession | None = None
        self._sockets: list[socket.socket] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        request: Request,
        patience: float,
        largest: int = LARGEST_ANSWER,
        may_leave: Callable[[], bool] = always,
    ) -> Response:
        """One request, one answer, or Unreachable."""
        door = Door(may_leave)
        try:
            async with asyncio.timeout(patience) as patient:
                with said_plainly():
                    return await self._exchange(request, patient, largest, door)
        except TimeoutError:
            raise Unreachable(f"no answer within {patience:g} s", sent=door.passed) from None

    async def _exchange(self, request: Request, patient: asyncio.Timeout, largest: int, door: Door) -> Response:
        def limits() -> aiohttp.ClientTimeout:
            # Less than the rest, so that a request that found no connection is known not to have been sent.
            rest = (patient.when() or 0.0) - asyncio.get_running_loop().time()
            return aiohttp.ClientTimeout(total=None, connect=min(0.9 * max(rest, 0.001), CONNECT_TIMEOUT))

        response = await self._open(request, limits, door)
        try:
            return Response(response.status, response.headers, await _capped(response, largest))
        finally:
            response.release()

    @asynccontextmanager
    async def stream(self, request: Request, silence: float) -> AsyncIterator[Stream]:
        """An answer without end; its connection is not used again."""
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=silence)
        with said_plainly():
            stream = AiohttpStream(await self._open(request, lambda: limits, Door(always)))
        try:
            yield stream
        finally:
            stream.close()

    async def close(self) -> None:
        """Let go of every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None
            for made in self._sockets:
                with suppress(OSError):  # closed already; one that waits for a dead server's farewell is not
                    made.shutdown(socket.SHUT_RDWR)
            for _ in range(TURNS_TO_CLOSE):
                await asyncio.sleep(0)

    async def _open(self, request: Request, limits: Limits, door: Door) -> aiohttp.ClientResponse:
        response = await self._ask(request, limits, door, await self._credentials.identity())
        if response.status != 401:
            return response
        response.release()
        door.come_back()
        return await self._ask(request, limits, door, await self._credentials.identity(refused=True))

    async def _ask(self, request: Request, limits: Limits, door: Door, identity: Identity) -> aiohttp.ClientResponse:
        if self._limiter is not None:
            await self._limiter.admit()
        door.leave()
        headers = HEADERS | dict(identity.headers)
        if request.body:
            headers["Content-Type"] = request.content_type
        return await self._pool().request(
            request.method,
            URL(self._credentials.server + request.path, encoded=True),
            data=request.body or None,
            headers=headers,
            allow_redirects=False,
            timeout=limits(),
            ssl=identity.context or True,
            proxy=self._credentials.proxy or None,
            server_hostname=self._credentials.server_name or None,
        )

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections,
                keepalive_timeout=KEEP_IDLE,
                socket_factory=self._socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=READ_BUFFER,
            )
        return self._session

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        tune(made)
        self._sockets = [each for each in self._sockets if each.fileno() >= 0] + [made]
        return made


def tune(made: socket.socket) -> None:
    """Let the kernel notice a dead peer within 30 to 45 s, busy or idle."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
    for name, value in options.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _capped(response: aiohttp.ClientResponse, largest: int) -> bytes:
    if response.content_length is not None and response.content_length <= largest:
        return await response.read()
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > largest:
            response.close()
            raise Unreachable(f"the answer is larger than {largest} bytes", sent=True)
    return b"".join(chunks)
