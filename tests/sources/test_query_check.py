"""Checking user queries at start-up: only one that Prometheus cannot parse counts as invalid."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from tests.kube.fault_server import ReceivedRequest, serving
from tests.sources.fake_prometheus import promql_of, respond_with, series, vector
from trimtab.config.trimtab.settings import PrometheusSettings, QuerySettings
from trimtab.sources.prometheus import source
from trimtab.sources.prometheus.source import invalid_queries

PARSE_ERROR = 'invalid parameter "query": 1:6: parse error: unexpected end of input'
QUERIES = (QuerySettings("good", "up"), QuerySettings("bad", "rate(up)"))


def error_body(error: str) -> bytes:
    return json.dumps({"status": "error", "errorType": "bad_data", "error": error}).encode()


def settings(port: int) -> PrometheusSettings:
    return PrometheusSettings("prom", f"http://127.0.0.1:{port}", timeout=2.0, queries=QUERIES)


async def test_a_query_that_cannot_be_parsed() -> None:
    """It alone is reported, with the error of Prometheus; default queries are not run."""

    def behave(asked: ReceivedRequest) -> None:
        found = respond_with(error_body(PARSE_ERROR), 400) if "rate(up)" in promql_of(asked) else respond_with(vector())
        found(asked)

    async with serving(behave) as server:
        ((query, error),) = await invalid_queries(settings(server.port))
    assert ("bad", 2) == (query.name, len(server.received))
    assert "parse error: unexpected end of input" in error.problem


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, vector(series({"node": "a"}, "1"))),
        (400, error_body('invalid parameter "timeout": cannot parse it')),
        (400, b"no JSON"),
        (401, b"who are you"),
        (422, error_body("many-to-many matching not allowed")),
        (503, b"not ready"),
    ],
)
async def test_other_errors_prove_nothing(status: int, body: bytes) -> None:
    """A broken Prometheus, or data that do not match today, must not prevent a start."""
    async with serving(respond_with(body, status)) as server:
        assert [] == await invalid_queries(settings(server.port))


async def test_the_check_has_a_short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging or absent Prometheus delays the start only briefly, whatever the timeout of the source."""
    monkeypatch.setattr(source, "CHECK_TIMEOUT", 0.05)
    async with serving(lambda asked: None) as server, asyncio.timeout(60):
        assert [] == await invalid_queries(replace(settings(server.port), timeout=3600.0))
    assert [] == await invalid_queries(settings(server.port))
