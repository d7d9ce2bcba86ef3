"""Decides what a pretended Prometheus answers, to the byte; leaves what a source must make of it to the tests.

A real one never sends NaN tokens, pairs of three, warnings at will or answers without end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

from tests.kube.fault_server import Behaviour, FaultServer, ReceivedRequest, serving
from trimtab.config.trimtab.settings import PrometheusSettings, QuerySettings, QueryUnit
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Reading
from trimtab.sources.interface import Scrape
from trimtab.sources.prometheus.source import PrometheusSource

NOW = 1_800_000_000.0
NODES = [
    Node(name="a", addresses=("10.0.0.1", "a")),
    Node(name="b", addresses=("10.0.0.2", "b")),
    Node(name="c", addresses=("fd00::3", "c")),
]
OWN = (QuerySettings("memory", "used_bytes", unit=QueryUnit.BYTES),)


def series(labels: Mapping[str, str], value: Any, at: float | None = NOW - 5) -> list[dict[str, Any]]:
    """A value and, unless there is none, its time, as two elements of a vector."""
    pair = [{"metric": {**labels, "trimtab_of": "value"}, "value": [NOW, value]}]
    if at is not None:
        pair.append({"metric": {**labels, "trimtab_of": "time"}, "value": [NOW, str(at)]})
    return pair


def vector(*found: Sequence[Any], **more: Any) -> bytes:
    """A successful answer with these series."""
    result = [each for pair in found for each in pair]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}, **more}).encode()


def promql_of(asked: ReceivedRequest) -> str:
    """The PromQL that was asked."""
    return parse_qs(asked.body.decode())["query"][0]


def respond_with(body: bytes | Callable[[str], bytes], status: int = 200, kind: str = "application/json") -> Behaviour:
    """The same bytes to every question, or what a function makes of the query."""

    def behave(asked: ReceivedRequest) -> None:
        asked.respond(status, body(promql_of(asked)) if callable(body) else body, f"Content-Type: {kind}")

    return behave


@asynccontextmanager
async def fake_prometheus(behave: Behaviour, **settings: Any) -> AsyncIterator[tuple[PrometheusSource, FaultServer]]:
    """A source that asks a server which behaves so; one query of the user's own, unless said otherwise."""
    more = {key: settings.pop(key) for key in ("largest",) if key in settings}
    async with serving(behave) as server:
        usual = {} if "metrics" in settings else {"metrics": (), "queries": OWN}
        told = {**usual, "url": f"http://127.0.0.1:{server.port}", **settings}
        source = PrometheusSource(PrometheusSettings("prom", **told), lambda: NODES, lambda: NOW, **more)
        try:
            yield source, server
        finally:
            await source.close()


async def read_once(body: bytes | Callable[[str], bytes], **settings: Any) -> Scrape:
    """One look at a Prometheus that answers so."""
    async with fake_prometheus(respond_with(body), **settings) as (source, _):
        return await source.read()


def values_by_name(reading: Reading) -> dict[str, float]:
    """Values by name."""
    return dict(zip(reading.names, reading.values, strict=True))
