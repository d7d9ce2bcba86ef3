"""Decides how the past is asked for in bearable pieces and made into readings; leaves what is kept of it to the core.

A whole week of all pods would be hundreds of megabytes: each query covers so few moments that its answer stays small.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from typing import Any

from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.sources.interface import HistoryRange
from trimtab.sources.prometheus.client import THREAD_ABOVE_BYTES, HttpResponse, PrometheusClient
from trimtab.sources.prometheus.node_matching import NodeMatcher
from trimtab.sources.prometheus.queries import Query
from trimtab.sources.prometheus.response import MATRIX_DECODERS
from trimtab.sources.prometheus.to_reading import POD_OWNERS, SeriesOwners, node_owners, parse_number

MAX_POINTS = 200_000
MAX_STEPS = 5_000  # Prometheus refuses more than 11,000 a series
DEFAULT_SERIES_COUNT = 5_000


async def read_range(
    asking: PrometheusClient, ways: Sequence[Query], span: HistoryRange, identity: NodeMatcher, now: float, series: int
) -> AsyncIterator[tuple[Reading, ...]]:
    """What is known of the span, oldest first, one piece of it at a time."""
    wanted = [way for way in ways if way.subject is span.subject and _is_usage(way)]
    steps = min(max(MAX_POINTS // max(series or DEFAULT_SERIES_COUNT, 1), 1), MAX_STEPS)
    for start, end in chunks(now, span, steps):
        found: list[Reading] = []
        for way in wanted:
            found += await _read_chunk(asking, way, start, end, span.step, identity)
        if found:
            yield tuple(sorted(found, key=lambda reading: reading.measured[0]))
        await asyncio.sleep(0)


def chunks(now: float, span: HistoryRange, steps: int) -> list[tuple[float, float]]:
    """First and last moment of each query; moments are multiples of the step, so that those of all resources agree."""
    first = math.ceil((now - span.since) / span.step)
    last = math.ceil((now - span.until) / span.step) - 1
    return [(begin * span.step, min(begin + steps - 1, last) * span.step) for begin in range(first, last + 1, steps)]


def _is_usage(way: Query) -> bool:
    return way.unit is not Unit.RAW and way.statistic is Statistic.LATEST


async def _read_chunk(
    asking: PrometheusClient, way: Query, start: float, end: float, step: float, identity: NodeMatcher
) -> Iterable[Reading]:
    form = {"query": way.value_expr, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
    answer = await asking.post("/api/v1/query_range", form)
    read = partial(_parse, way, answer, identity)
    return await asyncio.to_thread(read) if len(answer.body) > THREAD_ABOVE_BYTES else read()


def _parse(way: Query, answer: HttpResponse, identity: NodeMatcher) -> list[Reading]:
    pods = way.subject is Subject.PODS
    tracks = MATRIX_DECODERS[pods].decode(answer, Counter())
    return _readings_by_time(way, tracks, POD_OWNERS if pods else node_owners(identity))


def _readings_by_time(way: Query, tracks: Sequence[Any], owners: SeriesOwners) -> list[Reading]:
    """One reading for each moment; who is ambiguous is left out of all of them."""
    names_of = owners.names(tracks)
    times = Counter(names_of)
    names: dict[float, list[str]] = defaultdict(list)
    values: dict[float, list[float]] = defaultdict(list)
    for name, track in zip(names_of, tracks, strict=True):
        if not isinstance(name, str) or times[name] > 1:
            continue
        for point in track.values:
            number = parse_number(point.value, way.scale)
            if number == number:
                names[point.at].append(name)
                values[point.at].append(number)
    return [way.make_reading(tuple(names[at]), tuple(values[at]), (at,) * len(names[at])) for at in sorted(names)]
