"""Limits of a port: how many connections, how long a client may take, how large a request may be."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import trustme

from tests.serve.secure_server import ANY, Files, connect, serving, trusting
from trimtab.serve import listener
from trimtab.serve.listener import ConnectionRate, listen
from trimtab.serve.options import Address
from trimtab.serve.tls import ServerTls

REQUEST = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
LIMIT = 8


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with serving(None, LIMIT) as port:
        yield port


async def opened(port: int, first: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(first)
    return reader, writer


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The status line; empty if the server closed the connection."""
    try:
        async with asyncio.timeout(30):
            line = await reader.readline()
            while line and (await reader.readline()).strip():
                pass
            return line.strip()
    except ConnectionError:
        return b""


async def test_idle_connections_make_room(port: int) -> None:
    """Many clients that only connect never keep another one out: the oldest of them is dropped."""
    idle = [await opened(port, b"GET /livez") for _ in range(4 * LIMIT)]
    reader, writer = await opened(port, REQUEST)
    assert b"HTTP/1.1 200 OK" == await answer(reader)
    assert [b""] * LIMIT == [await answer(each) for each, _ in idle[:LIMIT]]
    for _, each in [*idle, (reader, writer)]:
        each.close()


async def test_a_greedy_host_loses_its_own_connections(port: int) -> None:
    """One connection of another host stays, although it is the oldest and waits."""
    modest = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
    greedy = [await opened(port, b"GET /livez") for _ in range(4 * LIMIT)]
    assert b"" == await answer(greedy[0][0])
    modest[1].write(REQUEST)
    assert b"HTTP/1.1 200 OK" == await answer(modest[0])
    for _, each in [*greedy, modest]:
        each.close()


async def test_a_client_that_sends_nothing_is_dropped(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time for a handshake and a request's head; one that has asked is not."""
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.0)
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.2)
    asked, kept = await opened(port, REQUEST)
    assert b"HTTP/1.1 200 OK" == await answer(asked)
    silent, closed = await opened(port, b"GET /livez HTTP/1.1\r\nHost:")
    assert b"" == await answer(silent)
    kept.write(REQUEST)
    assert b"ok" in await asked.readuntil(b"ok") and b"HTTP/1.1 200 OK" == await answer(asked)
    for each in (kept, closed):
        each.close()


async def test_a_client_that_starts_no_handshake_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the secure port, too; one that has is served before and after. It connects first, with the usual time for that."""
    authority = trustme.CA()
    tls = ServerTls(Files.issue(tmp_path, authority).options, "127.0.0.1", lambda: b"", lambda: 0.0)
    async with serving(tls, LIMIT) as port:
        good, kept = await asyncio.open_connection("localhost", port, ssl=trusting(authority))
        kept.write(REQUEST)
        assert b"HTTP/1.1 200 OK" == await answer(good)
        monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)
        silent, writer = await opened(port)
        noise, other = await opened(port, REQUEST)
        assert (b"", True) == (await answer(silent), (await answer(noise))[:8] != b"HTTP/1.1")
        kept.write(REQUEST)
        assert b"ok" in await good.readuntil(b"ok") and b"HTTP/1.1 200 OK" == await answer(good)
        for each in (kept, writer, other):
            each.close()


async def test_a_failure_does_not_end_the_port(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that cannot be set up, or a sweep that fails, costs a line in the log, and the next client is served."""
    swept = asyncio.Event()

    def sweep(connections: object) -> None:
        swept.set()
        raise ValueError("no sweep")

    with monkeypatch.context() as failing:
        failing.setattr(listener, "BoundedRequests", Mock(side_effect=ValueError("no protocol")))
        reader, lost = await opened(port, REQUEST)
        assert b"" == await answer(reader)
    monkeypatch.setattr(listener, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(listener.Connections, "sweep", sweep)
    for _ in range(2):
        async with asyncio.timeout(30):
            await swept.wait()
        swept.clear()
    reader, served = await opened(port, REQUEST)
    assert b"HTTP/1.1 200 OK" == await answer(reader)
    assert "failed to serve a connection: error=no protocol" in caplog.text
    assert "failed to close idle connections: error=no sweep" in caplog.text
    for each in (lost, served):
        each.close()


async def test_a_host_that_opens_too_many_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the handshake, which is what costs; another host is served."""
    monkeypatch.setattr(listener, "ConnectionRate", lambda: ConnectionRate(per_second=0.001, burst=2.0))
    authority = trustme.CA()
    tls = ServerTls(Files.issue(tmp_path, authority).options, "127.0.0.1", lambda: b"", lambda: 0.0)
    async with serving(tls) as port:
        for _ in range(2):
            assert "server" == (await connect(port, trusting(authority))).common_name
        with pytest.raises(OSError):
            await connect(port, trusting(authority))
        assert "server" == (await connect(port, trusting(authority), "127.0.0.2")).common_name


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: x",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9000,
        b"GET /livez HTTP/1.1\r\nHost: x" + b"".join(b"\r\nX-%d: x" % n for n in range(200)),
        b"GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6",
        b"nonsense",
    ],
)
async def test_requests_that_are_too_large_or_ambiguous(
    port: int, head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """400 without a word about it or about us, nothing in the log, and the connection is closed."""
    reader, writer = await opened(port, head + b"\r\n\r\n")
    said = await reader.read()
    assert b" 400 Bad Request\r\n" in said and said.endswith(b"\r\n\r\nBad Request")
    assert b"aiohttp" not in said and [] == caplog.records
    writer.close()
    reader, writer = await opened(port, REQUEST)
    assert b"HTTP/1.1 200 OK" == await answer(reader)
    writer.close()


async def test_a_body_is_not_read(port: int) -> None:
    """A client that sends one without end is answered, and then dropped."""
    reader, writer = await opened(port, REQUEST[:-2] + b"Content-Length: 1000000000\r\n\r\n" + b"x" * 1000)
    assert b"HTTP/1.1 200 OK" == await answer(reader)
    writer.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_all_interfaces(host: str) -> None:
    """Both families where the machine has both."""
    with listen(ANY._replace(host=host)) as made:
        port = made.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            assert port == client.getpeername()[1]


def test_all_interfaces_of_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel has it switched off, IPv4 alone is served."""
    create = socket.create_server

    def without_ipv6(*args: object, **more: object) -> socket.socket:
        if more["family"] is socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "no")
        return create(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    with listen(ANY._replace(host="0.0.0.0")) as made:
        assert socket.AF_INET == made.family


def test_addresses_as_text() -> None:
    """As a URL has them."""
    assert ("127.0.0.1:1", "[::1]:1") == (str(Address("127.0.0.1", 1, "")), str(Address("::1", 1, "")))


def test_a_burst_and_then_a_rate() -> None:
    """Other hosts have their own; tokens come back with time, up to the burst."""
    rate = ConnectionRate(per_second=2.0, burst=3.0)
    assert [True] * 3 + [False] * 2 == [rate.allows("a", 0.0) for _ in range(5)]
    assert rate.allows("b", 0.0)
    assert [True, False] == [rate.allows("a", 0.5) for _ in range(2)]
    assert [True] * 3 + [False] == [rate.allows("a", 100.0) for _ in range(4)]


def test_hosts_are_forgotten() -> None:
    """When there are many, those with full buckets go; one that is out of tokens is not forgiven."""
    rate = ConnectionRate(per_second=1.0, burst=1.0)
    for number in range(listener.MAX_HOSTS):
        rate.allows(f"old-{number}", 0.0)
    assert rate.allows("new", 10.0) and not rate.allows("new", 10.0)
    assert 1 == len(rate._buckets)
