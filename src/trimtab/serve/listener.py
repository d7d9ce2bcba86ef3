"""Accepts connections on one socket, within limits on their number and on the time they take.

    accepted ──(TLS handshake)──▶ open ──(request head complete)──▶ in a request ──▶ idle ──▶ (next request head) …
       └─ HANDSHAKE_SECONDS          └─ HEAD_SECONDS                                  └─ IDLE_SECONDS ──▶ aborted

When all places are taken, the host with the most connections loses the one that has been without a request for longest: a
client that only holds connections open keeps no probe or scrape of another host out.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from trimtab.serve.options import Address

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 256
MAX_LINE_BYTES = 4 << 10
MAX_FIELD_BYTES = 8 << 10  # a token with many groups is long
MAX_HEADERS = 64
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0
KEEP_ALIVE = 75.0
IDLE_SECONDS = KEEP_ALIVE + HEAD_SECONDS  # also what a client may take to read a response
SHUTDOWN_TIMEOUT = 1.0
SWEEP_SECONDS = 1.0
# Per host; a scraper opens one in many seconds, a kubelet a few per second.
CONNECTIONS_PER_SECOND, CONNECTION_BURST = 50.0, 200.0
MAX_HOSTS = 4096  # whose rate is remembered
BACKLOG = 1024  # more clients than this at once would make a probe wait for its next SYN
RETRY_SECONDS = 0.5
NO_IPV6 = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # the kernel knows it, and it is switched off


class CannotListen(Exception):
    """Says which address cannot be used, why, and which flag chooses another."""


def listen(address: Address, permit_port_sharing: bool = False) -> socket.socket:
    """A socket on this address; on all interfaces and families if it is unspecified."""
    everywhere = ipaddress.ip_address(address.host).is_unspecified
    try:
        made = (
            _everywhere(address.port, permit_port_sharing)
            if everywhere
            else _bound(address.host, address.port, permit_port_sharing)
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)  # without the address, which comes first
        raise CannotListen(f"cannot serve on {address}: {reason}. Choose another {address.flag}") from None
    made.setblocking(False)
    return made


def _everywhere(port: int, permit_port_sharing: bool) -> socket.socket:
    if not socket.has_dualstack_ipv6():
        return _bound("", port, permit_port_sharing)
    try:
        return socket.create_server(
            ("", port), family=socket.AF_INET6, backlog=BACKLOG, reuse_port=permit_port_sharing, dualstack_ipv6=True
        )
    except OSError as error:
        if error.errno not in NO_IPV6:
            raise
        return _bound("", port, permit_port_sharing)


def _bound(host: str, port: int, permit_port_sharing: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=permit_port_sharing)


class BoundedRequests(RequestHandler):
    """aiohttp's protocol with limits; a request that breaks them is answered without a word about it or about us."""

    __slots__ = ()

    def __init__(self, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None is how it is switched off
            keepalive_timeout=KEEP_ALIVE,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_HEADERS,
        )

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Not logged if it is the client's error: anybody could fill the log, and a header may hold a token."""
        if status != HTTPStatus.BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        response = web.Response(status=status, text=HTTPStatus.BAD_REQUEST.phrase, headers={"Server": ""})
        response.force_close()
        return response


@dataclass(eq=False)
class _Connection:
    """One connection: `accepting` performs the handshake, after which aiohttp's protocol has a transport."""

    host: str
    protocol: RequestHandler
    deadline: float  # by when its next request must be complete; infinite during one
    accepting: asyncio.Task[None] | None = None

    @property
    def closed(self) -> bool:
        handshaking = self.accepting is not None and not self.accepting.done()
        return not handshaking and self.protocol.transport is None

    def abort(self) -> None:
        """Close it at once, without a farewell that the client may never read."""
        if self.accepting is not None:
            self.accepting.cancel()
        if self.protocol.transport is not None:
            self.protocol.transport.abort()


