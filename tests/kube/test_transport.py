"""Each way of failing is told apart, and secrets are not leaked."""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kube import certificates
from tests.kube.fault_server import Behaviour, FaultServer, ReceivedRequest, cut, half, never, nonsense, serving
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.auth import AuthState
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig
from trimtab.kube.transport import AiohttpTransport, PooledTransport, RateLimiter, Unreachable
from trimtab.wire.requests import JSON, Request

GET = Request("GET", "/api/v1/pods?labelSelector=a%2Fb")
POST = Request("POST", "/api/v1/namespaces/x/pods/y/binding", b'{"a":1}', JSON)


Way: type[AiohttpTransport] = AiohttpTransport


@pytest.fixture(autouse=True, params=[AiohttpTransport, PooledTransport])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test of this file holds for both implementations."""
    monkeypatch.setitem(globals(), "Way", request.param)


@asynccontextmanager
async def speaking(behave: Behaviour, **more: Any) -> AsyncIterator[tuple[FaultServer, AiohttpTransport]]:
    async with serving(behave) as server, Way(server.credentials(), **more) as transport:
        yield server, transport


async def test_a_request_arrives_as_it_was_built() -> None:
    """Method, path, query, body, type, token and encoding are those of the request."""
    async with speaking(lambda received: received.respond(201, b"done", "X-Y: z")) as (server, transport):
        response = await transport.send(POST, 5.0)
        await transport.send(GET, 5.0)
        await transport.send(POST, 5.0)
    assert (201, "z", b"done") == (response.status, response.headers["x-y"], response.body)
    post, get, again = server.received
    assert "POST /api/v1/namespaces/x/pods/y/binding HTTP/1.1" == post.line
    assert (b'{"a":1}', JSON) == (post.body, post.headers["content-type"])
    assert ("Bearer canary-token", "identity") == (post.headers["authorization"], post.headers["accept-encoding"])
    assert "GET /api/v1/pods?labelSelector=a%2Fb HTTP/1.1" == get.line
    assert post.connection == again.connection


async def test_a_server_below_a_path() -> None:
    """Where the API server lies below a path of its host, that path comes first."""
    async with serving(lambda received: received.respond(200)) as server:
        credentials = server.credentials()
        credentials.server += "/k8s/clusters/c-1"
        async with Way(credentials) as transport:
            await transport.send(GET, 5.0)
    assert server.received[0].line.startswith("GET /k8s/clusters/c-1/api/v1/pods?")


async def test_the_pool_is_bounded_and_reused() -> None:
    """Twelve requests at once over four connections open four connections."""

    async def slowly(received: ReceivedRequest) -> None:
        await asyncio.sleep(0.01)
        received.respond(200)

    async with speaking(slowly, connections=4) as (server, transport):
        await asyncio.gather(*(transport.send(POST, 5.0) for _ in range(12)))
    assert (4, 12) == (server.connections, len(server.received))


async def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    """Neither after `Connection: close` nor after the server has closed it in between."""

    def closing(received: ReceivedRequest) -> None:
        received.respond(201, b"done", "Connection: close")

    async def closing_later(received: ReceivedRequest) -> None:
        received.respond(201, b"done")
        await received.reply.drain()
        received.reply.close()

    for behave in (closing, closing_later):
        async with speaking(behave) as (server, transport):
            for _ in range(3):
                assert 201 == (await transport.send(POST, 5.0)).status
                await asyncio.sleep(0.02)
        assert [1, 2, 3] == [received.connection for received in server.received]


async def test_a_full_pool_is_not_waited_for_without_end() -> None:
    """A request that found no connection in time has certainly not been sent."""
    async with speaking(never, connections=1) as (server, transport):
        first = asyncio.create_task(transport.send(POST, 2.0))
        await server.first_received.wait()
        with pytest.raises(Unreachable) as failure:
            await transport.send(POST, 0.1)
        assert failure.value.sent is False
        with pytest.raises(Unreachable) as failure:
            await first
        assert failure.value.sent is True
    assert 1 == len(server.received)


async def test_a_cancelled_request_leaves_no_stray_answer() -> None:
    """The answer to a request that was given up is never taken for the answer to the next one."""

    async def late(received: ReceivedRequest) -> None:
        await asyncio.sleep(0.1 if received.body == b"first" else 0.0)
        received.respond(200, b"to " + received.body)

    async with speaking(late, connections=1) as (server, transport):
        first = asyncio.create_task(transport.send(Request("POST", "/", b"first", JSON), 5.0))
        await server.first_received.wait()
        first.cancel()
        second = await transport.send(Request("POST", "/", b"second", JSON), 5.0)
        assert b"to second" == second.body
        await asyncio.sleep(0.1)
        assert b"to third" == (await transport.send(Request("POST", "/", b"third", JSON), 5.0)).body


async def test_closing_ends_what_is_under_way() -> None:
    """After close nothing stays open, and pending requests end with an unknown outcome."""
    async with speaking(never) as (server, transport):
        waiting = asyncio.create_task(transport.send(POST, 60.0))
        await server.first_received.wait()
        await transport.close()
        with pytest.raises(Unreachable) as failure:
            await waiting
    assert failure.value.sent is True


async def test_closing_ends_a_connection_that_is_not_yet_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose server's address is still looked up ends with Unreachable too, and a cancelled one as cancelled."""

    async def no_answer(*arguments: object, **more: object) -> None:
        await asyncio.sleep(60)

    async with speaking(never) as (server, transport):
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", no_answer)
        waiting, cancelled = (asyncio.create_task(transport.send(GET, 60.0)) for _ in range(2))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        await transport.close()
        with pytest.raises(Unreachable, match="closed"):
            await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    assert [] == server.received


