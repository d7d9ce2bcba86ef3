"""Responses are read exactly to their end, and everything doubtful is rejected."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.kube.transport import Unreachable
from trimtab.kube.transport.http_connection import (
    MAX_HEAD_BYTES,
    HttpConnection,
    HttpParseError,
    ParsedResponse,
    parse,
)

CAP = 1_000
PLAIN = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nbody"
CHUNKED = b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2;x=y\r\ndy\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\nRetry-After: 1\r\n\r\n"


def read(data: bytes) -> ParsedResponse:
    answer = parse(data, CAP)
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    ("data", "status", "body"), [(PLAIN, 201, b"body"), (CHUNKED, 409, b"body"), (EMPTY, 204, b"")]
)
def test_answers_are_read(data: bytes, status: int, body: bytes) -> None:
    """By length, in chunks, or without a body; and the connection can be reused."""
    answer = read(data)
    assert (status, body, True) == (answer.response.status, answer.response.body, answer.reusable)


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, EMPTY])
def test_a_part_is_not_an_answer(data: bytes) -> None:
    """However much of an answer has arrived, before its last byte there is none."""
    assert [None] * len(data) == [parse(data[:size], CAP) for size in range(len(data))]


@pytest.mark.parametrize(
    ("error", "text"), [(None, "the server closed the connection"), (ConnectionResetError(), "ConnectionResetError")]
)
async def test_a_lost_connection_has_a_reason(error: Exception | None, text: str) -> None:
    """Also where the system's error has no text."""
    connection = HttpConnection(None)
    connection.connection_made(asyncio.Transport())
    connection._response = response = asyncio.get_running_loop().create_future()
    connection._transport = None
    connection.connection_lost(error)
    with pytest.raises(Unreachable, match=text):
        await response


def test_header_names_are_in_lower_case() -> None:
    """So that lookups find them."""
    assert "1" == read(EMPTY).response.headers["retry-after"]


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.replace(b"1.1 201", b"1.0 201"),
        PLAIN.replace(b"Content-Type", b"Connection: Close\r\nContent-Type"),
        PLAIN + b"HTTP/1.1 200",
    ],
)
def test_some_connections_are_not_reused(data: bytes) -> None:
    """The server closes it, speaks HTTP/1.0, or has sent more than the response."""
    answer = read(data)
    assert (b"body", False) == (answer.response.body, answer.reusable)


@pytest.mark.parametrize(
    "data",
    [
        b"\x15\x03\x01 TLS alert\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 What\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n",
        b"x" * (MAX_HEAD_BYTES + 1),
    ],
)
def test_the_doubtful_is_refused(data: bytes) -> None:
    """Wherever the end of an answer would be a guess, there is none."""
    with pytest.raises(HttpParseError):
        parse(data, CAP)


@given(st.binary(max_size=300), st.lists(st.integers(1, 50), max_size=20))
def test_chunks_add_up(body: bytes, sizes: list[int]) -> None:
    """However a body is cut into chunks, it is read whole."""
    pieces, rest = [], body
    for size in sizes:
        pieces, rest = [*pieces, rest[:size]], rest[size:]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, rest] if piece)
    answer = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n")
    assert (body, True) == (answer.response.body, answer.reusable)


@given(st.binary(max_size=200), st.integers(0, 60), st.sampled_from([PLAIN, CHUNKED, EMPTY]))
def test_only_parse_errors_are_raised(noise: bytes, at: int, data: bytes) -> None:
    """Whatever arrives, it is an answer, a part of one, or Garbled."""
    try:
        found = parse(data[:at] + noise + data[at:], CAP)
    except HttpParseError:
        return
    assert found is None or 200 <= found.response.status <= 999
