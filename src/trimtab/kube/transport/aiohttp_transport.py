"""The transport on aiohttp, and the translation of its errors.

A request answered with 401 had no effect, so it is sent once more with credentials read again. Redirects are not followed: a
token is for one host. `may_send` is asked before aiohttp gets a connection, so the request is sent within the connect
timeout after that.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from trimtab.kube.credentials import Credentials, CredentialsError
from trimtab.kube.credentials.auth import AuthState
from trimtab.kube.transport.contract import (
    CONNECT_TIMEOUT,
    HEADERS,
    KEEPALIVE_TIMEOUT,
    MAX_CONNECTIONS,
    MAX_RESPONSE_BYTES,
    IdleTimeout,
    NoCredentials,
    RateLimiter,
    Response,
    SendGate,
    Stream,
    Unreachable,
    allow,
)
from trimtab.wire.requests import Request

CLOSE_ITERATIONS = 5  # of the event loop, until a dropped TLS connection has closed its socket
MAX_LINE_BYTES = 16 << 20
READ_BUFFER = 2 << 20
NO_RESPONSE = "<error>"  # client-go's status of a request without a response

Timeouts = Callable[[], aiohttp.ClientTimeout]


NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    ValueError,  # a request that cannot be encoded, found before its first byte is written
)
PERMANENT = (aiohttp.ClientConnectorCertificateError, aiohttp.InvalidURL, ValueError)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise every network error as Unreachable, without its cause, which may contain headers."""
    try:
        yield
    except CredentialsError as error:
        raise NoCredentials(str(error), sent=False, permanent=error.permanent) from None
    except NEVER_SENT as error:
        raise Unreachable(_message(error), sent=False, permanent=isinstance(error, PERMANENT)) from None
    except aiohttp.SocketTimeoutError as error:
        raise IdleTimeout(_message(error), sent=True) from None
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(_message(error), sent=True) from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # aiohttp cancels look-ups and handshakes of a session that is closed; nobody cancelled the caller.
        raise Unreachable("the transport was closed", sent=True) from None


def connect_error(place: str, error: OSError) -> Unreachable:
    """A connection that could not be established."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(f"the certificate of {place} is not trusted: {error}", sent=False, permanent=True)
    return Unreachable(f"no connection to {place}: {_system_reason(error)}", sent=False)


def _message(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate of {error.host}:{error.port} is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection to {error.host}:{error.port}: {_system_reason(error.os_error)}"
    if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
        return "the request cannot be encoded as HTTP: check the characters of the credentials"
    return str(error) or type(error).__name__


def _system_reason(error: OSError) -> str:
    """The system's own text, which asyncio replaces."""
    number = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
    return os.strerror(number) if number in errno.errorcode else str(error) or type(error).__name__


