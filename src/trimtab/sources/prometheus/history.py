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

from trimtab.core.model.sample import Reading, Statistic, Subject, Unit
from trimtab.sources.contract import Past
from trimtab.sources.prometheus.answers import MATRICES
from trimtab.sources.prometheus.asking import OFF_THE_LOOP, Answer, Asking
from trimtab.sources.prometheus.gathering import PODS, Owners, number_of, of_nodes
from trimtab.sources.prometheus.identity import Identity
from trimtab.sources.prometheus.query import Query

POINTS = 200_000
MOST_STEPS = 5_000  # Prometheus refuses more than 11,000 a series
UNKNOWN_SERIES = 5_000


async def recalled(
    asking: Asking, ways: Sequence[Query], span: Past, identity: Identity, now: float, series: int
) -> AsyncIterator[tuple[Reading, ...]]:
    """What is known of the span, oldest first, one piece of it at a time."""
    wanted = [way for way in ways if way.subject is span.subject and _is_load(way)]
    steps = min(max(POINTS // max(series or UNKNOWN_SERIES, 1), 1), MOST_STEPS)
    for start, end in pieces(now, span, steps):
        found: list[Reading] = []
        for way in wanted:
            found += await _piece(asking, way, start, end, span.step, identity)
        if found:
            yield tuple(sorted(found, key=lambda reading: reading.measured[0]))
        await asyncio.sleep(0)


def pieces(now: float, span: Past, steps: int) -> list[tuple[float, float]]:
    """First and last moment of each query; moments are multiples of the step, so that those of all resources agree."""
    first = math.ceil((now - span.since) / span.step)
    last = math.ceil((now - span.until) / span.step) - 1
    return [(begin * span.step, min(begin + steps - 1, last) * span.step) for begin in range(first, last + 1, steps)]


def _is_load(way: Query) -> bool:
    return way.unit is not Unit.RAW and way.statistic is Statistic.LATEST


async def _piece(
    asking: Asking, way: Query, start: float, end: float, step: float, identity: Identity
) -> Iterable[Reading]:
    form = {"query": way.value, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
    answer = await asking.ask("/api/v1/query_range", form)
    read = partial(_read, way, answer, identity)
    return await asyncio.to_thread(read) if len(answer.body) > OFF_THE_LOOP else read()


def _read(way: Query, answer: Answer, identity: Identity) -> list[Reading]:
    pods = way.subject is Subject.PODS
    tracks = MATRICES[pods].read(answer, Counter())
    return _moments(way, tracks, PODS if pods else of_nodes(identity))


def _moments(way: Query, tracks: Sequence[Any], owners: Owners) -> list[Reading]:
    """One reading for each moment; who is ambiguous is left out of all of them."""
    names_of = owners.names(tracks)
    times = Counter(names_of)
    names: dict[float, list[str]] = defaultdict(list)
    values: dict[float, list[float]] = defaultdict(list)
    for name, track in zip(names_of, tracks, strict=True):
        if not isinstance(name, str) or times[name] > 1:
            continue
        for point in track.values:
            number = number_of(point.value, way.scale)
            if number == number:
                names[point.at].append(name)
                values[point.at].append(number)
    return [way.reading(tuple(names[at]), tuple(values[at]), (at,) * len(names[at])) for at in sorted(names)]
