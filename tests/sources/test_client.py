"""The HTTP client: rows D1 and D8, no secret in an error or on another host, no blocked address."""

from __future__ import annotations

import asyncio
import base64
import gzip
import logging
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.kube import certificates
from tests.kube.fault_server import ReceivedRequest, serving
from tests.sources.fake_prometheus import fake_prometheus, respond_with, series, vector
from trimtab.config.trimtab.settings import BasicAuth, PrometheusSettings, Tls
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.client import MAX_CONNECTIONS, AddressBlocked, GuardedResolver, PrometheusClient

BODY = vector(series({"node": "a"}, "1"))
CANARY = "canary-8c1f"


async def failure(behave: Any, **settings: Any) -> SourceError:
    """The error that a poll ends with."""
    async with fake_prometheus(behave, **settings) as (source, _):
        with pytest.raises(SourceError) as caught:
            await source.read()
    return caught.value


async def post_once(settings: PrometheusSettings) -> bytes:
    """The body of one response."""
    client = PrometheusClient(settings)
    try:
        return (await client.post("/api/v1/query", {"query": "up"})).body
    finally:
        await client.close()


async def test_a_query_is_posted_as_a_form_below_the_path() -> None:
    """The query is posted, so that its length does not matter, below whatever path Prometheus lives at."""
    async with serving(respond_with(BODY)) as server:
        assert BODY == await post_once(PrometheusSettings("p", f"http://127.0.0.1:{server.port}/prometheus/"))
    asked = server.received[0]
    assert "POST /prometheus/api/v1/query HTTP/1.1" == asked.line
    assert ("application/x-www-form-urlencoded", b"query=up") == (asked.headers["content-type"], asked.body)
    assert "identity" == asked.headers["accept-encoding"] and "authorization" not in asked.headers


async def test_d1_connection_refused() -> None:
    """The error names address and remedy, and is transient."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(SourceError, match=f"no connection to 127.0.0.1:{port}.*check") as caught:
        await post_once(PrometheusSettings("p", f"http://127.0.0.1:{port}"))
    assert caught.value.transient


async def test_d1_a_server_that_never_responds_times_out() -> None:
    """A server that accepts the request and never responds costs the timeout and no more."""
    error = await failure(lambda asked: None, timeout=0.2)
    assert "no response" in str(error) and not error.transient


async def test_d1_a_host_that_accepts_no_connection() -> None:
    """Half of the timeout is for connecting; the error says so and is transient."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as one, socket.socket() as two:
        for line in (one, two):  # they fill the queue, so that the next one is neither taken nor refused
            line.setblocking(False)
            line.connect_ex(full.getsockname())
        with pytest.raises(SourceError, match="no connection to") as caught:
            await post_once(PrometheusSettings("p", f"http://127.0.0.1:{full.getsockname()[1]}", timeout=0.4))
    assert caught.value.transient


async def test_waiting_for_a_pooled_connection_is_no_failure() -> None:
    """A slow Prometheus may serve more requests than there are connections, as long as each is in time."""

    async def slow(asked: ReceivedRequest) -> None:
        if len(server.received) <= MAX_CONNECTIONS:
            await asyncio.sleep(2.4)  # more than half of the time: so long a connection is waited for at most
        asked.respond(200, BODY, "Content-Type: application/json")

    async with serving(slow) as server:
        client = PrometheusClient(PrometheusSettings("p", f"http://127.0.0.1:{server.port}", timeout=4.0))
        try:
            asked = [client.post("/api/v1/query", {"query": "up"}) for _ in range(MAX_CONNECTIONS + 1)]
            assert [BODY] * len(asked) == [answer.body for answer in await asyncio.gather(*asked)]
        finally:
            await client.close()


async def test_d8_a_dripping_response_times_out() -> None:
    """Bytes that keep coming do not extend the timeout."""

    async def drip(asked: ReceivedRequest) -> None:
        asked.start_stream()
        while True:
            asked.chunk(b" ")
            await asyncio.sleep(0.01)

    assert "within 0.3 s" in str(await failure(drip, timeout=0.3))


