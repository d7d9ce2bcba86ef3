"""Decides whether questions travel safely: rows D1 and D8, no secret astray, no address that is off limits."""

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
from trimtab.sources.prometheus.client import CONNECTIONS, PrometheusClient
from trimtab.sources.prometheus.ssrf_guard import AddressBlocked, GuardedResolver

BODY = vector(series({"node": "a"}, "1"))
CANARY = "canary-8c1f"


async def failure(behave: Any, **settings: Any) -> SourceError:
    """The one with which a look ends."""
    async with fake_prometheus(behave, **settings) as (source, _):
        with pytest.raises(SourceError) as caught:
            await source.read()
    return caught.value


async def asked_once(settings: PrometheusSettings) -> bytes:
    """The body of one answer."""
    client = PrometheusClient(settings)
    try:
        return (await client.post("/api/v1/query", {"query": "up"})).body
    finally:
        await client.close()


async def test_a_question_is_a_form_below_the_path() -> None:
    """The query is posted, so that its length does not matter, below whatever path Prometheus lives at."""
    async with serving(respond_with(BODY)) as server:
        assert BODY == await asked_once(PrometheusSettings("p", f"http://127.0.0.1:{server.port}/prometheus/"))
    asked = server.received[0]
    assert "POST /prometheus/api/v1/query HTTP/1.1" == asked.line
    assert ("application/x-www-form-urlencoded", b"query=up") == (asked.headers["content-type"], asked.body)
    assert "identity" == asked.headers["accept-encoding"] and "authorization" not in asked.headers


async def test_d1_nobody_listens() -> None:
    """A refused connection is told with address and remedy, and may be over soon."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(SourceError, match=f"no connection to 127.0.0.1:{port}.*check") as caught:
        await asked_once(PrometheusSettings("p", f"http://127.0.0.1:{port}"))
    assert caught.value.transient


async def test_d1_a_silent_server_is_given_up() -> None:
    """One that takes the question and never answers costs the timeout and no more."""
    error = await failure(lambda asked: None, timeout=0.2)
    assert "no answer" in str(error) and not error.transient


async def test_d1_a_machine_that_takes_no_connection_is_told_as_such() -> None:
    """Where nothing comes back half of the time is spent on the connection, and asking again soon may help."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as one, socket.socket() as two:
        for line in (one, two):  # they fill the queue, so that the next one is neither taken nor refused
            line.setblocking(False)
            line.connect_ex(full.getsockname())
        with pytest.raises(SourceError, match="no connection to") as caught:
            await asked_once(PrometheusSettings("p", f"http://127.0.0.1:{full.getsockname()[1]}", timeout=0.4))
    assert caught.value.transient


async def test_waiting_for_one_of_our_own_connections_is_no_failure() -> None:
    """A slow Prometheus answers more questions than there are connections, as long as each is in time."""

    async def slow(asked: ReceivedRequest) -> None:
        if len(server.received) <= CONNECTIONS:
            await asyncio.sleep(2.4)  # more than half of the time: so long a connection is waited for at most
        asked.respond(200, BODY, "Content-Type: application/json")

    async with serving(slow) as server:
        client = PrometheusClient(PrometheusSettings("p", f"http://127.0.0.1:{server.port}", timeout=4.0))
        try:
            asked = [client.post("/api/v1/query", {"query": "up"}) for _ in range(CONNECTIONS + 1)]
            assert [BODY] * len(asked) == [answer.body for answer in await asyncio.gather(*asked)]
        finally:
            await client.close()


async def test_d8_an_answer_in_drips_is_given_up() -> None:
    """Bytes that go on coming do not prolong the time that there is."""

    async def drip(asked: ReceivedRequest) -> None:
        asked.start_stream()
        while True:
            asked.chunk(b" ")
            await asyncio.sleep(0.01)

    assert "within 0.3 s" in str(await failure(drip, timeout=0.3))


async def test_d8_an_answer_that_is_too_large_is_given_up() -> None:
    """Reading stops at the cap, whether the size was announced or not."""

    def flood(asked: ReceivedRequest) -> None:
        asked.start_stream()
        for _ in range(100):
            asked.chunk(b" " * 10_000)

    assert "larger than" in str(await failure(respond_with(b" " * (1 << 20)), largest=1 << 16))
    assert "larger than" in str(await failure(flood, largest=1 << 16))


