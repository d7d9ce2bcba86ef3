"""Decides how a request travels to the API server and back; leaves what to ask and what an answer means to others.

A failure says whether the request may have arrived: only then can a write have happened all the same. A 401 never
happened, so it is tried once more with credentials read afresh. Redirects are not followed: a token is for one host.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import aiohttp
from yarl import URL

from trimtab.kube.credentials import Credentials, CredentialsError
from trimtab.kube.credentials.proof import Identity
from trimtab.kube.limiter import Limiter
from trimtab.wire.request import Request

CONNECT_TIMEOUT = 3.0
LARGEST_ANSWER = 4 << 20
LARGEST_LINE = 16 << 20
READ_BUFFER = 2 << 20
CONNECTIONS = 32
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "trimtab"}
NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    CredentialsError,
)


class Response(NamedTuple):
    """An answer, whatever it says; header names are looked up in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unreachable(Exception):
    """No answer came. `sent` is false only where the request has certainly not arrived."""

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Silent(Unreachable):
    """A stream brought nothing for too long: quiet, or dead without a word."""


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
    """The way to the API server; a second implementation need only offer these three."""

    async def send(self, request: Request, patience: float, largest: int = LARGEST_ANSWER) -> Response:
        """One request, one answer, or Unreachable."""

    def stream(self, request: Request, silence: float) -> AbstractAsyncContextManager[Stream]:
        """An answer without end; Silent when nothing comes for so long."""

    async def close(self) -> None:
        """Let go of every connection."""


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
        with _said_plainly():
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
        with _said_plainly():
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(self, request: Request, patience: float, largest: int = LARGEST_ANSWER) -> Response:
        """One request, one answer, or Unreachable."""
        limits = aiohttp.ClientTimeout(total=patience, connect=min(patience, CONNECT_TIMEOUT))
        with _said_plainly():
            response = await self._open(request, limits)
            try:
                return Response(response.status, response.headers, await _capped(response, largest))
            finally:
                response.release()

    @asynccontextmanager
    async def stream(self, request: Request, silence: float) -> AsyncIterator[Stream]:
        """An answer without end; its connection is not used again."""
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=silence)
        with _said_plainly():
            stream = AiohttpStream(await self._open(request, limits))
        try:
            yield stream
        finally:
            stream.close()

    async def close(self) -> None:
        """Let go of every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _open(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        response = await self._ask(request, limits, await self._credentials.identity())
        if response.status != 401:
            return response
        response.release()
        return await self._ask(request, limits, await self._credentials.identity(refused=True))

    async def _ask(self, request: Request, limits: aiohttp.ClientTimeout, identity: Identity) -> aiohttp.ClientResponse:
        if self._limiter is not None:
            await self._limiter.admit()
        headers = HEADERS | dict(identity.headers)
        if request.body:
            headers["Content-Type"] = request.content_type
        return await self._pool().request(
            request.method,
            URL(self._credentials.server + request.path, encoded=True),
            data=request.body or None,
            headers=headers,
            allow_redirects=False,
            timeout=limits,
            ssl=identity.context or True,
            proxy=self._credentials.proxy or None,
            server_hostname=self._credentials.server_name or None,
        )

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections,
                keepalive_timeout=30.0,
                socket_factory=_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=READ_BUFFER,
            )
        return self._session


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket whose dead peer the kernel notices within 30 to 45 s, busy or idle."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
    for name, value in options.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


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


@contextmanager
def _said_plainly() -> Iterator[None]:
    """Every failure of the network as one of ours; the cause is cut off because it may hold headers."""
    try:
        yield
    except NEVER_SENT as error:
        raise Unreachable(_sentence(error), sent=False) from None
    except aiohttp.SocketTimeoutError as error:
        raise Silent(_sentence(error), sent=True) from None
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(_sentence(error), sent=True) from None


def _sentence(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate of {error.host}:{error.port} is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection to {error.host}:{error.port}: {_system_reason(error.os_error)}"
    return str(error) or type(error).__name__


def _system_reason(error: OSError) -> str:
    """asyncio puts its own words in place of the system's."""
    return os.strerror(error.errno) if error.errno and error.errno in errno.errorcode else str(error)
