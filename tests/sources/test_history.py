"""Reading history in chunks, oldest first."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.kube.fault_server import ReceivedRequest
from tests.sources.fake_prometheus import NOW, fake_prometheus
from trimtab.config.trimtab.settings import BuiltinMetric, QuerySettings
from trimtab.core.model.readings import Reading, Subject
from trimtab.sources.interface import HistoryRange, SourceError
from trimtab.sources.prometheus import history
from trimtab.sources.prometheus.history import chunks

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


async def read_history(
    *ranges: HistoryRange, metrics: tuple[BuiltinMetric, ...], queries: tuple[QuerySettings, ...] = ()
) -> tuple[list[Reading], list[dict[str, list[str]]]]:
    async with fake_prometheus(matrix, metrics=metrics, queries=queries) as (source, server):
        found = [reading async for readings in source.read_history(ranges) for reading in readings]
    return found, [parse_qs(asked.body.decode()) for asked in server.received]


async def test_one_reading_per_timestamp() -> None:
    """Oldest first; values that are not numbers, unmatched or ambiguous are left out."""
    found, asked = await read_history(
        HistoryRange(Subject.NODES, 90.0, 0.0, 30.0), metrics=(BuiltinMetric.NODE_MEMORY,)
    )
    assert [
        (("a",), (1.0,), (NOW - 60,)),
        (("b",), (5.0,), (NOW - 30,)),
        (("a",), (3.0,), (NOW,)),
    ] == [(each.names, each.values, each.measured) for each in found]
    assert [("memory", "prom/nodeMemory")] * 3 == [(each.resource, each.source) for each in found]
    assert (["30"], [f"{NOW - 90:.3f}"]) == (asked[0]["step"], asked[0]["start"])


async def test_only_usage_of_the_requested_subject_is_read() -> None:
    """No pods when nodes are requested, and no pressure, recording rules and the like at all."""
    _, asked = await read_history(HistoryRange(Subject.NODES, 60.0, 0.0, 60.0), metrics=tuple(BuiltinMetric))
    assert 2 == len(asked) and not [
        form for form in asked if "pod" in form["query"][0] or "pressure" in form["query"][0]
    ]


async def test_custom_metrics_have_a_past_if_they_are_of_pods() -> None:
    """They may be resources with a limit; what rules and plugins read of nodes is the newest value alone."""
    own = (QuerySettings("network", "x", Subject.PODS), QuerySettings("stalls", "y"))
    for subject, expected in ((Subject.PODS, [["x"]]), (Subject.NODES, [])):
        _, asked = await read_history(HistoryRange(subject, 60.0, 0.0, 60.0), metrics=(), queries=own)
        assert expected == [form["query"] for form in asked]


@pytest.mark.parametrize(("step", "window"), [(30.0, "120s"), (300.0, "300s"), (3600.0, "300s")])
async def test_rate_windows_cover_the_step(step: float, window: str) -> None:
    """A five-minute step is a rate over five minutes, so that nothing between two timestamps is missed."""
    _, asked = await read_history(HistoryRange(Subject.NODES, 7200.0, 0.0, step), metrics=(BuiltinMetric.NODE_CPU,))
    assert f"[{window}]" in asked[0]["query"][0]


def test_chunks_cover_the_range_once() -> None:
    """Every timestamp is in exactly one chunk and a multiple of the step, also where two ranges meet."""
    older = chunks(1000.0, HistoryRange(Subject.NODES, 600.0, 300.0, 30.0), 4)
    newer = chunks(1000.0, HistoryRange(Subject.NODES, 300.0, 0.0, 30.0), 4)
    moments = [at for begin, end in older + newer for at in range(int(begin), int(end) + 1, 30)]
    assert moments == sorted(set(moments)) and [at for at in range(400, 1000) if at % 30 == 0] == moments
    assert 4 >= max((end - begin) // 30 + 1 for begin, end in older + newer)


async def test_many_series_mean_short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of points in one response is bounded, however many nodes there are."""
    monkeypatch.setattr(history, "MAX_POINTS", 5)
    monkeypatch.setattr(history, "DEFAULT_SERIES_COUNT", 5)
    _, asked = await read_history(HistoryRange(Subject.NODES, 90.0, 0.0, 30.0), metrics=(BuiltinMetric.NODE_MEMORY,))
    assert 3 == len(asked) and all(form["start"] == form["end"] for form in asked)


async def test_history_that_cannot_be_read_is_an_error() -> None:
    """The poller handles it."""
    async with fake_prometheus(lambda asked: asked.respond(422, b"{}"), metrics=(BuiltinMetric.NODE_MEMORY,)) as (
        source,
        _,
    ):
        with pytest.raises(SourceError):
            _ = [readings async for readings in source.read_history([HistoryRange(Subject.NODES, 60.0, 0.0, 30.0)])]
