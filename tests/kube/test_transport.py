"""Decides whether each way of failing is told apart, and whether secrets stay where they belong."""

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
from tests.kube.fault_server import Asked, Behaviour, FaultServer, serving
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import Cluster, User
from trimtab.kube.limiter import Limiter
from trimtab.kube.transport import LARGEST_LINE, AiohttpTransport, Silent, Unreachable
from trimtab.wire.request import JSON, Request

GET = Request("GET", "/api/v1/pods?labelSelector=a%2Fb")
POST = Request("POST", "/api/v1/namespaces/x/pods/y/binding", b'{"a":1}', JSON)


@asynccontextmanager
async def speaking(behave: Behaviour, **more: Any) -> AsyncIterator[tuple[FaultServer, AiohttpTransport]]:
    async with serving(behave) as server, AiohttpTransport(server.credentials(), **more) as transport:
        yield server, transport


async def test_a_request_arrives_as_it_was_built() -> None:
    """Method, path, query, body, type, token and encoding are what was asked for."""
    async with speaking(lambda asked: asked.answer(201, b"done", "X-Y: z")) as (server, transport):
        response = await transport.send(POST, 5.0)
        await transport.send(GET, 5.0)
    assert (201, "z", b"done") == (response.status, response.headers["x-y"], response.body)
    post, get = server.asked
    assert "POST /api/v1/namespaces/x/pods/y/binding HTTP/1.1" == post.line
    assert (b'{"a":1}', JSON) == (post.body, post.headers["content-type"])
    assert ("Bearer canary-token", "identity") == (post.headers["authorization"], post.headers["accept-encoding"])
    assert "GET /api/v1/pods?labelSelector=a%2Fb HTTP/1.1" == get.line
    assert post.connection == get.connection


async def test_a_server_below_a_path() -> None:
    """Where the API server lies below a path of its host, that path comes first."""
    async with serving(lambda asked: asked.answer(200)) as server:
        credentials = server.credentials()
        credentials.server += "/k8s/clusters/c-1"
        async with AiohttpTransport(credentials) as transport:
            await transport.send(GET, 5.0)
    assert server.asked[0].line.startswith("GET /k8s/clusters/c-1/api/v1/pods?")


async def test_the_pool_is_bounded_and_reused() -> None:
    """Twelve requests at once over four connections open four connections."""

    async def slowly(asked: Asked) -> None:
        await asyncio.sleep(0.01)
        asked.answer(200)

    async with speaking(slowly, connections=4) as (server, transport):
        await asyncio.gather(*(transport.send(POST, 5.0) for _ in range(12)))
    assert (4, 12) == (server.connections, len(server.asked))


async def test_nobody_listens() -> None:
    """A refused connection has certainly not delivered anything."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with serving(lambda asked: None) as server:
        credentials = server.credentials()
    credentials.server = f"http://127.0.0.1:{port}"
    async with AiohttpTransport(credentials) as transport:
        with pytest.raises(Unreachable, match=rf"^no connection to 127\.0\.0\.1:{port}: .*refused") as failure:
            await transport.send(POST, 5.0)
    assert failure.value.sent is False


async def test_an_untrusted_server_gets_nothing() -> None:
    """A server of another authority never sees the request, nor the token."""
    tls = certificates.server_context(issuer=certificates.other_authority())
    async with serving(lambda asked: asked.answer(200), tls) as server:
        path = {"certificate_authority_data": _base64(certificates.authority_pem())}
        async with AiohttpTransport(server.credentials(**path)) as transport:
            with pytest.raises(Unreachable, match="is not trusted: .*certificate verify failed") as failure:
                await transport.send(POST, 5.0)
    assert failure.value.sent is False
    assert [] == server.asked


@pytest.mark.parametrize("name", ["localhost", "inner.example"])
async def test_tls_by_the_name_that_the_kubeconfig_gives(name: str) -> None:
    """tls-server-name replaces the host's name in the handshake."""
    authority = _base64(certificates.authority_pem())
    async with serving(lambda asked: asked.answer(200), certificates.server_context(name)) as server:
        credentials = server.credentials(certificate_authority_data=authority, tls_server_name=name)
        async with AiohttpTransport(credentials) as transport:
            assert 200 == (await transport.send(GET, 5.0)).status


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def _cut(asked: Asked) -> None:
    asked.reply.close()


