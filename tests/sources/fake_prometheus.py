"""A fake Prometheus that responds with arbitrary bytes.

A real one never sends bare NaN tokens, pairs of three elements, warnings on demand or endless responses.
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
    """A value and, unless `at` is None, its time, as two elements of a vector."""
    pair = [{"metric": {**labels, "trimtab_of": "value"}, "value": [NOW, value]}]
    if at is not None:
        pair.append({"metric": {**labels, "trimtab_of": "time"}, "value": [NOW, str(at)]})
    return pair


def vector(*pairs: Sequence[Any], **fields: Any) -> bytes:
    """A successful response with these series."""
    result = [each for pair in pairs for each in pair]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}, **fields}).encode()


def promql_of(request: ReceivedRequest) -> str:
    """The query of a request."""
    return parse_qs(request.body.decode())["query"][0]


def respond_with(
    body: bytes | Callable[[str], bytes], status: int = 200, content_type: str = "application/json"
) -> Behaviour:
    """The same bytes for every request, or what a function returns for the query."""

    def behave(request: ReceivedRequest) -> None:
        request.respond(status, body(promql_of(request)) if callable(body) else body, f"Content-Type: {content_type}")

    return behave


@asynccontextmanager
async def fake_prometheus(behave: Behaviour, **settings: Any) -> AsyncIterator[tuple[PrometheusSource, FaultServer]]:
    """A source on a server that behaves like this; with one user query unless `metrics` are given."""
    arguments = {key: settings.pop(key) for key in ("max_bytes",) if key in settings}
    async with serving(behave) as server:
        defaults = {} if "metrics" in settings else {"metrics": (), "queries": OWN}
        fields = {**defaults, "url": f"http://127.0.0.1:{server.port}", **settings}
        source = PrometheusSource(PrometheusSettings("prom", **fields), lambda: NODES, lambda: NOW, **arguments)
        try:
            yield source, server
        finally:
            await source.close()


async def read_once(body: bytes | Callable[[str], bytes], **settings: Any) -> Scrape:
    """One poll of a Prometheus that responds like this."""
    async with fake_prometheus(respond_with(body), **settings) as (source, _):
        return await source.read()


def values_by_name(reading: Reading) -> dict[str, float]:
    return dict(zip(reading.names, reading.values, strict=True))
