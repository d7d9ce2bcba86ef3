"""Decides whether only queries that Prometheus cannot read are called mistakes, and nothing else is held against a file."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from tests.kube.fault_server import ReceivedRequest, serving
from tests.sources.fake_prometheus import promql_of, respond_with, series, vector
from trimtab.config.trimtab.settings import PrometheusSettings, QuerySettings
from trimtab.sources.prometheus import query_check
from trimtab.sources.prometheus.query_check import invalid_queries

UNREAD = 'invalid parameter "query": 1:6: parse error: unexpected end of input'
QUERIES = (QuerySettings("good", "up"), QuerySettings("bad", "rate(up)"))


def refusal(error: str) -> bytes:
    return json.dumps({"status": "error", "errorType": "bad_data", "error": error}).encode()


def settings(port: int) -> PrometheusSettings:
    return PrometheusSettings("prom", f"http://127.0.0.1:{port}", timeout=2.0, queries=QUERIES)


async def test_the_query_that_cannot_be_read() -> None:
    """It alone is named, with the words of Prometheus; the built-in questions are not asked."""

    def behave(asked: ReceivedRequest) -> None:
        found = respond_with(refusal(UNREAD), 400) if "rate(up)" in promql_of(asked) else respond_with(vector())
        found(asked)

    async with serving(behave) as server:
        ((query, error),) = await invalid_queries(settings(server.port))
    assert ("bad", 2) == (query.name, len(server.received))
    assert "parse error: unexpected end of input" in error.problem


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, vector(series({"node": "a"}, "1"))),
        (400, refusal('invalid parameter "timeout": cannot parse it')),
        (400, b"no JSON"),
        (401, b"who are you"),
        (422, refusal("many-to-many matching not allowed")),
        (503, b"not ready"),
    ],
)
async def test_whatever_else_is_wrong_proves_nothing(status: int, body: bytes) -> None:
    """A Prometheus that is ill, or data that do not fit today, keep nobody from starting."""
    async with serving(respond_with(body, status)) as server:
        assert [] == await invalid_queries(settings(server.port))


async def test_nobody_waits_for_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hung or absent, it is left alone soon, though a source may be waited for much longer."""
    monkeypatch.setattr(query_check, "TIMEOUT", 0.05)
    async with serving(lambda asked: None) as server, asyncio.timeout(60):
        assert [] == await invalid_queries(replace(settings(server.port), timeout=3600.0))
    assert [] == await invalid_queries(settings(server.port))