async def _half(asked: Asked) -> None:
    asked.reply.write(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\nhalf")
    asked.reply.close()


async def _never(asked: Asked) -> None:
    await asyncio.sleep(60)


async def _nonsense(asked: Asked) -> None:
    asked.reply.write(b"\x15\x03 what is this\r\n\r\n")
    asked.reply.close()


@pytest.mark.parametrize("behave", [_cut, _half, _never, _nonsense])
async def test_a_lost_answer_leaves_it_open(behave: Behaviour) -> None:
    """After the request went out, a cut, a half answer, silence and nonsense all leave open whether it took effect."""
    async with speaking(behave) as (server, transport):
        with pytest.raises(Unreachable) as failure:
            await transport.send(POST, 0.3)
    assert failure.value.sent is True
    assert 1 == len(server.asked)


async def test_redirects_are_not_followed() -> None:
    """Neither the request nor the token goes to another host."""
    async with serving(lambda asked: asked.answer(200)) as elsewhere:
        target = f"Location: http://127.0.0.1:{elsewhere.port}/"
        async with speaking(lambda asked: asked.answer(307, b"", target)) as (_, transport):
            assert 307 == (await transport.send(POST, 5.0)).status
    assert [] == elsewhere.asked


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_oversized_answer_is_cut_off(chunked: bool) -> None:
    """More bytes than allowed are not read, announced or not; as many as allowed are."""

    def large(asked: Asked) -> None:
        if chunked:
            asked.begin()
            for _ in range(10):
                asked.chunk(b"x" * 1000)
            asked.chunk(b"")
        else:
            asked.answer(200, b"x" * 10_000)

    async with speaking(large) as (_, transport):
        assert 10_000 == len((await transport.send(GET, 5.0, largest=10_000)).body)
        with pytest.raises(Unreachable, match="larger than 9999 bytes"):
            await transport.send(GET, 5.0, largest=9_999)


async def test_a_refused_token_is_read_again(tmp_path: Path) -> None:
    """After a 401 the rotated token is used at once; the caller never learns of it."""
    path = tmp_path / "token"
    path.write_text("old")

    def judge(asked: Asked) -> None:
        asked.answer(200 if asked.headers["authorization"] == "Bearer new" else 401)

    async with serving(judge) as server:
        cluster, times = Cluster(server=f"http://localhost:{server.port}"), iter([0.0, 0.0, 6.0])
        credentials = Credentials(cluster, User(token_file=str(path)), "test", times.__next__)
        path.write_text("new")
        async with AiohttpTransport(credentials) as transport:
            assert 200 == (await transport.send(POST, 5.0)).status
    assert ["Bearer old", "Bearer new"] == [asked.headers["authorization"] for asked in server.asked]


async def test_a_refused_certificate_is_shown_no_more(tmp_path: Path) -> None:
    """After a 401 and with a new certificate at hand, the old connection is not used again."""
    old, new = certificates.client("old"), certificates.client("new")
    for name, content in (("ca", certificates.authority_pem()), ("cert", old.certificate), ("key", old.key)):
        (tmp_path / name).write_bytes(content)
    user = User(client_certificate=str(tmp_path / "cert"), client_key=str(tmp_path / "key"))

    def judge(asked: Asked) -> None:
        shown = asked.reply.get_extra_info("ssl_object").getpeercert(binary_form=True)
        asked.answer(200 if shown == certificates.der(new.certificate) else 401)

    async with serving(judge, certificates.server_context()) as server:
        cluster = Cluster(server=f"https://localhost:{server.port}", certificate_authority=str(tmp_path / "ca"))
        credentials = Credentials(cluster, user, "test", iter([0.0, 0.0, 6.0]).__next__)
        for name, content in (("cert", new.certificate), ("key", new.key)):
            (tmp_path / name).write_bytes(content)
        async with AiohttpTransport(credentials) as transport:
            assert 200 == (await transport.send(POST, 5.0)).status
    assert [1, 2] == [asked.connection for asked in server.asked]


async def test_a_token_that_stays_refused_is_tried_twice() -> None:
    """There is no third try: the 401 is the answer."""
    async with speaking(lambda asked: asked.answer(401, b"no")) as (server, transport):
        response = await transport.send(POST, 5.0)
    assert (401, b"no", 2) == (response.status, response.body, len(server.asked))


async def test_secrets_are_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """At the highest verbosity, neither logs nor failures show the token."""
    caplog.set_level(logging.DEBUG)
    async with speaking(_cut) as (server, transport):
        with pytest.raises(Unreachable) as failure:
            await transport.send(POST, 5.0)
    assert "canary-token" in server.asked[0].headers["authorization"]
    assert "canary-token" not in caplog.text + repr(failure.value) + str(failure.value)
    assert failure.value.__cause__ is None and failure.value.__suppress_context__


async def test_the_limiter_is_asked() -> None:
    """With a rate set, each request waits for its turn."""
    async with speaking(lambda asked: asked.answer(200), limiter=Limiter(20.0, 1)) as (_, transport):
        loop = asyncio.get_running_loop()
        start = loop.time()
        for _ in range(3):
            await transport.send(GET, 5.0)
        assert 0.1 <= loop.time() - start


async def _lines(behave: Behaviour, silence: float = 5.0) -> tuple[list[list[bytes]], Exception | None]:
    batches: list[list[bytes]] = []
    async with speaking(behave) as (_, transport):
        try:
            async with transport.stream(GET, silence) as stream:
                async for batch in stream.lines():
                    batches += [batch]
        except Unreachable as failure:
            return batches, failure
    return batches, None


async def test_lines_are_whole_however_they_are_cut() -> None:
    """A line may arrive in many chunks and a chunk may hold many lines; blank ones are no lines."""

    async def cut(asked: Asked) -> None:
        asked.begin()
        for piece in (b"on", b"e\ntwo\n\nth", b"", b"ree\n", b"rest"):
            if piece:
                asked.chunk(piece)
                await asked.reply.drain()
                await asyncio.sleep(0.01)
        asked.chunk(b"")

    batches, failure = await _lines(cut)
    assert [b"one", b"two", b"three"] == [line for batch in batches for line in batch]
    assert failure is None


async def test_a_zero_length_chunk_ends_a_stream() -> None:
    """The server ends slow watches so, and leaves the socket open: a normal end, noticed at once."""

    async def end(asked: Asked) -> None:
        asked.begin()
        asked.chunk(b"one\n")
        asked.chunk(b"")
        await asyncio.sleep(60)

    assert ([[b"one"]], None) == await asyncio.wait_for(_lines(end), 10)


async def test_a_silent_stream_is_noticed() -> None:
    """A connection that stays open and brings nothing is Silent after the time allowed; what came before counts."""

    async def silent(asked: Asked) -> None:
        asked.begin()
        asked.chunk(b"one\n")
        await asyncio.sleep(60)

    batches, failure = await _lines(silent, silence=0.2)
    assert [[b"one"]] == batches
    assert isinstance(failure, Silent)


async def test_a_server_that_never_begins_is_silent() -> None:
    """No head of an answer within the time allowed is silence, too."""
    assert isinstance((await _lines(_never, silence=0.2))[1], Silent)


async def test_a_cut_stream_is_told_from_an_ended_one() -> None:
    """A connection that breaks in the middle is a failure."""

    async def cut(asked: Asked) -> None:
        asked.begin()
        asked.chunk(b"one\ntw")
        await asked.reply.drain()
        asked.reply.close()

    batches, failure = await _lines(cut)
    assert [[b"one"]] == batches
    assert failure is not None and not isinstance(failure, Silent)


async def test_a_long_line_is_read_and_an_endless_one_is_not() -> None:
    """Three megabytes are a legal object; a line without end is cut off."""

    async def long(asked: Asked) -> None:
        asked.begin()
        asked.chunk(b"x" * 3_000_000 + b"\n")
        for _ in range(LARGEST_LINE // 1_000_000 + 1):
            asked.chunk(b"y" * 1_000_000)
            await asked.reply.drain()

    batches, failure = await _lines(long)
    assert 3_000_000 == len(batches[0][0])
    assert "a line is longer than" in str(failure)


async def test_a_stream_can_be_closed_from_outside() -> None:
    """Whoever waits for lines of a stream that is closed is told so at once."""

    async def open_ended(asked: Asked) -> None:
        asked.begin()
        asked.chunk(b"one\n")
        await asyncio.sleep(60)

    async with speaking(open_ended) as (_, transport), transport.stream(GET, 60.0) as stream:
        lines = stream.lines()
        assert [b"one"] == await anext(lines)
        asyncio.get_running_loop().call_later(0.05, stream.close)
        with pytest.raises(Unreachable):
            await asyncio.wait_for(anext(lines), 5)


async def test_the_body_of_a_refused_stream() -> None:
    """A stream that turns out to be an error gives its body and headers."""

    def busy(asked: Asked) -> None:
        asked.answer(429, b"busy", "Retry-After: 1")

    async with speaking(busy) as (_, transport), transport.stream(GET, 5.0) as stream:
        answer = stream.status, stream.headers["retry-after"], await stream.body()
    assert (429, "1", b"busy") == answer
