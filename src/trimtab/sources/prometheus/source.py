"""Decides what one look at a Prometheus comes to: a reading or a failure for each part; leaves the clock's turn to polling.

The number of queries does not depend on the number of nodes. Each part finds out for itself how to ask:

    best way first ──(answered, usable)──▶ this way from now on ──(ten minutes on)──▶ best way first
          ├──(no series)───▶ the next way ──(no more)──▶ the part has failed, until the next look
          └──(none usable)─▶ the same, but for this look alone
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from trimtab.config.diagnostics import printable
from trimtab.config.trimtab.settings import PrometheusSettings
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Reading, Subject
from trimtab.sources.interface import Failure, HistoryRange, Scrape, SourceError
from trimtab.sources.prometheus.client import (
    MAX_RESPONSE_BYTES,
    THREAD_ABOVE_BYTES,
    HttpResponse,
    PrometheusClient,
)
from trimtab.sources.prometheus.history import read_range
from trimtab.sources.prometheus.node_matching import MatchFailure, NodeMatcher
from trimtab.sources.prometheus.queries import MetricQuery, Query
from trimtab.sources.prometheus.query_plan import plan_queries
from trimtab.sources.prometheus.response import VECTOR_DECODERS
from trimtab.sources.prometheus.to_reading import NO_TIME, POD_OWNERS, node_owners, to_reading

REPROBE_AFTER = 600.0


class UnusableResponse(SourceError):
    """There is an answer, and nothing in it counts for anybody."""


class NoSeries(SourceError):
    """There is an answer, and not one series in it."""


class PrometheusSource:
    """One Prometheus, asked about all nodes that `nodes` knows at the time."""

    def __init__(
        self,
        settings: PrometheusSettings,
        nodes: Callable[[], Iterable[Node]],
        now: Callable[[], float] = time.time,
        largest: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.name, self.interval = settings.name, settings.interval
        self._settings, self._nodes, self._now = settings, nodes, now
        self._queries = plan_queries(settings)
        self._client = PrometheusClient(settings, largest)
        self._working: dict[str, Query] = {}
        self._absent: set[str] = set()
        self._probed_at = -REPROBE_AFTER
        self._last_names: dict[str, tuple[str, ...]] = {}

    @property
    def query_names(self) -> tuple[str, ...]:
        return tuple(question.name for question in self._queries)

    async def read(self) -> Scrape:
        now = self._now()
        if not 0 <= now - self._probed_at < REPROBE_AFTER:
            self._probed_at = now
            self._working.clear()
            self._absent.clear()
        identity = NodeMatcher(self._nodes(), self._settings.node_label)
        asked = [question for question in self._queries if question.name not in self._absent]
        found = await asyncio.gather(*(self._read_query(question, identity, now) for question in asked))
        readings = tuple(each for each in found if isinstance(each, Reading))
        failures = tuple(each for each in found if isinstance(each, Failure))
        if failures and not readings:
            raise failures[0].error
        return Scrape(readings, failures)

    async def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        identity = NodeMatcher(self._nodes(), self._settings.node_label)
        for span in ranges:
            window = min(max(span.step, self._settings.rate_window), 300.0)
            usual = {question.name: question for question in plan_queries(self._settings, window)}
            ways = [
                self._working_alternative(usual[question.name]) for question in self._queries if not question.optional
            ]
            series = max((len(self._last_names.get(way.query_name, ())) for way in ways), default=0)
            async for readings in read_range(self._client, ways, span, identity, self._now(), series):
                yield readings

    async def close(self) -> None:
        await self._client.close()

    def _working_alternative(self, question: MetricQuery) -> Query:
        """The way that works, of ways with other spans of time."""
        chosen = self._working.get(question.name)
        original = next(each for each in self._queries if each.name == question.name)
        return question.alternatives[original.alternatives.index(chosen) if chosen in original.alternatives else 0]

    async def _read_query(self, query: MetricQuery, matcher: NodeMatcher, now: float) -> Reading | Failure | None:
        patience = self._settings.timeout
        try:
            async with asyncio.timeout(patience):
                return await self._first_usable(query, matcher, now)
        except TimeoutError:
            error = SourceError(f"no answer within {patience:g} s", "see what else Prometheus is busy with")
        except SourceError as problem:
            error = problem
        if query.optional:
            if isinstance(error, UnusableResponse | NoSeries):  # whoever did not answer at all may have it nevertheless
                self._absent.add(query.name)
            return None
        return Failure(query.name, error)

    async def _first_usable(self, query: MetricQuery, matcher: NodeMatcher, now: float) -> Reading:
        """The answer to the first way that has a usable one; else the trouble of the first that has any answer."""
        trouble: SourceError | None = None
        chosen = self._working.get(query.name)
        for way in (
            query.alternatives if chosen is None else (chosen, *(each for each in query.alternatives if each != chosen))
        ):
            form = {"query": way.promql, "timeout": f"{self._settings.timeout:g}"}  # 0.5s it would not read
            answer = await self._client.post("/api/v1/query", form)
            read = partial(_parse, way, answer, matcher, now)
            try:
                reading = await asyncio.to_thread(read) if len(answer.body) > THREAD_ABOVE_BYTES else read()
            except UnusableResponse as error:
                trouble = trouble or error
                continue
            if reading is not None:
                if trouble is None:  # a better way that has series may soon have values: that of a young counter, say
                    self._working[query.name] = way
                return self._reuse_names(reading)
        problem = f"nothing measures {query.alternatives[0].resource} of {query.subject}"
        raise trouble or NoSeries(problem, query.remedy)

    def _reuse_names(self, reading: Reading) -> Reading:
        """With the very names of the last look where they are equal, so that nobody has to look them up again."""
        last = self._last_names.get(reading.source)
        if last == reading.names:
            return msgspec.structs.replace(reading, names=last)
        self._last_names[reading.source] = reading.names
        return reading


def _parse(way: Query, answer: HttpResponse, matcher: NodeMatcher, now: float) -> Reading | None:
    """None for an answer without series; Unusable for one that says nothing of anybody."""
    skipped: Counter[str] = Counter()
    is_of_pods = way.subject is Subject.PODS
    series = VECTOR_DECODERS[is_of_pods].decode(answer, skipped)
    if not series and not skipped:
        return None
    reading = to_reading(way, series, POD_OWNERS if is_of_pods else node_owners(matcher), now, skipped)
    if not reading.names:
        raise _unusable(reading, series)
    return reading


def _unusable(reading: Reading, series: Sequence[Any]) -> UnusableResponse:
    """Why an answer is of no use at all, with an example where labels are the trouble."""
    reasons = dict(reading.skipped)
    if not reasons:  # times alone: there are samples, but not two of them within the window of a rate
        problem = f"the {reading.resource} series have no value now, or too few samples for one"
        return UnusableResponse(problem, "see whether they are still scraped, and often enough for rateWindow")
    counted = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    problem = f"none of the {reading.resource} series can be used ({counted})"
    if {NO_TIME} == reasons.keys():
        return UnusableResponse(
            f"the {reading.resource} series have no time of their own", "see whether they are still scraped"
        )
    if reading.subject is Subject.PODS or not reasons.keys() & {each.value for each in MatchFailure}:
        return UnusableResponse(problem, "see what exports and relabels them")
    labels = {key: value for key, value in series[0].metric.items() if not key.startswith(("trimtab_", "__"))}
    shown = printable(", ".join(f"{key}={value!r}" for key, value in labels.items())[:200])
    return UnusableResponse(f"{problem}, as {shown}", "set nodeLabel to a label that holds the node's name or address")