async def test_d8_a_packed_answer_is_refused() -> None:
    """None was asked for, and one may swell a thousandfold in memory."""
    bomb = gzip.compress(b"0" * 10_000_000)
    error = await failure(lambda asked: asked.respond(200, bomb, "Content-Encoding: gzip"))
    assert "packed" in str(error)


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
async def test_an_answer_that_is_cut_is_a_failure(head: str) -> None:
    """A length that is wrong, chunks without end and what is no HTTP never pass for an answer."""

    def cut(asked: ReceivedRequest) -> None:
        asked.reply.write(head.encode() + (BODY if head else b""))
        asked.reply.close()

    assert str(await failure(cut, timeout=2.0))


async def test_http_1_0_will_do() -> None:
    """An old proxy that ends its answer by closing the connection is understood."""

    def old(asked: ReceivedRequest) -> None:
        asked.reply.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + BODY)
        asked.reply.close()

    async with fake_prometheus(old) as (source, _):
        assert ("a",) == (await source.read()).readings[0].names


async def test_a_connection_given_up_by_the_other_side_is_no_failure() -> None:
    """A kept connection that was closed meanwhile is replaced, and the question asked again."""

    def once(asked: ReceivedRequest) -> None:
        if asked.connection == 1 and len(server.received) > 1:
            asked.reply.close()
        else:
            asked.respond(200, BODY)

    async with fake_prometheus(once) as (source, server):
        await source.read()
        assert ("a",) == (await source.read()).readings[0].names
    assert 2 == server.connections


async def test_s19_a_redirect_takes_nothing_elsewhere(tmp_path: Path) -> None:
    """Neither a question nor a token arrives at the host that a redirect points to."""
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


async def test_a_token_is_read_again_for_each_question(tmp_path: Path) -> None:
    """Tokens are replaced under a running process."""
    token = tmp_path / "token"
    async with fake_prometheus(respond_with(BODY), bearer_token_file=str(token)) as (source, server):
        for text in ("one\n", "two"):
            token.write_text(text)
            await source.read()
    assert ["Bearer one", "Bearer two"] == [asked.headers["authorization"] for asked in server.received]


async def test_a_password_travels_as_basic_auth(tmp_path: Path) -> None:
    """Name and password of the file, as HTTP wants them."""
    (tmp_path / "password").write_text("geheim\n")
    auth = BasicAuth("scheduler", str(tmp_path / "password"))
    async with fake_prometheus(respond_with(BODY), basic_auth=auth) as (source, server):
        await source.read()
    assert f"Basic {base64.b64encode(b'scheduler:geheim').decode()}" == server.received[0].headers["authorization"]


@pytest.mark.parametrize(
    "content", [None, "", f"{CANARY}\nX-Evil: 1", f"{CANARY}\r\n\r\nGET /", f"{CANARY}ä", f"{CANARY}\0"]
)
async def test_a_token_that_cannot_be_sent_is_told_without_it(content: str | None, tmp_path: Path) -> None:
    """An absent, empty or broken file is named; what stands in it is not."""
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    error = await failure(respond_with(BODY), bearer_token_file=str(token))
    assert str(token) in str(error) and CANARY not in str(error)


async def test_s22_no_failure_carries_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the message nor what it was caused by, nor any log line at any level, holds the secret."""
    caplog.set_level(logging.DEBUG)
    token = tmp_path / "token"
    token.write_text(CANARY)
    for behave in (
        respond_with(b"no", 401),
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
def test_s20_addresses_that_nobody_should_ask(url: str) -> None:
    """Refused before anything is asked, with the reason and without the password."""
    with pytest.raises(SourceError, match="address of source 'p'") as caught:
        PrometheusClient(PrometheusSettings("p", url))
    assert "geheim" not in str(caught.value)


def test_an_address_may_be_allowed_expressly() -> None:
    """Who runs a Prometheus on a link-local address can say so."""
    PrometheusClient(PrometheusSettings("p", "http://169.254.20.10:9090", allow_addresses=("169.254.20.10/32",)))


class FakeResolver(AbstractResolver):
    """Says of every name what it was told to; without an address, that nobody knows it."""

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
        """Nothing is held."""


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fe80::1%2", "224.0.0.1", "::ffff:169.254.169.254", "fd00:ec2::254"]
)
async def test_a_name_may_not_lead_off_limits(address: str) -> None:
    """What a name resolves to is checked at the moment of connecting, and one bad address among good ones is enough."""
    with pytest.raises(AddressBlocked, match="allowAddresses"):
        await GuardedResolver((), FakeResolver("10.0.0.1", address)).resolve("prometheus", 9090)


async def test_a_refused_name_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names host, address and remedy."""
    resolver = FakeResolver("169.254.169.254")
    monkeypatch.setattr("trimtab.sources.prometheus.ssrf_guard.ThreadedResolver", lambda: resolver)
    with pytest.raises(SourceError, match=r"prometheus.example leads to 169\.254\.169\.254.*allowAddresses"):
        await asked_once(PrometheusSettings("p", "http://prometheus.example:9090"))


