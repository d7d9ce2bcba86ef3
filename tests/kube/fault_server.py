"""A server on loopback that misbehaves at a chosen byte.

A real API server cannot be made to cut a response after its commit, or to stop sending, at a chosen byte.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig


@dataclass
class ReceivedRequest:
    """One request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int
    reply: asyncio.StreamWriter

    def respond(self, status: int, body: bytes = b"", *more: str) -> None:
        """A whole answer."""
        head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *more]
        self.reply.write("\r\n".join([*head, "", ""]).encode() + body)

    def start_stream(self) -> None:
        """The head of an answer without end."""
        self.reply.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        """A piece of it; an empty one says that this was all."""
        self.reply.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


Behaviour = Callable[[ReceivedRequest], Awaitable[None] | None]


async def cut(received: ReceivedRequest) -> None:
    """Close the connection without an answer."""
    received.reply.close()


async def half(received: ReceivedRequest) -> None:
    """Close it in the middle of the answer."""
    received.reply.write(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\nhalf")
    received.reply.close()


async def never(received: ReceivedRequest) -> None:
    """Keep it open, and answer nothing."""
    await asyncio.sleep(60)


async def nonsense(received: ReceivedRequest) -> None:
    """Answer what is not HTTP."""
    received.reply.write(b"\x15\x03 what is this\r\n\r\n")
    received.reply.close()


@dataclass
class FaultServer:
    """The server's address, and the requests it has received."""

    port: int = 0
    received: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    secure: bool = False
    first_received: asyncio.Event = field(default_factory=asyncio.Event)

    def credentials(self, user: UserConfig | None = None, **cluster: str) -> Credentials:
        """Credentials for this server."""
        address = f"{'https' if self.secure else 'http'}://localhost:{self.port}"
        return Credentials(ClusterConfig(server=address, **cluster), user or UserConfig(token="canary-token"), "test")


async def _read(reader: asyncio.StreamReader, number: int, writer: asyncio.StreamWriter) -> ReceivedRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (each.split(": ", 1) for each in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(line, headers, body, number, writer)


@asynccontextmanager
async def serving(behave: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultServer]:
    """A server that treats every request as `behave` says; a connection closed there stays closed."""
    server = FaultServer(secure=tls is not None)
    conversations: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        server.connections += 1
        number = server.connections
        try:
            while not writer.is_closing() and (received := await _read(reader, number, writer)) is not None:
                server.received.append(received)
                server.first_received.set()
                if (waiting := behave(received)) is not None:
                    await waiting
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    listening = await asyncio.start_server(converse, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations)
