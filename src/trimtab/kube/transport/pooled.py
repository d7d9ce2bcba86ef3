"""Decides over which kept connection a write travels; leaves reads and streams to aiohttp.

A write is a kilobyte there and a kilobyte back, thousands of times: there aiohttp's generality costs about half of all the
processor time that a bind takes.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.proof import Identity
from trimtab.kube.limiter import Limiter
from trimtab.kube.transport.contract import (
    CONNECT_TIMEOUT,
    CONNECTIONS,
    HEADERS,
    KEEP_IDLE,
    Response,
)
from trimtab.kube.transport.conversation import Conversation
from trimtab.kube.transport.door import Door
from trimtab.kube.transport.failures import no_connection
from trimtab.kube.transport.through_aiohttp import AiohttpTransport, tune
from trimtab.wire.request import Request


class PooledTransport(AiohttpTransport):
    """aiohttp for what is large or without end, and a lean pool of connections for writes."""

    def __init__(
        self, credentials: Credentials, connections: int = CONNECTIONS, limiter: Limiter | None = None
    ) -> None:
        super().__init__(credentials, connections, limiter)
        address = urlsplit(credentials.server)
        self._host = address.hostname or ""
        self._port = address.port or (443 if address.scheme == "https" else 80)
        self._authority, self._below = address.netloc, address.path
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[Conversation] = []
        self._all: set[Conversation] = set()
        self._head: tuple[Identity | None, bytes] = (None, b"")

    async def _exchange(self, request: Request, patient: asyncio.Timeout, largest: int, door: Door) -> Response:
        if not request.body or self._credentials.proxy:
            return await super()._exchange(request, patient, largest, door)
        response = await self._converse(request, largest, door, await self._credentials.identity())
        if response.status != 401:
            return response
        door.come_back()
        return await self._converse(request, largest, door, await self._credentials.identity(refused=True))

    async def close(self) -> None:
        """Let go of every connection."""
        for conversation in [*self._all]:
            conversation.abort("closed by ourselves")
        self._all.clear()
        self._idle.clear()
        await super().close()

    async def _converse(self, request: Request, largest: int, door: Door, identity: Identity) -> Response:
        if self._limiter is not None:
            await self._limiter.admit()
        question = self._question(request, identity)
        async with self._slots:
            conversation = self._kept(identity.context) or await self._connected(identity.context)
            try:
                door.leave()
                return await conversation.ask(question, largest)
            finally:
                self._put_back(conversation)

    def _kept(self, context: ssl.SSLContext | None) -> Conversation | None:
        """The connection used last, so that those not needed grow old; one of an old certificate is not used again."""
        fresh = asyncio.get_running_loop().time() - KEEP_IDLE
        while self._idle:
            conversation = self._idle.pop()
            if conversation.idle and conversation.context is context and conversation.idle_since > fresh:
                return conversation
            self._drop(conversation)
        return None

    def _put_back(self, conversation: Conversation) -> None:
        if conversation.idle and conversation in self._all:
            conversation.idle_since = asyncio.get_running_loop().time()
            self._idle.append(conversation)
        else:
            self._drop(conversation)

    def _drop(self, conversation: Conversation) -> None:
        self._all.discard(conversation)
        conversation.abort("given up")

    async def _connected(self, context: ssl.SSLContext | None) -> Conversation:
        name = (self._credentials.server_name or self._host) if context else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                transport, conversation = await asyncio.get_running_loop().create_connection(
                    lambda: Conversation(context), self._host, self._port, ssl=context, server_hostname=name
                )
        except OSError as error:
            raise no_connection(f"{self._host}:{self._port}", error) from None
        tune(transport.get_extra_info("socket"))
        self._all.add(conversation)
        return conversation

    def _question(self, request: Request, identity: Identity) -> bytes:
        known, head = self._head
        if known is not identity:
            lines = {"Host": self._authority, **HEADERS, **identity.headers}
            if not all(value.isprintable() for value in lines.values()):
                raise ValueError("a header would end too early")
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode("latin-1")
            self._head = identity, head
        start = f"{request.method} {self._below}{request.path} HTTP/1.1\r\n".encode("ascii")
        length = f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n".encode("ascii")
        return b"".join((start, head, length, request.body))
