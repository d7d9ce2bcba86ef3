"""Decides how a question travels to a Prometheus and how large or late an answer may be; leaves reading it to others.

Redirects are not followed, because a token is for one host. Answers come unpacked, so that none swells in our memory. No
proxy is taken from the environment, because none was configured.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
from yarl import URL

from trimtab.config.trimtab.settings import PrometheusSettings
from trimtab.config.trimtab.validation import validate_url
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.auth import Auth
from trimtab.sources.prometheus.ssrf_guard import AddressBlocked, GuardedResolver

MAX_RESPONSE_BYTES = 64 << 20
CONNECTIONS = 4
READ_BUFFER = 1 << 20
THREAD_ABOVE_BYTES = 1 << 18  # bytes: some milliseconds of reading, which others need not wait for
CONNECT_SHARE = 0.5
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "trimtab"}

CHECK_RUNNING = "check that it runs and that the address is right"
NAME_MISMATCH = "write a name that it has into the url, or into tls.serverName"
CERTIFICATE_REMEDIES = {  # by the codes of OpenSSL (X509_V_ERR_*)
    9: "compare the clocks of both machines",  # not yet valid
    10: "renew it",  # expired
    62: NAME_MISMATCH,  # another host name
    64: NAME_MISMATCH,  # another IP address
}


class HttpResponse(NamedTuple):
    """What came back, whatever it says."""

    status: int
    content_type: str
    body: bytes


class PrometheusClient:
    """A few connections to one Prometheus."""

    def __init__(self, settings: PrometheusSettings, max_bytes: int = MAX_RESPONSE_BYTES) -> None:
        if fault := validate_url(settings.url, settings.allow_addresses):
            raise SourceError(f"the address of source {settings.name!r} {fault}")
        self._settings, self._max_bytes = settings, max_bytes
        self._auth = Auth(settings)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, path: str, form: Mapping[str, str]) -> HttpResponse:
        """Post the form; SourceError where no whole answer comes in time."""
        timeout = self._settings.timeout
        try:
            async with asyncio.timeout(timeout):
                try:
                    return await self._exchange(path, form)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                    if isinstance(error, aiohttp.ClientConnectorError):
                        raise
                    # A kept connection that the other side had already given up: nothing is wrong yet.
                    return await self._exchange(path, form)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Cut off from its cause, which may hold headers.
            raise _to_source_error(error, self._host_port, timeout) from None

    async def close(self) -> None:
        """Let go of every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def _host_port(self) -> str:
        url = URL(self._settings.url)
        return f"{url.host}:{url.port}"

    async def _exchange(self, path: str, form: Mapping[str, str]) -> HttpResponse:
        response = await self._open().post(
            URL(self._settings.url.rstrip("/") + path, encoded=True),
            data=dict(form),
            headers=HEADERS | self._auth.headers(),
            allow_redirects=False,
            ssl=self._auth.tls_context() or True,
            server_hostname=self._settings.tls.server_name or None,
        )
        try:
            if packed := response.headers.get("Content-Encoding", "identity").lower().replace("identity", ""):
                raise SourceError(f"{self._host_port} answers packed ({packed[:20]!r}) though asked not to")
            return HttpResponse(response.status, response.content_type, await self._body(response))
        finally:
            response.close()  # where all was read the connection has gone back to the pool before

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        """The answer, read only as far as it may be long."""
        pieces, size = [], 0
        async for piece in response.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > self._max_bytes:
                problem = f"the answer of {self._host_port} is larger than {self._max_bytes >> 20} MiB"
                raise SourceError(problem, "ask for fewer series, or make a recording rule")
        return b"".join(pieces)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=CONNECTIONS, resolver=GuardedResolver(self._settings.allow_addresses)
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=READ_BUFFER,
                # Not `connect`, which counts the wait for one of our few connections too.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SHARE * self._settings.timeout),
            )
        return self._session


def _to_source_error(error: Exception, host_port: str, timeout: float) -> SourceError:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, AddressBlocked):
        return SourceError(str(error.os_error))
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _tls_error(error.certificate_error, host_port)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return _tls_error(error.os_error, host_port)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return SourceError(
            f"nobody knows the name of {host_port}", "check how it is spelt, and the DNS", transient=True
        )
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return SourceError(f"no connection to {host_port}", CHECK_RUNNING, transient=True)
    if isinstance(error, TimeoutError):
        return SourceError(f"no answer from {host_port} within {timeout:g} s", CHECK_RUNNING)
    return SourceError(f"{host_port} broke off its answer ({type(error).__name__})", CHECK_RUNNING, transient=True)


def _tls_error(error: Exception, host_port: str) -> SourceError:
    """Why no TLS came about, with the remedy for that: another authority mends neither an old nor a wrong certificate."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        reason = (getattr(error, "reason", None) or type(error).__name__).replace("_", " ").lower()
        return SourceError(f"no agreement on TLS with {host_port} ({reason})", "write http:// if it does not speak TLS")
    remedy = CERTIFICATE_REMEDIES.get(error.verify_code, "give its authority in tls.caFile")
    return SourceError(f"the certificate of {host_port} is not trusted: {error.verify_message.rstrip('.')}", remedy)