async def test_nobody_listens() -> None:
    """A refused connection has certainly not delivered anything."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with serving(lambda received: None) as server:
        credentials = server.credentials()
    credentials.server = f"http://127.0.0.1:{port}"
    async with Way(credentials) as transport:
        with pytest.raises(Unreachable, match=rf"^no connection to 127\.0\.0\.1:{port}: .*refused") as failure:
            await transport.send(POST, 5.0)
    assert failure.value.sent is False
    assert {("POST", "<error>"): 1} == transport.requests


async def test_an_untrusted_server_gets_nothing() -> None:
    """A server of another authority never sees the request, nor the token."""
    tls = certificates.server_context(issuer=certificates.other_authority())
    async with serving(lambda received: received.respond(200), tls) as server:
        path = {"certificate_authority_data": _base64(certificates.authority_pem())}
        async with Way(server.credentials(**path)) as transport:
            with pytest.raises(Unreachable, match=r"is not trusted: .*certificate verify failed") as failure:
                await transport.send(POST, 5.0)
    assert failure.value.sent is False
    assert [] == server.received


@pytest.mark.parametrize("name", ["localhost", "inner.example"])
async def test_tls_by_the_name_that_the_kubeconfig_gives(name: str) -> None:
    """tls-server-name replaces the host's name in the handshake."""
    authority = _base64(certificates.authority_pem())
    async with serving(lambda received: received.respond(200), certificates.server_context(name)) as server:
        credentials = server.credentials(certificate_authority_data=authority, tls_server_name=name)
        async with Way(credentials) as transport:
            assert 200 == (await transport.send(GET, 5.0)).status


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("behave", [cut, half, never, nonsense])
async def test_a_lost_answer_leaves_it_open(behave: Behaviour) -> None:
    """After the request went out, a cut, half a response, no response and garbage all leave open whether it took effect."""
    async with speaking(behave) as (server, transport):
        with pytest.raises(Unreachable) as failure:
            await transport.send(POST, 3.0)
    assert failure.value.sent is True
    assert 1 == len(server.received)