class AiohttpStream:
    """A Stream on an aiohttp response."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Split into lines here: aiohttp's line reader fails on long lines."""
        pieces: list[bytes] = []
        size = 0
        with translate_errors():
            async for chunk in self._response.content.iter_any():
                first, *others = chunk.split(b"\n")
                pieces.append(first)
                size += len(first)
                if size > MAX_LINE_BYTES:
                    raise Unreachable(f"a line is longer than {MAX_LINE_BYTES} bytes", sent=True)
                if others:
                    complete = [b"".join(pieces), *others[:-1]]
                    pieces, size = [others[-1]], len(others[-1])
                    yield [line for line in complete if line]

    async def body(self) -> bytes:
        """Read to the end."""
        with translate_errors():
            return await _read_bounded(self._response, MAX_RESPONSE_BYTES)

    def close(self) -> None:
        """Drop the connection, without a TLS shutdown that a dead server would never answer."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


class AiohttpTransport:
    """A pool of keep-alive HTTP/1.1 connections to one API server."""

    def __init__(
        self, credentials: Credentials, connections: int = MAX_CONNECTIONS, rate_limiter: RateLimiter | None = None
    ) -> None:
        self._credentials, self._connections, self._rate_limiter = credentials, connections, rate_limiter
        self._session: aiohttp.ClientSession | None = None
        self._sockets: list[socket.socket] = []
        self.requests: Counter[tuple[str, str]] = Counter()  # by method and status

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        request: Request,
        timeout: float,
        max_bytes: int = MAX_RESPONSE_BYTES,
        may_send: Callable[[], bool] = allow,
    ) -> Response:
        """The response, or Unreachable."""
        gate, code = SendGate(may_send), NO_RESPONSE
        try:
            async with asyncio.timeout(timeout) as deadline:
                with translate_errors():
                    response = await self._exchange(request, deadline, max_bytes, gate)
                    code = str(response.status)
                    return response
        except TimeoutError:
            raise Unreachable(f"no response within {timeout:g} s", sent=gate.maybe_sent) from None
        finally:
            self.requests[request.method, code] += 1

    async def _exchange(self, request: Request, deadline: asyncio.Timeout, max_bytes: int, gate: SendGate) -> Response:
        def limits() -> aiohttp.ClientTimeout:
            # Less than the time left, so that a request without a connection is known not to have been sent.
            seconds_left = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
            return aiohttp.ClientTimeout(total=None, connect=min(0.9 * max(seconds_left, 0.001), CONNECT_TIMEOUT))

        response = await self._send_authenticated(request, limits, gate)
        try:
            return Response(response.status, response.headers, await _read_bounded(response, max_bytes))
        finally:
            response.release()

    @asynccontextmanager
    async def stream(self, request: Request, idle_timeout: float) -> AsyncIterator[Stream]:
        """A response without end; its connection is not reused."""
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=idle_timeout)
        code = NO_RESPONSE
        try:
            with translate_errors():
                stream = AiohttpStream(await self._send_authenticated(request, lambda: limits, SendGate(allow)))
                code = str(stream.status)
        finally:
            self.requests[request.method, code] += 1
        try:
            yield stream
        finally:
            stream.close()

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None
            for sock in self._sockets:
                with suppress(
                    OSError
                ):  # most are closed already, but not one that waits for a dead server's TLS shutdown
                    sock.shutdown(socket.SHUT_RDWR)
            for _ in range(CLOSE_ITERATIONS):
                await asyncio.sleep(0)

    async def _send_authenticated(self, request: Request, limits: Timeouts, gate: SendGate) -> aiohttp.ClientResponse:
        response = await self._send_once(request, limits, gate, await self._credentials.auth_state())
        if response.status != 401:
            return response
        response.release()
        gate.rejected()
        return await self._send_once(request, limits, gate, await self._credentials.auth_state(unauthorized=True))

    async def _send_once(
        self, request: Request, limits: Timeouts, gate: SendGate, auth: AuthState
    ) -> aiohttp.ClientResponse:
        if self._rate_limiter is not None:
            await self._rate_limiter.wait()
        gate.check()
        headers = HEADERS | dict(auth.headers) | {"Accept": request.accept}
        if request.body:
            headers["Content-Type"] = request.content_type
        return await self._client_session().request(
            request.method,
            URL(self._credentials.server + request.path, encoded=True),
            data=request.body or None,
            headers=headers,
            allow_redirects=False,
            timeout=limits(),
            ssl=auth.context or True,
            proxy=self._credentials.proxy or None,
            server_hostname=self._credentials.server_name or None,
        )

    def _client_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections,
                keepalive_timeout=KEEPALIVE_TIMEOUT,
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
        sock = socket.socket(family, kind, protocol)
        set_keepalive(sock)
        self._sockets = [each for each in self._sockets if each.fileno() >= 0] + [sock]
        return sock


def set_keepalive(sock: socket.socket) -> None:
    """Let the kernel notice a dead peer within 30 to 45 s, busy or idle."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
    for name, value in options.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _read_bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    if response.content_length is not None and response.content_length <= max_bytes:
        return await response.read()
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            response.close()
            raise Unreachable(f"the response is larger than {max_bytes} bytes", sent=True)
    return b"".join(chunks)
