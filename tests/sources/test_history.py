"""Decides whether the past is asked for in bearable pieces, oldest first, and read as the present is."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.kube.fault_server import ReceivedRequest
from tests.sources.fake_prometheus import NOW, fake_prometheus
from trimtab.config.trimtab.settings import BuiltinMetric
from trimtab.core.model.readings import Reading, Subject
from trimtab.sources.interface import HistoryRange, SourceError
from trimtab.sources.prometheus import history
from trimtab.sources.prometheus.history import chunks
from trimtab.sources.prometheus.queries import Query
from trimtab.sources.prometheus.to_reading import SeriesOwners

RANGE_SERIES: list[dict[str, Any]] = [
    {"metric": {"instance": "10.0.0.1:9100"}, "values": [[NOW - 60, "1"], [NOW - 30, "NaN"], [NOW, "3"]]},
    {"metric": {"node": "b"}, "values": [[NOW - 30, "5"]]},
    {"metric": {"node": "nobody"}, "values": [[NOW, "6"]]},
    {"metric": {"node": "c"}, "values": [[NOW, "7"]]},
    {"metric": {"node": "c", "job": "twin"}, "values": [[NOW, "8"]]},
]


def matrix(asked: ReceivedRequest) -> None:
    data = {"resultType": "matrix", "result": RANGE_SERIES}
    asked.respond(200, json.dumps({"status": "success", "data": data}).encode())


async def recalled(
    *spans: HistoryRange, metrics: tuple[BuiltinMetric, ...]
) -> tuple[list[Reading], list[dict[str, list[str]]]]:
    async with fake_prometheus(matrix, metrics=metrics) as (source, server):
        found = [reading async for readings in source.read_history(spans) for reading in readings]
    return found, [parse_qs(asked.body.decode()) for asked in server.received]


async def test_the_past_is_one_reading_a_moment() -> None:
    """Oldest first; what is no number, nobody's or ambiguous is left out, and every value is as old as its moment."""
    found, asked = await recalled(HistoryRange(Subject.NODES, 90.0, 0.0, 30.0), metrics=(BuiltinMetric.NODE_MEMORY,))
    assert [
        (("a",), (1.0,), (NOW - 60,)),
        (("b",), (5.0,), (NOW - 30,)),
        (("a",), (3.0,), (NOW,)),
    ] == [(each.names, each.values, each.measured) for each in found]
    assert [("memory", "prom/nodeMemory")] * 3 == [(each.resource, each.source) for each in found]
    assert (["30"], [f"{NOW - 90:.3f}"]) == (asked[0]["step"], asked[0]["start"])


async def test_only_load_of_the_wanted_kind_is_recalled() -> None:
    """Pods are not asked for when nodes are, and pressure, rules and the like not at all."""
    _, asked = await recalled(HistoryRange(Subject.NODES, 60.0, 0.0, 60.0), metrics=tuple(BuiltinMetric))
    assert 2 == len(asked) and not [
        form for form in asked if "pod" in form["query"][0] or "pressure" in form["query"][0]
    ]


@pytest.mark.parametrize(("step", "window"), [(30.0, "120s"), (300.0, "300s"), (3600.0, "300s")])
async def test_rates_of_the_past_cover_their_step(step: float, window: str) -> None:
    """A mean over five minutes is asked for as such, so that nothing between two moments is overlooked."""
    _, asked = await recalled(HistoryRange(Subject.NODES, 7200.0, 0.0, step), metrics=(BuiltinMetric.NODE_CPU,))
    assert f"[{window}]" in asked[0]["query"][0]


def test_pieces_cover_the_span_once() -> None:
    """Every moment is in exactly one piece, all are multiples of the step, and the end of one span begins no other."""
    older = chunks(1000.0, HistoryRange(Subject.NODES, 600.0, 300.0, 30.0), 4)
    newer = chunks(1000.0, HistoryRange(Subject.NODES, 300.0, 0.0, 30.0), 4)
    moments = [at for begin, end in older + newer for at in range(int(begin), int(end) + 1, 30)]
    assert moments == sorted(set(moments)) and [at for at in range(400, 1000) if at % 30 == 0] == moments
    assert 4 >= max((end - begin) // 30 + 1 for begin, end in older + newer)


async def test_many_series_mean_short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of points in one answer is bounded, however many nodes there are."""
    monkeypatch.setattr(history, "MAX_POINTS", 5)
    monkeypatch.setattr(history, "DEFAULT_SERIES_COUNT", 5)
    _, asked = await recalled(HistoryRange(Subject.NODES, 90.0, 0.0, 30.0), metrics=(BuiltinMetric.NODE_MEMORY,))
    assert 3 == len(asked) and all(form["start"] == form["end"] for form in asked)


async def test_a_past_that_cannot_be_had_is_an_error() -> None:
    """Whoever asked may then do without."""
    async with fake_prometheus(lambda asked: asked.respond(422, b"{}"), metrics=(BuiltinMetric.NODE_MEMORY,)) as (
        source,
        _,
    ):
        with pytest.raises(SourceError):
            _ = [readings async for readings in source.read_history([HistoryRange(Subject.NODES, 60.0, 0.0, 30.0)])]


async def test_a_large_piece_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of thousands of values take a good part of a second, for which neither binds nor the lease wait."""
    threads: list[bool] = []
    usual = history._readings_by_time

    def noted(way: Query, tracks: Sequence[Any], owners: SeriesOwners) -> list[Reading]:
        threads.append(threading.current_thread() is threading.main_thread())
        return usual(way, tracks, owners)

    monkeypatch.setattr(history, "_readings_by_time", noted)
    span = HistoryRange(Subject.NODES, 90.0, 0.0, 30.0)
    small, _ = await recalled(span, metrics=(BuiltinMetric.NODE_MEMORY,))
    monkeypatch.setattr(history, "THREAD_ABOVE_BYTES", 0)
    large, _ = await recalled(span, metrics=(BuiltinMetric.NODE_MEMORY,))
    assert (small, [True, False]) == (large, threads)