async def test_redirects_are_not_followed() -> None:
    """Neither the request nor the token goes to another host."""
    async with serving(lambda received: received.respond(200)) as elsewhere:
        target = f"Location: http://127.0.0.1:{elsewhere.port}/"
        async with speaking(lambda received: received.respond(307, b"", target)) as (_, transport):
            assert 307 == (await transport.send(POST, 5.0)).status
    assert [] == elsewhere.received


@pytest.mark.parametrize("request_", [GET, POST])
@pytest.mark.parametrize("chunked", [False, True])
async def test_an_oversized_answer_is_cut_off(chunked: bool, request_: Request) -> None:
    """More bytes than allowed are not read, announced or not; as many as allowed are."""

    def large(received: ReceivedRequest) -> None:
        if chunked:
            received.start_stream()
            for _ in range(10):
                received.chunk(b"x" * 1000)
            received.chunk(b"")
        else:
            received.respond(200, b"x" * 10_000)

    async with speaking(large) as (_, transport):
        assert 10_000 == len((await transport.send(request_, 5.0, max_bytes=10_000)).body)
        with pytest.raises(Unreachable, match="larger than 9999 bytes"):
            await transport.send(request_, 5.0, max_bytes=9_999)


async def test_a_refused_token_is_read_again(tmp_path: Path) -> None:
    """After a 401 the rotated token is used at once; the caller never learns of it."""
    path = tmp_path / "token"
    path.write_text("old")

    def judge(received: ReceivedRequest) -> None:
        received.respond(200 if received.headers["authorization"] == "Bearer new" else 401)

    async with serving(judge) as server:
        cluster, times = ClusterConfig(server=f"http://localhost:{server.port}"), iter([0.0, 0.0, 6.0])
        credentials = Credentials(cluster, UserConfig(token_file=str(path)), "test", times.__next__)
        path.write_text("new")
        async with Way(credentials) as transport:
            assert 200 == (await transport.send(POST, 5.0)).status
    assert ["Bearer old", "Bearer new"] == [received.headers["authorization"] for received in server.received]


async def test_a_refused_certificate_is_shown_no_more(tmp_path: Path) -> None:
    """After a 401 and with a new certificate at hand, the old connection is not used again."""
    old, new = certificates.client("old"), certificates.client("new")
    for name, content in (("ca", certificates.authority_pem()), ("cert", old.certificate), ("key", old.key)):
        (tmp_path / name).write_bytes(content)
    user = UserConfig(client_certificate=str(tmp_path / "cert"), client_key=str(tmp_path / "key"))

    def judge(received: ReceivedRequest) -> None:
        shown = received.reply.get_extra_info("ssl_object").getpeercert(binary_form=True)
        received.respond(200 if shown == certificates.der(new.certificate) else 401)

    async with serving(judge, certificates.server_context()) as server:
        cluster = ClusterConfig(server=f"https://localhost:{server.port}", certificate_authority=str(tmp_path / "ca"))
        credentials = Credentials(cluster, user, "test", iter([0.0, 0.0, 6.0]).__next__)
        for name, content in (("cert", new.certificate), ("key", new.key)):
            (tmp_path / name).write_bytes(content)
        async with Way(credentials) as transport:
            assert 200 == (await transport.send(POST, 5.0)).status
    assert [1, 2] == [received.connection for received in server.received]


async def test_a_token_that_stays_refused_is_tried_twice() -> None:
    """There is no third try: the 401 is the answer."""
    async with speaking(lambda received: received.respond(401, b"no")) as (server, transport):
        response = await transport.send(POST, 5.0)
    assert (401, b"no", 2) == (response.status, response.body, len(server.received))


async def test_credentials_that_no_header_can_hold() -> None:
    """A request that cannot be encoded is reported as not sent, without its characters; nothing else goes wrong."""
    async with serving(lambda received: received.respond(200)) as server:
        credentials = server.credentials()

        async def auth_state(unauthorized: bool = False) -> AuthState:
            return AuthState({"Authorization": "canary\r\n"}, None)

        credentials.auth_state = auth_state  # type: ignore[method-assign]
        async with Way(credentials) as transport:
            for request in (GET, POST):
                with pytest.raises(Unreachable) as failure:
                    await transport.send(request, 5.0)
                assert failure.value.sent is False
                assert "canary" not in str(failure.value)
    assert [] == server.received