async def test_d8_a_response_that_is_too_large_is_rejected() -> None:
    """Reading stops at the limit, with and without Content-Length."""

    def flood(asked: ReceivedRequest) -> None:
        asked.start_stream()
        for _ in range(100):
            asked.chunk(b" " * 10_000)

    assert "larger than" in str(await failure(respond_with(b" " * (1 << 20)), max_bytes=1 << 16))
    assert "larger than" in str(await failure(flood, max_bytes=1 << 16))


async def test_d8_a_compressed_response_is_rejected() -> None:
    """None was requested, and it may expand a thousandfold in memory."""
    bomb = gzip.compress(b"0" * 10_000_000)
    error = await failure(lambda asked: asked.respond(200, bomb, "Content-Encoding: gzip"))
    assert "compressed" in str(error)


@pytest.mark.parametrize(
    "head",
    [
        f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY) - 9}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY) + 9}\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
        "HTTP/1.1 999 Whatever\r\nContent-Length: -1\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "",
    ],
)
async def test_a_truncated_response_is_a_failure(head: str) -> None:
    """A wrong Content-Length, unfinished chunks and bytes that are not HTTP are never taken for a response."""

    def cut(asked: ReceivedRequest) -> None:
        asked.reply.write(head.encode() + (BODY if head else b""))
        asked.reply.close()

    assert str(await failure(cut, timeout=2.0))


async def test_http_1_0_is_supported() -> None:
    """An old proxy may end its response by closing the connection."""

    def old(asked: ReceivedRequest) -> None:
        asked.reply.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + BODY)
        asked.reply.close()

    async with fake_prometheus(old) as (source, _):
        assert ("a",) == (await source.read()).readings[0].names


async def test_a_pooled_connection_closed_by_the_server_is_no_failure() -> None:
    """The connection is replaced, and the request sent again."""

    def once(asked: ReceivedRequest) -> None:
        if asked.connection == 1 and len(server.received) > 1:
            asked.reply.close()
        else:
            asked.respond(200, BODY)

    async with fake_prometheus(once) as (source, server):
        await source.read()
        assert ("a",) == (await source.read()).readings[0].names
    assert 2 == server.connections


async def test_s19_redirects_are_not_followed(tmp_path: Path) -> None:
    """Neither a query nor a token reaches the host that a redirect points to."""
    token = tmp_path / "token"
    token.write_text(CANARY)
    async with serving(respond_with(BODY)) as elsewhere:
        location = f"Location: http://127.0.0.1:{elsewhere.port}/api/v1/query"
        for status in (301, 302, 307, 308):
            error = await failure(
                lambda asked, status=status: asked.respond(status, b"", location), bearer_token_file=str(token)
            )
            assert "redirects" in str(error)
    assert [] == elsewhere.received


async def test_the_token_is_read_again_for_each_request(tmp_path: Path) -> None:
    """Tokens are rotated while the process runs."""
    token = tmp_path / "token"
    async with fake_prometheus(respond_with(BODY), bearer_token_file=str(token)) as (source, server):
        for text in ("one\n", "two"):
            token.write_text(text)
            await source.read()
    assert ["Bearer one", "Bearer two"] == [asked.headers["authorization"] for asked in server.received]


async def test_a_password_travels_as_basic_auth(tmp_path: Path) -> None:
    """The user name, and the password from its file."""
    (tmp_path / "password").write_text("geheim\n")
    auth = BasicAuth("scheduler", str(tmp_path / "password"))
    async with fake_prometheus(respond_with(BODY), basic_auth=auth) as (source, server):
        await source.read()
    assert f"Basic {base64.b64encode(b'scheduler:geheim').decode()}" == server.received[0].headers["authorization"]


