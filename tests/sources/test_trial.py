"""Decides whether only queries that Prometheus cannot read are called mistakes, and nothing else is held against a file."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from tests.kube.fault_server import Asked, serving
from tests.sources.fake_prometheus import answers, query_of, series, vector
from trimtab.config.own.settings import PrometheusSettings, QuerySettings
from trimtab.sources.prometheus import trial
from trimtab.sources.prometheus.trial import mistaken

UNREAD = 'invalid parameter "query": 1:6: parse error: unexpected end of input'
QUERIES = (QuerySettings("good", "up"), QuerySettings("bad", "rate(up)"))


def refusal(error: str) -> bytes:
    return json.dumps({"status": "error", "errorType": "bad_data", "error": error}).encode()


def settings(port: int) -> PrometheusSettings:
    return PrometheusSettings("prom", f"http://127.0.0.1:{port}", timeout=2.0, queries=QUERIES)


async def test_the_query_that_cannot_be_read() -> None:
    """It alone is named, with the words of Prometheus; the built-in questions are not asked."""

    def behave(asked: Asked) -> None:
        found = answers(refusal(UNREAD), 400) if "rate(up)" in query_of(asked) else answers(vector())
        found(asked)

    async with serving(behave) as server:
        ((query, error),) = await mistaken(settings(server.port))
    assert ("bad", 2) == (query.name, len(server.asked))
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
    async with serving(answers(body, status)) as server:
        assert [] == await mistaken(settings(server.port))


async def test_nobody_waits_for_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hung or absent, it is left alone soon, though a source may be waited for much longer."""
    monkeypatch.setattr(trial, "WITHIN", 0.05)
    async with serving(lambda asked: None) as server, asyncio.timeout(60):
        assert [] == await mistaken(replace(settings(server.port), timeout=3600.0))
    assert [] == await mistaken(settings(server.port))