async def test_secrets_are_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """At the highest verbosity, neither logs nor failures show the token."""
    caplog.set_level(logging.DEBUG)
    async with speaking(cut) as (server, transport):
        with pytest.raises(Unreachable) as failure:
            await transport.send(POST, 5.0)
    assert "canary-token" in server.received[0].headers["authorization"]
    assert "canary-token" not in caplog.text + repr(failure.value) + str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__context__ is None or failure.value.__suppress_context__


async def test_the_rate_limiter_is_used() -> None:
    """With a rate set, each request waits for its turn."""
    async with speaking(lambda received: received.respond(200), rate_limiter=RateLimiter(20.0, 1)) as (_, transport):
        loop = asyncio.get_running_loop()
        start = loop.time()
        for _ in range(3):
            await transport.send(GET, 5.0)
        assert 0.1 <= loop.time() - start


@asynccontextmanager
async def with_slow_credentials(
    behave: Behaviour, when_refused: bool
) -> AsyncIterator[tuple[FaultServer, AiohttpTransport]]:
    """A way whose credentials take 0.3 s, each time or only after a 401."""
    async with serving(behave) as server:
        credentials = server.credentials()
        known = await credentials.auth_state()

        async def auth_state(unauthorized: bool = False) -> AuthState:
            await asyncio.sleep(0.3 if unauthorized or not when_refused else 0.0)
            return known

        credentials.auth_state = auth_state  # type: ignore[method-assign]
        async with Way(credentials) as transport:
            yield server, transport


async def sent_until(transport: AiohttpTransport, seconds: float) -> Unreachable:
    """How a write fails that may leave for so long only."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    with pytest.raises(Unreachable) as failure:
        await transport.send(POST, 5.0, may_send=lambda: loop.time() < until)
    return failure.value


@pytest.mark.parametrize("when_refused", [False, True])
async def test_leadership_is_checked_after_the_credentials(when_refused: bool) -> None:
    """Leadership lost while credentials are issued keeps the request, or its second try after a 401, from leaving."""
    async with with_slow_credentials(lambda received: received.respond(401), when_refused) as (server, transport):
        assert (await sent_until(transport, 0.15)).sent is False
    assert int(when_refused) == len(server.received)


async def test_leadership_is_checked_after_the_rate_limiter() -> None:
    """Leadership lost while a request waits for its turn keeps it from leaving."""
    async with speaking(lambda received: received.respond(200), rate_limiter=RateLimiter(5.0, 1)) as (
        server,
        transport,
    ):
        await transport.send(POST, 5.0)
        assert (await sent_until(transport, 0.1)).sent is False
    assert 1 == len(server.received)


@pytest.mark.parametrize("when_refused", [False, True])
async def test_the_timeout_covers_the_credentials(when_refused: bool) -> None:
    """Slow credentials use up the timeout; nothing has been sent, or only what had no effect."""
    async with with_slow_credentials(lambda received: received.respond(401), when_refused) as (server, transport):
        with pytest.raises(Unreachable, match=r"no response within 0\.15 s") as failure:
            await transport.send(POST, 0.15)
    assert failure.value.sent is False
    assert int(when_refused) == len(server.received)


async def test_the_timeout_covers_the_rate_limiter() -> None:
    """A turn that comes too late is not waited for."""
    async with speaking(lambda received: received.respond(200), rate_limiter=RateLimiter(0.1, 1)) as (
        server,
        transport,
    ):
        await transport.send(POST, 5.0)
        with pytest.raises(Unreachable) as failure:
            await transport.send(POST, 0.1)
    assert failure.value.sent is False
    assert 1 == len(server.received)
