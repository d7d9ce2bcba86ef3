"""The transport with its own connection pool for writes; reads and streams go through aiohttp.

Writes are thousands of small requests and responses, and aiohttp would take about half of the CPU time of a bind.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.auth import AuthState
from trimtab.kube.transport.aiohttp_transport import AiohttpTransport, connect_error, set_keepalive
from trimtab.kube.transport.contract import (
    CONNECT_TIMEOUT,
    HEADERS,
    KEEPALIVE_TIMEOUT,
    MAX_CONNECTIONS,
    RateLimiter,
    Response,
    SendGate,
)
from trimtab.kube.transport.http_connection import HttpConnection
from trimtab.wire.requests import Request


class PooledTransport(AiohttpTransport):
    """aiohttp for reads and streams, and a lean pool of connections for writes."""

    def __init__(
        self, credentials: Credentials, connections: int = MAX_CONNECTIONS, rate_limiter: RateLimiter | None = None
    ) -> None:
        super().__init__(credentials, connections, rate_limiter)
        address = urlsplit(credentials.server)
        self._host = address.hostname or ""
        self._port = address.port or (443 if address.scheme == "https" else 80)
        self._authority, self._base_path = address.netloc, address.path
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[HttpConnection] = []
        self._open_connections: set[HttpConnection] = set()
        self._head: tuple[AuthState | None, bytes] = (None, b"")

    async def _exchange(self, request: Request, deadline: asyncio.Timeout, max_bytes: int, gate: SendGate) -> Response:
        if not request.body or self._credentials.proxy:
            return await super()._exchange(request, deadline, max_bytes, gate)
        response = await self._round_trip(request, max_bytes, gate, await self._credentials.auth_state())
        if response.status != 401:
            return response
        gate.rejected()
        return await self._round_trip(request, max_bytes, gate, await self._credentials.auth_state(unauthorized=True))

    async def close(self) -> None:
        """Close every connection."""
        for connection in [*self._open_connections]:
            connection.abort("the transport was closed")
        self._open_connections.clear()
        self._idle.clear()
        await super().close()

    async def _round_trip(self, request: Request, max_bytes: int, gate: SendGate, auth: AuthState) -> Response:
        if self._rate_limiter is not None:
            await self._rate_limiter.wait()
        encoded = self._encode(request, auth)
        async with self._slots:
            connection = self._idle_connection(auth.context) or await self._dial(auth.context)
            try:
                gate.check()
                return await connection.send(encoded, max_bytes)
            finally:
                self._put_back(connection)

    def _idle_connection(self, context: ssl.SSLContext | None) -> HttpConnection | None:
        """The most recently used connection, so that surplus ones expire; one with an old certificate is not reused."""
        fresh = asyncio.get_running_loop().time() - KEEPALIVE_TIMEOUT
        while self._idle:
            connection = self._idle.pop()
            if connection.idle and connection.context is context and connection.idle_since > fresh:
                return connection
            self._drop(connection)
        return None

    def _put_back(self, connection: HttpConnection) -> None:
        if connection.idle and connection in self._open_connections:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: HttpConnection) -> None:
        self._open_connections.discard(connection)
        connection.abort("the connection was dropped")

    async def _dial(self, context: ssl.SSLContext | None) -> HttpConnection:
        name = (self._credentials.server_name or self._host) if context else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                transport, connection = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(context), self._host, self._port, ssl=context, server_hostname=name
                )
        except OSError as error:
            raise connect_error(f"{self._host}:{self._port}", error) from None
        set_keepalive(transport.get_extra_info("socket"))
        self._open_connections.add(connection)
        return connection

    def _encode(self, request: Request, auth: AuthState) -> bytes:
        known, head = self._head
        if known is not auth:
            lines = {"Host": self._authority, **HEADERS, **auth.headers}
            if not all(value.isprintable() for value in lines.values()):
                raise ValueError("a header contains a control character")
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode("latin-1")
            self._head = auth, head
        start = f"{request.method} {self._base_path}{request.path} HTTP/1.1\r\n".encode("ascii")
        own = f"Accept: {request.accept}\r\nContent-Type: {request.content_type}\r\nContent-Length: {len(request.body)}"
        return b"".join((start, head, own.encode("ascii"), b"\r\n\r\n", request.body))
