"""Reads past values from Prometheus in chunks, as readings.

An hour of all pods can be hundreds of megabytes, so each range query covers only as many steps as keep its response small.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.sources.interface import HistoryRange
from trimtab.sources.prometheus.client import PrometheusClient
from trimtab.sources.prometheus.node_matching import NodeMatcher
from trimtab.sources.prometheus.queries import Query
from trimtab.sources.prometheus.response import MATRIX_DECODERS, POD_OWNERS, SeriesOwners, node_owners, parse_number

MAX_POINTS = 200_000  # per query
MAX_STEPS = 5_000  # Prometheus rejects more than 11,000 per series
DEFAULT_SERIES_COUNT = 5_000


async def read_range(
    client: PrometheusClient,
    queries: Sequence[Query],
    span: HistoryRange,
    matcher: NodeMatcher,
    now: float,
    series_count: int,
) -> AsyncIterator[tuple[Reading, ...]]:
    """The readings of the range, oldest first, one chunk at a time."""
    usage_queries = [query for query in queries if query.subject is span.subject and _is_usage(query)]
    steps = min(max(MAX_POINTS // max(series_count or DEFAULT_SERIES_COUNT, 1), 1), MAX_STEPS)
    for start, end in chunks(now, span, steps):
        readings: list[Reading] = []
        for query in usage_queries:
            readings += await _read_chunk(client, query, start, end, span.step, matcher)
        if readings:
            yield tuple(sorted(readings, key=lambda reading: reading.measured[0]))
        await asyncio.sleep(0)


def chunks(now: float, span: HistoryRange, steps: int) -> list[tuple[float, float]]:
    """First and last timestamp of each query, as multiples of the step, so that all resources share their timestamps."""
    first = math.ceil((now - span.since) / span.step)
    last = math.ceil((now - span.until) / span.step) - 1
    return [(begin * span.step, min(begin + steps - 1, last) * span.step) for begin in range(first, last + 1, steps)]


def _is_usage(query: Query) -> bool:
    """Usage of CPU and memory, and custom metrics of pods, which may be resources that a rescheduler limits."""
    return query.statistic is Statistic.LATEST and (query.unit is not Unit.RAW or query.subject is Subject.PODS)


async def _read_chunk(
    client: PrometheusClient, query: Query, start: float, end: float, step: float, matcher: NodeMatcher
) -> Iterable[Reading]:
    form = {"query": query.value_expr, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
    pods = query.subject is Subject.PODS
    decoder, past = MATRIX_DECODERS[pods], PastReadings(query, POD_OWNERS if pods else node_owners(matcher))
    response = await client.post(
        "/api/v1/query_range", form, lambda piece: past.add(decoder.decode_piece(piece, Counter()))
    )
    past.add(decoder.decode(response, Counter()))
    return await asyncio.to_thread(past.readings)


class PastReadings:
    """One reading per timestamp; names with several series are left out of all of them."""

    def __init__(self, query: Query, owners: SeriesOwners) -> None:
        self._query, self._owners = query, owners
        self._points: dict[str, list[tuple[float, float]]] = {}
        self._ambiguous: set[str] = set()

    def add(self, series: Sequence[Any]) -> None:
        """Take in some series of a response."""
        for name, one in zip(self._owners.names(series), series, strict=True):
            if not isinstance(name, str):
                continue
            if name in self._points:
                self._ambiguous.add(name)
            numbers = ((point.at, parse_number(point.value, self._query.scale)) for point in one.values)
            self._points[name] = [(at, number) for at, number in numbers if number == number]

    def readings(self) -> list[Reading]:
        """All of them, oldest first."""
        names: dict[float, list[str]] = defaultdict(list)
        values: dict[float, list[float]] = defaultdict(list)
        for name, points in self._points.items():
            for at, number in points if name not in self._ambiguous else ():
                names[at].append(name)
                values[at].append(number)
        make = self._query.make_reading
        return [make(tuple(names[at]), tuple(values[at]), (at,) * len(names[at])) for at in sorted(names)]