def trusting(tmp_path: Path, **more: Any) -> Tls:
    """Settings that believe the tests' authority."""
    (tmp_path / "ca.pem").write_bytes(certificates.authority_pem())
    return Tls(ca_file=str(tmp_path / "ca.pem"), **more)


async def secured(tls: Tls, name: str = "localhost") -> bytes:
    """An answer over TLS from a server with a certificate for that name."""
    async with serving(respond_with(BODY), certificates.server_context(name)) as server:
        return await asked_once(PrometheusSettings("p", f"https://localhost:{server.port}", tls=tls))


async def test_tls_believes_the_authority_that_is_named(tmp_path: Path) -> None:
    """With its authority in caFile a server is believed; without, or under another name, it is not."""
    assert BODY == await secured(trusting(tmp_path))
    assert BODY == await secured(trusting(tmp_path, server_name="prom.example"), "prom.example")
    assert BODY == await secured(Tls(insecure_skip_verify=True), "prom.example")
    for tls, name, remedy in ((Tls(), "localhost", "caFile"), (trusting(tmp_path), "prom.example", "tls.serverName")):
        with pytest.raises(SourceError, match=rf"not trusted.*{remedy}"):
            await secured(tls, name)


async def test_an_expired_certificate_is_to_be_renewed(tmp_path: Path) -> None:
    """Another authority would not help."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old = datetime(2021, 1, 1, tzinfo=UTC)
    certificates.authority().issue_cert("localhost", not_before=old, not_after=old + timedelta(1)).configure_cert(
        context
    )
    async with serving(respond_with(BODY), context) as server:
        with pytest.raises(SourceError, match=r"not trusted: certificate has expired: renew it"):
            await asked_once(PrometheusSettings("p", f"https://localhost:{server.port}", tls=trusting(tmp_path)))


async def test_a_scheme_that_is_the_other_one_is_told() -> None:
    """TLS to a plain port is no question of trust, and a plain question to a TLS port is none of the query."""

    async def at_once(_: asyncio.StreamReader, reply: asyncio.StreamWriter) -> None:
        reply.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reply.drain()
        reply.close()

    async with await asyncio.start_server(at_once, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SourceError, match=r"no agreement on TLS with 127.0.0.1:\d+ \(.*\): write http://"):
            await asked_once(PrometheusSettings("p", f"https://127.0.0.1:{port}"))
    plain = await failure(lambda asked: asked.respond(400, b"Client sent an HTTP request to an HTTPS server.\n"))
    assert "the answer is HTTP 400: write https:// if it speaks TLS" == str(plain)


async def test_a_name_that_nobody_knows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is spelt wrong more often than DNS is down, but either passes."""
    monkeypatch.setattr("trimtab.sources.prometheus.ssrf_guard.ThreadedResolver", FakeResolver)
    with pytest.raises(SourceError, match=r"nobody knows the name of prometheus\.invalid:9090: .*spelt") as caught:
        await asked_once(PrometheusSettings("p", "http://prometheus.invalid:9090"))
    assert caught.value.transient


async def test_tls_shows_the_certificate_that_is_named(tmp_path: Path) -> None:
    """A server that insists on a client certificate is shown ours, and a new one once the file has changed."""
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
async def test_tls_files_that_are_none_are_named(field: str, tmp_path: Path) -> None:
    """A file that is missing or no PEM is told by its path."""
    for content in (None, b"no pem"):
        path = tmp_path / f"{field}-{content is None}"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SourceError, match=str(path)):
            await secured(Tls(**{field: str(path)}))