@pytest.mark.parametrize(
    "content", [None, "", f"{CANARY}\nX-Evil: 1", f"{CANARY}\r\n\r\nGET /", f"{CANARY}ä", f"{CANARY}\0"]
)
async def test_an_invalid_token_file_is_reported_without_its_content(content: str | None, tmp_path: Path) -> None:
    """The error for a missing, empty or malformed file names its path only."""
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    error = await failure(respond_with(BODY), bearer_token_file=str(token))
    assert str(token) in str(error) and CANARY not in str(error)


async def test_s22_no_error_contains_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the message, nor its causes, nor any log line at any level contains the secret."""
    caplog.set_level(logging.DEBUG)
    token = tmp_path / "token"
    token.write_text(CANARY)
    for behave in (
        respond_with(b"no", 401),
        respond_with(b'{"status": "error", "error": "who is Bearer %s?"}' % CANARY.encode(), 401),
        respond_with(b"<", 200),
        lambda asked: asked.reply.close(),
        lambda asked: None,
    ):
        error: BaseException | None = await failure(behave, bearer_token_file=str(token), timeout=0.2)
        while error is not None:
            assert CANARY not in repr(error) + repr(vars(error))
            assert error.__suppress_context__ or error.__context__ is None or not hasattr(error.__context__, "headers")
            error = error.__cause__
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "http://user:geheim@prometheus:9090",
        "file:///etc/passwd",
        "gopher://prometheus",
        "unix:///run/prometheus.sock",
        "http://169.254.169.254/latest",
        "http://[fe80::1]:9090",
        "http://[fe80::1%25eth0]:9090",
        "http://224.0.0.1:9090",
        "http://0.0.0.0:9090",
        "http://[::ffff:169.254.169.254]:9090",
        "http://2852039166/",
        "http://metadata.google.internal",
        "http://pröm:9090",
        "prometheus:9090",
        "",
    ],
)
def test_s20_blocked_urls(url: str) -> None:
    """Rejected before any request, with the reason and without the password."""
    with pytest.raises(SourceError, match="url of source 'p'") as caught:
        PrometheusClient(PrometheusSettings("p", url))
    assert "geheim" not in str(caught.value)


def test_allow_addresses_permits_a_blocked_address() -> None:
    """A Prometheus may run on a link-local address if the configuration allows it."""
    PrometheusClient(PrometheusSettings("p", "http://169.254.20.10:9090", allow_addresses=("169.254.20.10/32",)))


class FakeResolver(AbstractResolver):
    """Resolves every name to the given addresses; without any, fails as for an unknown name."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            ResolveResult(hostname=host, host=each, port=port, family=family, proto=0, flags=0)
            for each in self.addresses
        ]

    async def close(self) -> None:
        """Nothing to release."""


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fe80::1%2", "224.0.0.1", "::ffff:169.254.169.254", "fd00:ec2::254"]
)
async def test_a_name_must_not_resolve_to_a_blocked_address(address: str) -> None:
    """The check happens on connecting, and one blocked address among others is enough."""
    with pytest.raises(AddressBlocked, match="allowAddresses"):
        await GuardedResolver((), FakeResolver("10.0.0.1", address)).resolve("prometheus", 9090)


async def test_the_error_for_a_blocked_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names host, address and remedy."""
    monkeypatch.setattr("trimtab.sources.prometheus.client.ThreadedResolver", lambda: FakeResolver("169.254.169.254"))
    with pytest.raises(SourceError, match=r"prometheus.example leads to 169\.254\.169\.254.*allowAddresses"):
        await post_once(PrometheusSettings("p", "http://prometheus.example:9090"))


def trusting(tmp_path: Path, **more: Any) -> Tls:
    """Settings that trust the tests' CA."""
    (tmp_path / "ca.pem").write_bytes(certificates.authority_pem())
    return Tls(ca_file=str(tmp_path / "ca.pem"), **more)


async def secured(tls: Tls, name: str = "localhost") -> bytes:
    """The response over TLS of a server with a certificate for that name."""
    async with serving(respond_with(BODY), certificates.server_context(name)) as server:
        return await post_once(PrometheusSettings("p", f"https://localhost:{server.port}", tls=tls))


