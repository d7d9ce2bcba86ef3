"""A stream is read line by line, whichever way it ends."""

from __future__ import annotations

import asyncio

import pytest

from tests.kube.fault_server import Behaviour, ReceivedRequest, serving
from trimtab.kube.transport import AiohttpTransport, IdleTimeout, PooledTransport, Unreachable
from trimtab.kube.transport.aiohttp_transport import MAX_LINE_BYTES
from trimtab.wire.requests import JSON, Request

GET = Request("GET", "/api/v1/pods?watch=1")


async def _never(received: ReceivedRequest) -> None:
    await asyncio.sleep(60)


async def _lines(behave: Behaviour, silence: float = 5.0) -> tuple[list[list[bytes]], Exception | None]:
    batches: list[list[bytes]] = []
    async with serving(behave) as server, AiohttpTransport(server.credentials()) as transport:
        try:
            async with transport.stream(GET, silence) as stream:
                async for batch in stream.lines():
                    batches += [batch]
        except Unreachable as failure:
            return batches, failure
    return batches, None


async def test_lines_are_whole_however_they_are_cut() -> None:
    """A line may arrive in many chunks and a chunk may hold many lines; blank ones are no lines."""

    async def cut(received: ReceivedRequest) -> None:
        received.start_stream()
        for piece in (b"on", b"e\ntwo\n\nth", b"", b"ree\n", b"rest"):
            if piece:
                received.chunk(piece)
                await received.reply.drain()
                await asyncio.sleep(0.01)
        received.chunk(b"")

    batches, failure = await _lines(cut)
    assert [b"one", b"two", b"three"] == [line for batch in batches for line in batch]
    assert failure is None


async def test_a_zero_length_chunk_ends_a_stream() -> None:
    """The server ends slow watches so, and leaves the socket open: a normal end, noticed at once."""

    async def end(received: ReceivedRequest) -> None:
        received.start_stream()
        received.chunk(b"one\n")
        received.chunk(b"")
        await asyncio.sleep(60)

    assert ([[b"one"]], None) == await asyncio.wait_for(_lines(end), 10)


async def test_an_idle_stream_times_out() -> None:
    """A connection that stays open and brings nothing is Silent after the time allowed; what came before counts."""

    async def silent(received: ReceivedRequest) -> None:
        received.start_stream()
        received.chunk(b"one\n")
        await asyncio.sleep(60)

    batches, failure = await _lines(silent, silence=0.2)
    assert [[b"one"]] == batches
    assert isinstance(failure, IdleTimeout)


async def test_a_server_that_never_responds_times_out() -> None:
    """No response head within the idle timeout is an IdleTimeout, too."""
    assert isinstance((await _lines(_never, silence=0.2))[1], IdleTimeout)


async def test_a_cut_stream_differs_from_an_ended_one() -> None:
    """A connection that breaks in the middle is a failure."""

    async def cut(received: ReceivedRequest) -> None:
        received.start_stream()
        received.chunk(b"one\ntw")
        await received.reply.drain()
        received.reply.close()

    batches, failure = await _lines(cut)
    assert [[b"one"]] == batches
    assert failure is not None and not isinstance(failure, IdleTimeout)


async def test_a_long_line_is_read_and_an_endless_one_is_not() -> None:
    """Three megabytes are a legal object; a line without end is cut off."""

    async def long(received: ReceivedRequest) -> None:
        received.start_stream()
        received.chunk(b"x" * 3_000_000 + b"\n")
        for _ in range(MAX_LINE_BYTES // 1_000_000 + 1):
            received.chunk(b"y" * 1_000_000)
            await received.reply.drain()

    batches, failure = await _lines(long)
    assert 3_000_000 == len(batches[0][0])
    assert "a line is longer than" in str(failure)


async def test_a_stream_can_be_closed_from_outside() -> None:
    """A reader of a closed stream gets Unreachable at once."""

    async def open_ended(received: ReceivedRequest) -> None:
        received.start_stream()
        received.chunk(b"one\n")
        await asyncio.sleep(60)

    async with (
        serving(open_ended) as server,
        AiohttpTransport(server.credentials()) as transport,
        transport.stream(GET, 60.0) as stream,
    ):
        lines = stream.lines()
        assert [b"one"] == await anext(lines)
        asyncio.get_running_loop().call_later(0.05, stream.close)
        with pytest.raises(Unreachable):
            await asyncio.wait_for(anext(lines), 5)


async def test_the_body_of_a_refused_stream() -> None:
    """A stream that turns out to be an error gives its body and headers."""

    def busy(received: ReceivedRequest) -> None:
        received.respond(429, b"busy", "Retry-After: 1")

    async with (
        serving(busy) as server,
        AiohttpTransport(server.credentials()) as transport,
        transport.stream(GET, 5.0) as stream,
    ):
        answer = stream.status, stream.headers["retry-after"], await stream.body()
    assert (429, "1", b"busy") == answer


@pytest.mark.parametrize("way", [AiohttpTransport, PooledTransport])
async def test_streams_and_other_requests_are_counted_by_status(way: type[AiohttpTransport]) -> None:
    """Reads, writes and watches, each by method and by the status that it got."""

    def by_method(received: ReceivedRequest) -> None:
        received.respond(200 if received.line.startswith("GET") else 409)

    async with serving(by_method) as server, way(server.credentials()) as transport:
        await transport.send(GET, 5.0)
        await transport.send(Request("POST", "/api/v1/namespaces/x/pods/y/binding", b"{}", JSON), 5.0)
        async with transport.stream(GET, 5.0):
            pass
    assert {("GET", "200"): 2, ("POST", "409"): 1} == transport.requests