class Connections:
    """The connections of one port."""

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self._limit = limit
        self._by_protocol: dict[object, _Connection] = {}

    def __len__(self) -> int:
        return len(self._by_protocol)

    def add(self, host: str, protocol: RequestHandler, accepting: asyncio.Task[None]) -> None:
        """Count one more; if there are too many, one has to go."""
        self._by_protocol[protocol] = _Connection(host, protocol, _now() + HANDSHAKE_SECONDS + HEAD_SECONDS, accepting)
        if len(self._by_protocol) > self._limit:
            self.sweep()
        if len(self._by_protocol) > self._limit:
            self._by_protocol.pop(self._most_expendable().protocol).abort()

    def _most_expendable(self) -> _Connection:
        """Of the host with the most, the one with the earliest deadline."""
        counts = Counter(each.host for each in self._by_protocol.values())
        return min(self._by_protocol.values(), key=lambda each: (-counts[each.host], each.deadline))

    def sweep(self) -> None:
        """Forget those that are closed, and abort those whose time is over."""
        for each in [*self._by_protocol.values()]:
            if each.closed or each.deadline < _now():
                self._by_protocol.pop(each.protocol).abort()

    def abort_all(self) -> None:
        """At the end."""
        for each in self._by_protocol.values():
            each.abort()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """No deadline during a request; after it one for the client to read the response and to ask again."""
        connection = self._by_protocol.get(request.protocol)
        if connection is None:  # aborted meanwhile
            return await handler(request)
        connection.deadline = float("inf")
        try:
            return await handler(request)
        finally:
            connection.deadline = _now() + IDLE_SECONDS


class ConnectionRate:
    """How many new TLS connections each host may open, as a handshake costs CPU time that scheduling needs.

    A token bucket for each host; those that are full are forgotten when there are many.
    """

    def __init__(self, per_second: float = CONNECTIONS_PER_SECOND, burst: float = CONNECTION_BURST) -> None:
        self._per_second, self._burst = per_second, burst
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when that was

    def allows(self, host: str, now: float) -> bool:
        """Take a token of this host, if it has one."""
        tokens = self._tokens(host, now)
        if len(self._buckets) >= MAX_HOSTS and host not in self._buckets:
            self._buckets = {
                each: kept for each, kept in self._buckets.items() if self._tokens(each, now) < self._burst
            }
        self._buckets[host] = (tokens - 1 if tokens >= 1 else tokens), now
        return tokens >= 1

    def _tokens(self, host: str, now: float) -> float:
        tokens, at = self._buckets.get(host, (self._burst, now))
        return min(self._burst, tokens + (now - at) * self._per_second)


def _now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def serve(
    app: web.Application, on: socket.socket, context: ssl.SSLContext | None = None, limit: int = MAX_CONNECTIONS
) -> AsyncIterator[int]:
    """Serve on this socket inside the block, with TLS if there is a context; yields the port."""
    connections = Connections(limit)
    app.middlewares.insert(0, connections.middleware)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
    await runner.setup()
    accepting = asyncio.create_task(_accept(on, runner, context, connections))
    sweeping = asyncio.create_task(_sweep(connections))
    try:
        yield on.getsockname()[1]
    finally:
        for task in (accepting, sweeping):
            task.cancel()
        await asyncio.gather(accepting, sweeping, return_exceptions=True)
        on.close()
        await runner.cleanup()
        connections.abort_all()


async def _accept(
    on: socket.socket, runner: web.AppRunner, context: ssl.SSLContext | None, connections: Connections
) -> None:
    loop, rate = asyncio.get_running_loop(), ConnectionRate()
    assert runner.server is not None
    while True:
        try:
            first = await loop.sock_accept(on)
        except Exception as error:  # no file descriptor left, or the client is gone
            log.warning("failed to accept a connection: error=%s", error)
            await asyncio.sleep(RETRY_SECONDS)
            continue
        for client, address in (first, *_waiting(on)):
            try:
                if context is not None and not rate.allows(address[0], loop.time()):
                    client.close()
                    continue
                protocol = BoundedRequests(runner.server)
                connections.add(address[0], protocol, asyncio.create_task(_start(client, protocol, context)))
            except Exception as error:  # the next client is to be served all the same
                log.warning("failed to serve a connection: error=%s", error)
                client.close()


def _waiting(on: socket.socket) -> Iterator[tuple[socket.socket, Any]]:
    """Those that are there already, at once: what is turned away costs no handshake, and a probe waits for fewer."""
    for _ in range(MAX_CONNECTIONS):
        try:
            client, address = on.accept()
        except OSError:
            return
        client.setblocking(False)
        yield client, address


async def _start(client: socket.socket, protocol: RequestHandler, context: ssl.SSLContext | None) -> None:
    """The TLS handshake; one that fails is the client's problem."""
    timeout = HANDSHAKE_SECONDS if context is not None else None
    with suppress(OSError, ConnectionError):
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: protocol, client, ssl=context, ssl_handshake_timeout=timeout
        )


async def _sweep(connections: Connections) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        try:
            connections.sweep()
        except Exception as error:
            log.warning("failed to close idle connections: error=%s", error)
