"""The Prometheus source: one reading or failure per metric at each poll.

The number of queries does not depend on the number of nodes. Each metric finds out which of its alternatives works:

    best alternative ──(usable)──▶ used from now on ──(after ten minutes)──▶ best alternative
          ├──(no series)────▶ the next alternative ──(none left)──▶ the metric has failed, until the next poll
          └──(none usable)──▶ the same, but for this poll only
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from trimtab.config.diagnostics import printable
from trimtab.config.trimtab.settings import PrometheusSettings, QuerySettings
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Reading, Subject
from trimtab.sources.interface import Failure, HistoryRange, Scrape, SourceError
from trimtab.sources.prometheus.client import MAX_RESPONSE_BYTES, PrometheusClient
from trimtab.sources.prometheus.history import read_range
from trimtab.sources.prometheus.node_matching import MatchFailure, NodeMatcher
from trimtab.sources.prometheus.queries import MetricQuery, Query, plan_queries
from trimtab.sources.prometheus.response import (
    NO_TIME,
    POD_OWNERS,
    UNNAMED,
    VECTOR_DECODERS,
    InvalidQuery,
    ReadingBuilder,
    node_owners,
)

REPROBE_AFTER = 600.0
THREAD_ABOVE_SERIES = 5_000  # more take milliseconds to sort out
MISSING = {NO_TIME, UNNAMED, *(each.value for each in MatchFailure)}  # such series say nothing about our nodes or pods
CHECK_TIMEOUT = 5.0  # seconds that a start may wait for `invalid_queries`


class UnusableResponse(SourceError):
    """The response has series, but no value that can be used."""


class NoSeries(SourceError):
    """The response has no series."""


class PrometheusSource:
    """One Prometheus, queried for all nodes that `nodes` returns at the time."""

    def __init__(
        self,
        settings: PrometheusSettings,
        nodes: Callable[[], Iterable[Node]],
        now: Callable[[], float] = time.time,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.name, self.interval = settings.name, settings.interval
        self._settings, self._nodes, self._now = settings, nodes, now
        self._queries = plan_queries(settings)
        self._client = PrometheusClient(settings, max_bytes)
        self._working: dict[str, Query] = {}
        self._absent: set[str] = set()
        self._probed_at = -REPROBE_AFTER
        self._last_names: dict[str, tuple[str, ...]] = {}

    @property
    def query_names(self) -> tuple[str, ...]:
        return tuple(query.name for query in self._queries)

    async def read(self) -> Scrape:
        now = self._now()
        if not 0 <= now - self._probed_at < REPROBE_AFTER:
            self._probed_at = now
            self._working.clear()
            self._absent.clear()
        matcher = NodeMatcher(self._nodes(), self._settings.node_label)
        queries = [query for query in self._queries if query.name not in self._absent]
        results = await asyncio.gather(*(self._read_query(query, matcher, now) for query in queries))
        readings = tuple(each for each in results if isinstance(each, Reading))
        failures = tuple(each for each in results if isinstance(each, Failure))
        if not readings and len({each.error.invalid for each in failures}) == 1:
            raise failures[0].error
        return Scrape(readings, failures)

    async def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        matcher = NodeMatcher(self._nodes(), self._settings.node_label)
        for span in ranges:
            window = min(max(span.step, self._settings.rate_window), 300.0)
            by_name = {query.name: query for query in plan_queries(self._settings, window)}
            queries = [self._working_alternative(by_name[query.name]) for query in self._queries if not query.optional]
            series_count = max((len(self._last_names.get(query.query_name, ())) for query in queries), default=0)
            async for readings in read_range(self._client, queries, span, matcher, self._now(), series_count):
                yield readings

    async def close(self) -> None:
        await self._client.close()

    def _working_alternative(self, query: MetricQuery) -> Query:
        """The alternative that works now, of the same query with another rate window."""
        working = self._working.get(query.name)
        original = next(each for each in self._queries if each.name == query.name)
        return query.alternatives[original.alternatives.index(working) if working in original.alternatives else 0]

    async def _read_query(self, query: MetricQuery, matcher: NodeMatcher, now: float) -> Reading | Failure | None:
        timeout = self._settings.timeout
        try:
            async with asyncio.timeout(timeout):
                return await self._first_usable(query, matcher, now)
        except TimeoutError:
            error = SourceError(f"no response within {timeout:g} s", "check whether Prometheus is overloaded")
        except SourceError as raised:
            error = raised
        if query.optional:
            if isinstance(error, UnusableResponse | NoSeries):  # a Prometheus that did not respond may still have it
                self._absent.add(query.name)
            return None
        return Failure(query.name, error)

    async def _first_usable(self, query: MetricQuery, matcher: NodeMatcher, now: float) -> Reading:
        """The reading of the first usable alternative; else the error of the first that returned series."""
        unusable: SourceError | None = None
        for alternative in self._in_order(query):
            try:
                reading = await self._query(alternative, matcher, now)
            except UnusableResponse as error:
                unusable = unusable or error
                continue
            if reading is not None:
                if (
                    unusable is None
                ):  # a better one that has series may soon have values, like the rate of a new counter
                    self._working[query.name] = alternative
                return self._reuse_names(reading)
        problem = f"no series for {query.alternatives[0].resource} of {query.subject}"
        raise unusable or NoSeries(problem, query.remedy)

    async def _query(self, query: Query, matcher: NodeMatcher, now: float) -> Reading | None:
        """None for a response without series; UnusableResponse for one without a usable value."""
        pods, skipped = query.subject is Subject.PODS, Counter[str]()
        decoder, owners = VECTOR_DECODERS[pods], POD_OWNERS if pods else node_owners(matcher)
        builder = ReadingBuilder(query, owners, skipped)
        form = {"query": query.promql, "timeout": f"{self._settings.timeout:g}"}  # it does not parse 0.5s
        response = await self._client.post(
            "/api/v1/query", form, lambda piece: builder.add(decoder.decode_piece(piece, skipped))
        )
        builder.add(decoder.decode(response, skipped))
        if builder.example is None and not skipped:
            return None
        many = len(builder) > THREAD_ABOVE_SERIES
        reading = await asyncio.to_thread(builder.finish, now) if many else builder.finish(now)
        if not reading.names:
            raise _unusable(reading, builder.example)
        return reading

    def _in_order(self, query: MetricQuery) -> tuple[Query, ...]:
        working = self._working.get(query.name)
        if working is None:
            return query.alternatives
        return working, *(each for each in query.alternatives if each != working)

    def _reuse_names(self, reading: Reading) -> Reading:
        """With the same tuple of names as last time if they are equal, so that nothing looks them up again."""
        last = self._last_names.get(reading.source)
        if last == reading.names:
            return msgspec.structs.replace(reading, names=last)
        self._last_names[reading.source] = reading.names
        return reading


def _unusable(reading: Reading, example: Any) -> UnusableResponse:
    """Why no value can be used, with the labels of one series if no node matches."""
    reasons = dict(reading.skipped)
    if not reasons:  # only timestamps: there are samples, but not two of them within the window of a rate
        problem = f"the {reading.resource} series have no current value, or too few samples for a rate"
        return UnusableResponse(problem, "check that they are still scraped, and often enough for rateWindow")
    if {NO_TIME} == reasons.keys():
        return UnusableResponse(
            f"the {reading.resource} series have no timestamp of their own", "check that they are still scraped"
        )
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    problem = f"none of the {reading.resource} series can be used ({counts})"
    if reading.subject is Subject.PODS or not reasons.keys() & {each.value for each in MatchFailure}:
        return UnusableResponse(problem, "check what exports and relabels them", invalid=bool(reasons.keys() - MISSING))
    labels = {key: value for key, value in example.metric.items() if not key.startswith(("trimtab_", "__"))}
    example = printable(", ".join(f"{key}={value!r}" for key, value in labels.items())[:200])
    remedy = "set nodeLabel to a label that holds the node's name or address"
    return UnusableResponse(f"{problem}, for example {example}", remedy, invalid=bool(reasons.keys() - MISSING))


async def invalid_queries(settings: PrometheusSettings) -> list[tuple[QuerySettings, InvalidQuery]]:
    """The user's queries that Prometheus cannot parse, with its error; a Prometheus that does not respond proves nothing."""
    client = PrometheusClient(settings)
    try:
        errors = await asyncio.gather(*(_check_query(client, settings, query) for query in settings.queries))
    finally:
        await client.close()
    return [(query, error) for query, error in zip(settings.queries, errors, strict=True) if error is not None]


async def _check_query(
    client: PrometheusClient, settings: PrometheusSettings, query: QuerySettings
) -> InvalidQuery | None:
    try:
        (planned,) = plan_queries(replace(settings, metrics=(), queries=(query,)))
        async with asyncio.timeout(CHECK_TIMEOUT):
            timeout = f"{min(settings.timeout, CHECK_TIMEOUT):g}"
            form = {"query": planned.alternatives[0].promql, "timeout": timeout}
            response = await client.post("/api/v1/query", form)
        VECTOR_DECODERS[query.of is Subject.PODS].decode(response, Counter())
    except InvalidQuery as error:
        return error
    except (SourceError, TimeoutError):  # reported when the source is polled
        pass
    return None