async def test_tls_trusts_the_configured_ca(tmp_path: Path) -> None:
    """A server is trusted with its CA in caFile, but not without, or under another name."""
    assert BODY == await secured(trusting(tmp_path))
    assert BODY == await secured(trusting(tmp_path, server_name="prom.example"), "prom.example")
    assert BODY == await secured(Tls(insecure_skip_verify=True), "prom.example")
    for tls, name, remedy in ((Tls(), "localhost", "caFile"), (trusting(tmp_path), "prom.example", "tls.serverName")):
        with pytest.raises(SourceError, match=rf"not trusted.*{remedy}"):
            await secured(tls, name)


async def test_the_remedy_for_an_expired_certificate(tmp_path: Path) -> None:
    """Another CA would not help."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old = datetime(2021, 1, 1, tzinfo=UTC)
    certificates.authority().issue_cert("localhost", not_before=old, not_after=old + timedelta(1)).configure_cert(
        context
    )
    async with serving(respond_with(BODY), context) as server:
        with pytest.raises(SourceError, match=r"not trusted: certificate has expired: renew it"):
            await post_once(PrometheusSettings("p", f"https://localhost:{server.port}", tls=trusting(tmp_path)))


async def test_http_and_https_mixed_up() -> None:
    """The remedy for TLS on a plain port is not about trust, and for plain HTTP on a TLS port not about the query."""

    async def at_once(_: asyncio.StreamReader, reply: asyncio.StreamWriter) -> None:
        reply.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reply.drain()
        reply.close()

    async with await asyncio.start_server(at_once, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SourceError, match=r"TLS handshake with 127.0.0.1:\d+ failed \(.*\): use http://"):
            await post_once(PrometheusSettings("p", f"https://127.0.0.1:{port}"))
    plain = await failure(lambda asked: asked.respond(400, b"Client sent an HTTP request to an HTTPS server.\n"))
    assert "the response is HTTP 400: use https:// if it speaks TLS" == str(plain)


async def test_a_name_that_does_not_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usually a typo, but DNS may also be down, so the error is transient."""
    monkeypatch.setattr("trimtab.sources.prometheus.client.ThreadedResolver", FakeResolver)
    with pytest.raises(SourceError, match=r"cannot resolve prometheus\.invalid:9090: check the host name") as caught:
        await post_once(PrometheusSettings("p", "http://prometheus.invalid:9090"))
    assert caught.value.transient


async def test_tls_presents_the_configured_client_certificate(tmp_path: Path) -> None:
    """A server that requires a client certificate gets ours, and the new one once the file has changed."""
    context = certificates.server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    shown: list[Any] = []

    def note(asked: ReceivedRequest) -> None:
        shown.append(asked.reply.get_extra_info("ssl_object").getpeercert(binary_form=True))
        asked.respond(200, BODY)

    tls = trusting(tmp_path, cert_file=str(tmp_path / "crt"), key_file=str(tmp_path / "key"))
    async with serving(note, context) as server:
        client = PrometheusClient(PrometheusSettings("p", f"https://localhost:{server.port}", tls=tls))
        for name in ("one", "two"):
            pair = certificates.client(name)
            (tmp_path / "crt").write_bytes(pair.certificate)
            (tmp_path / "key").write_bytes(pair.key)
            await client.post("/api/v1/query", {"query": "up"})
        await client.close()
    assert [certificates.der(certificates.client(name).certificate) for name in ("one", "two")] == shown


@pytest.mark.parametrize("field", ["ca_file", "cert_file"])
async def test_invalid_tls_files_are_named(field: str, tmp_path: Path) -> None:
    """The error for a missing or non-PEM file names its path."""
    for content in (None, b"no pem"):
        path = tmp_path / f"{field}-{content is None}"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SourceError, match=str(path)):
            await secured(Tls(**{field: str(path)}))
