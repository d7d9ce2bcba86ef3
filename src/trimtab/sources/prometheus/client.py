"""HTTP client for one Prometheus: authentication, TLS, timeouts, size limits and a guard against blocked addresses.

Redirects are not followed, because a token is meant for one host. Compressed responses are rejected, so that none expands in
memory. Proxy settings of the environment are ignored, because none was configured. A large response is handed on piece by
piece while it is read, and a client reads one large response at a time; the others wait on their connections. So memory is
bounded by the number of sources, and a slow Prometheus delays none but its own responses.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from trimtab.config.trimtab.settings import PrometheusSettings, Tls
from trimtab.config.trimtab.validation import blocked_reason, validate_url
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.series_cutter import MAX_KEPT_BYTES, SeriesCutter, TooLarge

MAX_RESPONSE_BYTES = 64 << 20
OK = 200
MAX_FILE_BYTES = 1 << 20
MAX_CONNECTIONS = 4
READ_BUFFER = 1 << 18
LARGE_BYTES = 1 << 20  # of larger ones a client reads one at a time
CONNECT_SHARE = 0.5  # of the timeout
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "trimtab"}

CHECK_PATH = "check the path and the file permissions"
CHECK_RUNNING = "check that it is running and that the url is correct"
NAME_MISMATCH = "use a name from its certificate in the url, or in tls.serverName"
CERTIFICATE_REMEDIES = {  # by OpenSSL's verification codes (X509_V_ERR_*)
    9: "compare the clocks of both machines",  # not yet valid
    10: "renew it",  # expired
    62: NAME_MISMATCH,  # host name
    64: NAME_MISMATCH,  # IP address
}


TakePiece = Callable[[bytes], None]


class HttpResponse(NamedTuple):
    """A response, whatever its status; without the series that were handed on before."""

    status: int
    content_type: str
    body: bytes


class PrometheusClient:
    """A small connection pool to one Prometheus."""

    def __init__(self, settings: PrometheusSettings, max_bytes: int = MAX_RESPONSE_BYTES) -> None:
        if error := validate_url(settings.url, settings.allow_addresses):
            raise SourceError(f"the url of source {settings.name!r} {error}")
        self._settings, self._max_bytes = settings, max_bytes
        self._auth = Auth(settings)
        self._session: aiohttp.ClientSession | None = None
        self._large_response_lock = asyncio.Lock()  # held while a large response is read

    async def post(self, path: str, form: Mapping[str, str], take: TakePiece | None = None) -> HttpResponse:
        """Post the form; SourceError unless a complete response arrives in time.

        `take` gets the series of a large response as JSON arrays, all but the last few.
        """
        timeout = self._settings.timeout
        try:
            async with asyncio.timeout(timeout):
                try:
                    response = await self._send(path, form)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                    if isinstance(error, aiohttp.ClientConnectorError):
                        raise
                    # The server had already closed a pooled connection: not a failure yet.
                    response = await self._send(path, form)
                return await self._read(response, take)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Without its cause, which may contain headers.
            raise _to_source_error(error, self._host_port, timeout) from None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def _host_port(self) -> str:
        url = URL(self._settings.url)
        return f"{url.host}:{url.port}"

    async def _send(self, path: str, form: Mapping[str, str]) -> aiohttp.ClientResponse:
        return await self._open().post(
            URL(self._settings.url.rstrip("/") + path, encoded=True),
            data=dict(form),
            headers=HEADERS | self._auth.headers(),
            allow_redirects=False,
            ssl=self._auth.tls_context() or True,
            server_hostname=self._settings.tls.server_name or None,
        )

    async def _read(self, response: aiohttp.ClientResponse, take: TakePiece | None) -> HttpResponse:
        try:
            if encoding := response.headers.get("Content-Encoding", "identity").lower().replace("identity", ""):
                raise SourceError(f"{self._host_port} sent a compressed response ({encoding[:20]!r})")
            pieces = take if response.status == OK else None
            body = self._auth.hide(await self._body(response, pieces))
            return HttpResponse(response.status, response.content_type, body)
        finally:
            response.close()  # a connection that was read to the end has returned to the pool before

    async def _body(self, response: aiohttp.ClientResponse, take: TakePiece | None) -> bytes:
        """Read the body, but no further than the size limit; other tasks run after each piece."""
        cutter, kept, size = SeriesCutter(), bytearray(), 0
        async with AsyncExitStack() as stack:
            async for chunk in response.content.iter_any():
                if size <= LARGE_BYTES < size + len(chunk):
                    await stack.enter_async_context(self._large_response_lock)
                size += len(chunk)
                if size > self._max_bytes:
                    raise self._too_large(self._max_bytes)
                if take is None:
                    kept += chunk
                    continue
                try:
                    for piece in cutter.feed(chunk):
                        take(piece)
                        await asyncio.sleep(0)
                except TooLarge:
                    raise self._too_large(MAX_KEPT_BYTES) from None
        return bytes(kept) if take is None else cutter.body

    def _too_large(self, limit: int) -> SourceError:
        problem = f"the response of {self._host_port} is larger than {limit >> 20} MiB"
        return SourceError(problem, "select fewer series, or use a recording rule")

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=MAX_CONNECTIONS, resolver=GuardedResolver(self._settings.allow_addresses)
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=READ_BUFFER,
                # Not `connect`, which includes waiting for a free connection of the pool.
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
        return SourceError(f"cannot resolve {host_port}", "check the host name and the DNS", transient=True)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return SourceError(f"no connection to {host_port}", CHECK_RUNNING, transient=True)
    if isinstance(error, TimeoutError):
        return SourceError(f"no response from {host_port} within {timeout:g} s", CHECK_RUNNING)
    return SourceError(f"{host_port} closed the connection ({type(error).__name__})", CHECK_RUNNING, transient=True)


def _tls_error(error: Exception, host_port: str) -> SourceError:
    """Why TLS failed, with its own remedy: another CA fixes neither an expired nor a mismatched certificate."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        reason = (getattr(error, "reason", None) or type(error).__name__).replace("_", " ").lower()
        return SourceError(f"TLS handshake with {host_port} failed ({reason})", "use http:// if it does not speak TLS")
    remedy = CERTIFICATE_REMEDIES.get(error.verify_code, "set tls.caFile to its CA")
    return SourceError(f"the certificate of {host_port} is not trusted: {error.verify_message.rstrip('.')}", remedy)


