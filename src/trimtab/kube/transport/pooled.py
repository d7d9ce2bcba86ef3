"""Decides over which kept connection a write travels; leaves reads and streams to aiohttp.

A write is a kilobyte there and a kilobyte back, thousands of times: there aiohttp's generality costs about half of all the
processor time that a bind takes.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.auth import AuthState
from trimtab.kube.rate_limiter import RateLimiter
from trimtab.kube.transport.aiohttp_transport import AiohttpTransport, set_keepalive
from trimtab.kube.transport.contract import CONNECT_TIMEOUT, HEADERS, KEEPALIVE_TIMEOUT, MAX_CONNECTIONS, Response
from trimtab.kube.transport.errors import connect_error
from trimtab.kube.transport.http_connection import HttpConnection
from trimtab.kube.transport.send_gate import SendGate
from trimtab.wire.requests import Request


class PooledTransport(AiohttpTransport):
    """aiohttp for what is large or without end, and a lean pool of connections for writes."""

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
        """Let go of every connection."""
        for conversation in [*self._open_connections]:
            conversation.abort("closed by ourselves")
        self._open_connections.clear()
        self._idle.clear()
        await super().close()

    async def _round_trip(self, request: Request, max_bytes: int, gate: SendGate, identity: AuthState) -> Response:
        if self._rate_limiter is not None:
            await self._rate_limiter.wait()
        question = self._encode(request, identity)
        async with self._slots:
            conversation = self._idle_connection(identity.context) or await self._dial(identity.context)
            try:
                gate.check()
                return await conversation.send(question, max_bytes)
            finally:
                self._put_back(conversation)

    def _idle_connection(self, context: ssl.SSLContext | None) -> HttpConnection | None:
        """The connection used last, so that those not needed grow old; one of an old certificate is not used again."""
        fresh = asyncio.get_running_loop().time() - KEEPALIVE_TIMEOUT
        while self._idle:
            conversation = self._idle.pop()
            if conversation.idle and conversation.context is context and conversation.idle_since > fresh:
                return conversation
            self._drop(conversation)
        return None

    def _put_back(self, conversation: HttpConnection) -> None:
        if conversation.idle and conversation in self._open_connections:
            conversation.idle_since = asyncio.get_running_loop().time()
            self._idle.append(conversation)
        else:
            self._drop(conversation)

    def _drop(self, conversation: HttpConnection) -> None:
        self._open_connections.discard(conversation)
        conversation.abort("given up")

    async def _dial(self, context: ssl.SSLContext | None) -> HttpConnection:
        name = (self._credentials.server_name or self._host) if context else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                transport, conversation = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(context), self._host, self._port, ssl=context, server_hostname=name
                )
        except OSError as error:
            raise connect_error(f"{self._host}:{self._port}", error) from None
        set_keepalive(transport.get_extra_info("socket"))
        self._open_connections.add(conversation)
        return conversation

    def _encode(self, request: Request, identity: AuthState) -> bytes:
        known, head = self._head
        if known is not identity:
            lines = {"Host": self._authority, **HEADERS, **identity.headers}
            if not all(value.isprintable() for value in lines.values()):
                raise ValueError("a header would end too early")
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode("latin-1")
            self._head = identity, head
        start = f"{request.method} {self._base_path}{request.path} HTTP/1.1\r\n".encode("ascii")
        length = f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n".encode("ascii")
        return b"".join((start, head, length, request.body))
