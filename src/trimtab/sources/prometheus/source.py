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

from trimtab.config.own.settings import PrometheusSettings
from trimtab.config.problem import printable
from trimtab.core.model.node import Node
from trimtab.core.model.sample import Reading, Subject
from trimtab.sources.contract import Failure, Past, Scrape, SourceError
from trimtab.sources.prometheus.answers import VECTORS
from trimtab.sources.prometheus.asking import LARGEST, OFF_THE_LOOP, Answer, Asking
from trimtab.sources.prometheus.gathering import NO_TIME, PODS, gather, of_nodes
from trimtab.sources.prometheus.history import recalled
from trimtab.sources.prometheus.identity import Identity, Nobody
from trimtab.sources.prometheus.query import Query, Question
from trimtab.sources.prometheus.questions import questions

RETHINK = 600.0


class Unusable(SourceError):
    """There is an answer, and nothing in it counts for anybody."""


class Unmeasured(SourceError):
    """There is an answer, and not one series in it."""


class Prometheus:
    """One Prometheus, asked about all nodes that `nodes` knows at the time."""

    def __init__(
        self,
        settings: PrometheusSettings,
        nodes: Callable[[], Iterable[Node]],
        now: Callable[[], float] = time.time,
        largest: int = LARGEST,
    ) -> None:
        self.name, self.interval = settings.name, settings.interval
        self._settings, self._nodes, self._now = settings, nodes, now
        self._questions = questions(settings)
        self._asking = Asking(settings, largest)
        self._chosen: dict[str, Query] = {}
        self._absent: set[str] = set()
        self._thought_at = -RETHINK
        self._names: dict[str, tuple[str, ...]] = {}

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(question.part for question in self._questions)

    async def read(self) -> Scrape:
        now = self._now()
        if not 0 <= now - self._thought_at < RETHINK:
            self._thought_at = now
            self._chosen.clear()
            self._absent.clear()
        identity = Identity(self._nodes(), self._settings.node_label)
        asked = [question for question in self._questions if question.part not in self._absent]
        found = await asyncio.gather(*(self._answered(question, identity, now) for question in asked))
        readings = tuple(each for each in found if isinstance(each, Reading))
        failures = tuple(each for each in found if isinstance(each, Failure))
        if failures and not readings:
            raise failures[0].error
        return Scrape(readings, failures)

    async def recall(self, spans: Sequence[Past]) -> AsyncIterator[tuple[Reading, ...]]:
        identity = Identity(self._nodes(), self._settings.node_label)
        for span in spans:
            window = min(max(span.step, self._settings.rate_window), 300.0)
            usual = {question.part: question for question in questions(self._settings, window)}
            ways = [self._way(usual[question.part]) for question in self._questions if not question.extra]
            series = max((len(self._names.get(way.part, ())) for way in ways), default=0)
            async for readings in recalled(self._asking, ways, span, identity, self._now(), series):
                yield readings

    async def close(self) -> None:
        await self._asking.close()

    def _way(self, question: Question) -> Query:
        """The way that works, of ways with other spans of time."""
        chosen = self._chosen.get(question.part)
        original = next(each for each in self._questions if each.part == question.part)
        return question.ways[original.ways.index(chosen) if chosen in original.ways else 0]

    async def _answered(self, question: Question, identity: Identity, now: float) -> Reading | Failure | None:
        patience = self._settings.timeout
        try:
            async with asyncio.timeout(patience):
                return await self._first_answer(question, identity, now)
        except TimeoutError:
            error = SourceError(f"no answer within {patience:g} s", "see what else Prometheus is busy with")
        except SourceError as problem:
            error = problem
        if question.extra:
            if isinstance(error, Unusable | Unmeasured):  # whoever did not answer at all may have it nevertheless
                self._absent.add(question.part)
            return None
        return Failure(question.part, error)

    async def _first_answer(self, question: Question, identity: Identity, now: float) -> Reading:
        """The answer to the first way that has a usable one; else the trouble of the first that has any answer."""
        trouble: SourceError | None = None
        chosen = self._chosen.get(question.part)
        for way in question.ways if chosen is None else (chosen, *(each for each in question.ways if each != chosen)):
            form = {"query": way.text, "timeout": f"{self._settings.timeout:g}"}  # 0.5s it would not read
            answer = await self._asking.ask("/api/v1/query", form)
            read = partial(_read, way, answer, identity, now)
            try:
                reading = await asyncio.to_thread(read) if len(answer.body) > OFF_THE_LOOP else read()
            except Unusable as error:
                trouble = trouble or error
                continue
            if reading is not None:
                if trouble is None:  # a better way that has series may soon have values: that of a young counter, say
                    self._chosen[question.part] = way
                return self._steady(reading)
        problem = f"nothing measures {question.ways[0].resource} of {question.subject}"
        raise trouble or Unmeasured(problem, question.missing)

    def _steady(self, reading: Reading) -> Reading:
        """With the very names of the last look where they are equal, so that nobody has to look them up again."""
        last = self._names.get(reading.source)
        if last == reading.names:
            return msgspec.structs.replace(reading, names=last)
        self._names[reading.source] = reading.names
        return reading


def _read(way: Query, answer: Answer, identity: Identity, now: float) -> Reading | None:
    """None for an answer without series; Unusable for one that says nothing of anybody."""
    skipped: Counter[str] = Counter()
    is_of_pods = way.subject is Subject.PODS
    series = VECTORS[is_of_pods].read(answer, skipped)
    if not series and not skipped:
        return None
    reading = gather(way, series, PODS if is_of_pods else of_nodes(identity), now, skipped)
    if not reading.names:
        raise _unusable(reading, series)
    return reading


def _unusable(reading: Reading, series: Sequence[Any]) -> Unusable:
    """Why an answer is of no use at all, with an example where labels are the trouble."""
    reasons = dict(reading.skipped)
    if not reasons:  # times alone: there are samples, but not two of them within the window of a rate
        problem = f"the {reading.resource} series have no value now, or too few samples for one"
        return Unusable(problem, "see whether they are still scraped, and often enough for rateWindow")
    counted = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    problem = f"none of the {reading.resource} series can be used ({counted})"
    if {NO_TIME} == reasons.keys():
        return Unusable(
            f"the {reading.resource} series have no time of their own", "see whether they are still scraped"
        )
    if reading.subject is Subject.PODS or not reasons.keys() & {each.value for each in Nobody}:
        return Unusable(problem, "see what exports and relabels them")
    labels = {key: value for key, value in series[0].metric.items() if not key.startswith(("trimtab_", "__"))}
    shown = printable(", ".join(f"{key}={value!r}" for key, value in labels.items())[:200])
    return Unusable(f"{problem}, as {shown}", "set nodeLabel to a label that holds the node's name or address")