class Auth:
    """Headers and TLS context, from files that are read again for each request: tokens and certificates are rotated.

    A new TLS context means new connections, so the context is kept until a file changes. Error messages name the path and
    never the content of a file.
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._tls_files: tuple[bytes, ...] | None = None
        self._context: ssl.SSLContext | None = None
        self._sent: tuple[str, ...] = ()

    def headers(self) -> dict[str, str]:
        """The Authorization header, if any; SourceError if a file cannot be read."""
        settings = self._settings
        if settings.bearer_token_file:
            token = _read_secret(settings.bearer_token_file, "bearerTokenFile")
            self._sent = (token,)
            return {"Authorization": f"Bearer {token}"}
        if settings.basic_auth is not None:
            password = _read_secret(settings.basic_auth.password_file, "passwordFile")
            pair = base64.b64encode(f"{settings.basic_auth.username}:{password}".encode()).decode()
            self._sent = (pair, password)
            return {"Authorization": f"Basic {pair}"}
        return {}

    def hide(self, body: bytes) -> bytes:
        """The response without the credentials, which a server or a proxy may repeat in its error."""
        for secret in self._sent:
            body = body.replace(secret.encode(), b"[hidden]")
        return body

    def tls_context(self) -> ssl.SSLContext | None:
        """None for plain http."""
        if not self._settings.url.lower().startswith("https:"):
            return None
        tls = self._settings.tls
        paths = (tls.ca_file, tls.cert_file, tls.key_file)
        contents = tuple(_read_file(path, "tls") if path else b"" for path in paths)
        if contents != self._tls_files:
            self._context, self._tls_files = _tls_context(tls), contents
        return self._context


def _read_secret(path: str, field: str) -> str:
    """One line of printable ASCII: a line break would start another header."""
    text = _read_file(path, field).decode("ascii", "replace").strip()
    if not text:
        raise SourceError(f"{field} {path} is empty", "check what writes it")
    if not (text.isascii() and text.isprintable()):
        raise SourceError(f"{field} {path} is not a single line of printable ASCII", "write it again")
    return text


def _read_file(path: str, field: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise SourceError(f"{field}: cannot read {path}: {error.strerror}", CHECK_PATH) from None


def _tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca_file:
        _load_pem(tls.ca_file, lambda: context.load_verify_locations(cafile=tls.ca_file))
    else:
        context.load_default_certs()
    if tls.cert_file:
        # An empty password, because OpenSSL would otherwise ask for one on the terminal.
        _load_pem(tls.cert_file, lambda: context.load_cert_chain(tls.cert_file, tls.key_file or None, password=""))
    return context


def _load_pem(path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (ssl.SSLError, ValueError, OSError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise SourceError(f"tls: cannot load {path}: {reason}", "use PEM files that belong together") from None


class AddressBlocked(OSError):
    """A host name resolves to an address that must not be contacted."""


class GuardedResolver(AbstractResolver):
    """The system's resolver, rejecting a name if any of its addresses is blocked.

    The check happens when a connection is made and not before: the owner of a name can change its addresses at any time.
    """

    def __init__(self, allowed: Iterable[str], inner: AbstractResolver | None = None) -> None:
        self._allowed = tuple(allowed)
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Called by aiohttp for every host that is not an IP address."""
        results = await self._inner.resolve(host, port, family)
        for result in results:
            if reason := blocked_reason(ip_address(result["host"].partition("%")[0]), self._allowed):
                raise AddressBlocked(f"{host} {reason}")
        return results

    async def close(self) -> None:
        """Called by aiohttp."""
        await self._inner.close()
