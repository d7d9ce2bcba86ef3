"""A large response is cut into pieces while it arrives: nothing is lost, nothing is read twice, and little is in memory."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.fault_server import FaultServer, ReceivedRequest, serving
from tests.sources.fake_prometheus import OWN, fake_prometheus, respond_with
from trimtab.config.trimtab.settings import PrometheusSettings
from trimtab.core.model.node import Node
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus import client, series_cutter
from trimtab.sources.prometheus.series_cutter import PIECE_BYTES, SeriesCutter, TooLarge
from trimtab.sources.prometheus.source import PrometheusSource

# Label values that look like the bytes between two series, or end in a backslash.
NASTY = st.sampled_from(['},{"metric":', '"result":[', "]},{", "\\", '\\"', '{"metric":{"a":"b"}}', "ü", ""])
LABELS = st.dictionaries(
    st.sampled_from(["metric", "value", "result", "node"]), st.text(max_size=9) | NASTY, max_size=3
)


def document(labels: list[dict[str, str]], **json_format: Any) -> bytes:
    result = [{"metric": each, "value": [1.5, str(number)]} for number, each in enumerate(labels)]
    body = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return json.dumps(body, **json_format).encode()


def cut(body: bytes, size: int) -> tuple[list[Any], Any]:
    """The series of all pieces, and the document that is kept."""
    cutter, pieces = SeriesCutter(), []
    for first in range(0, len(body), size):
        for piece in cutter.feed(body[first : first + size]):
            pieces += json.loads(piece)
    return pieces, json.loads(cutter.body)


@given(
    labels=st.lists(LABELS, min_size=1, max_size=40),
    size=st.integers(1, 300),
    json_format=st.sampled_from([{"separators": (",", ":")}, {"indent": 1}, {"ensure_ascii": False}]),
)
def test_pieces_and_rest_are_the_whole(labels: list[dict[str, str]], size: int, json_format: dict[str, Any]) -> None:
    """However the body is written and split; and with small pieces, nearly all of it is cut out."""
    body = document(labels, **json_format)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series_cutter, "PIECE_BYTES", 60)
        pieces, kept = cut(body, size)
    whole = json.loads(body)
    assert whole["data"]["result"] == pieces + kept["data"]["result"]
    assert {**whole, "data": None} == {**kept, "data": None}


def test_a_large_response_leaves_little() -> None:
    """Whatever its size, no more than about one piece is kept."""
    body = document([{"node": f"n{number}"} for number in range(20_000)], separators=(",", ":"))
    pieces, kept = cut(body, 1 << 16)
    assert len(body) > 5 * PIECE_BYTES and len(pieces) > 17_000
    assert len(json.dumps(kept)) < 2 * PIECE_BYTES


def test_what_has_no_series_may_not_be_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no series are kept, but not without a limit."""
    monkeypatch.setattr(series_cutter, "MAX_KEPT_BYTES", 1 << 20)
    with pytest.raises(TooLarge):
        cut(b'{"status":"success","data":{"resultType":"vector","result":[' + b" " * (2 << 20), 1 << 16)


def vector(series: int) -> bytes:
    """Values and their times, of nodes of which each has one; the labels are most of it."""
    extra = {f"label_{number}": "x" * 40 for number in range(10)}
    result = []
    for number in range(series):
        labels = {"node": f"n{number}", **extra}
        result.append({"metric": labels, "value": [1.5, "0.5"]})
        result.append({"metric": {**labels, "trimtab_of": "time"}, "value": [1.5, "100"]})
    body = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return json.dumps(body, separators=(",", ":")).encode()


async def test_a_large_response_needs_a_fraction_of_its_size() -> None:
    """All values are read, other tasks run all the time, and labels are gone as soon as their nodes are known."""
    body, turns = vector(10_000), 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serving(respond_with(body)) as server:
        settings = PrometheusSettings("p", f"http://127.0.0.1:{server.port}", timeout=60.0, metrics=(), queries=OWN)
        source = PrometheusSource(settings, lambda: [Node(f"n{number}") for number in range(10_000)], lambda: 100.0)
        counting = asyncio.create_task(count())
        tracemalloc.start()
        try:
            (reading,) = (await source.read()).readings
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            counting.cancel()
            await source.close()
    assert 10_000 == len(reading.names)
    assert len(body) > 10 << 20
    assert peak < 3 * len(body)  # two are the fake server's; decoded as a whole, the response takes several more
    assert turns > len(body) / (2 * PIECE_BYTES)


async def test_a_client_reads_one_large_response_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are read when it is done, although other tasks run after each piece."""
    monkeypatch.setattr(client, "LARGE_BYTES", 1 << 16)
    pieces: list[int] = []
    async with serving(respond_with(vector(1_000))) as server:
        asking = client.PrometheusClient(PrometheusSettings("p", f"http://127.0.0.1:{server.port}", timeout=30.0))

        async def ask(number: int) -> None:
            await asking.post("/api/v1/query", {"query": "x"}, lambda piece: pieces.append(number))

        try:
            await asyncio.gather(*map(ask, range(3)))
        finally:
            await asking.close()
    assert len(pieces) > 12
    assert 3 == len([*groupby(pieces)])


async def test_a_slow_prometheus_does_not_delay_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one stops in the middle of a large response, a large response of the other is read to its end."""
    monkeypatch.setattr(client, "LARGE_BYTES", 1 << 16)
    stuck, body = asyncio.Event(), vector(1_000)

    async def stop_in_the_middle(request: ReceivedRequest) -> None:
        request.start_stream()
        request.chunk(body[: len(body) // 2])
        await asyncio.Event().wait()

    async def ask(server: FaultServer, take: Callable[[bytes], None]) -> None:
        asking = client.PrometheusClient(PrometheusSettings("p", f"http://127.0.0.1:{server.port}", timeout=10.0))
        try:
            await asking.post("/api/v1/query", {"query": "x"}, take)
        finally:
            await asking.close()

    async with serving(stop_in_the_middle) as slow, serving(respond_with(body)) as healthy:
        waiting = asyncio.create_task(ask(slow, lambda piece: stuck.set()))
        try:
            await stuck.wait()
            await ask(healthy, lambda piece: None)
            assert not waiting.done()
        finally:
            waiting.cancel()


async def test_a_response_beyond_the_limit_is_refused_while_it_is_read() -> None:
    """The limit holds for what is read, however little of it is kept."""
    async with fake_prometheus(respond_with(vector(2_000)), max_bytes=1 << 20) as (source, _):
        with pytest.raises(SourceError, match="larger than 1 MiB: select fewer series"):
            await source.read()
