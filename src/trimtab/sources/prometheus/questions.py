"""Decides which questions one source asks in one look; leaves their form to `query` and their words to `built_in`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trimtab.config.own.promql import filled, query_fault
from trimtab.config.own.settings import Measure, PrometheusSettings, QuerySettings
from trimtab.core.model.sample import Statistic, Subject, Unit
from trimtab.sources.contract import SourceError
from trimtab.sources.prometheus.built_in import BUILT_IN
from trimtab.sources.prometheus.query import Query, Question, matchers, ready

_UNITS: Mapping[Measure, tuple[Unit, float]] = {
    Measure.NONE: (Unit.RAW, 1.0),
    Measure.PERCENT: (Unit.SHARE, 0.01),
    Measure.RATIO: (Unit.SHARE, 1.0),
    Measure.CORES: (Unit.OWN, 1000.0),
    Measure.MILLICORES: (Unit.OWN, 1.0),
    Measure.BYTES: (Unit.OWN, 1.0),
}


def questions(settings: PrometheusSettings, window: float | None = None) -> tuple[Question, ...]:
    """All of them; a query of the user's own stands in for the built-in one of its name.

    window: what rates cover, if not the span of the settings.
    """
    only = matchers(dict(settings.match_labels))
    window = settings.rate_window if window is None else window
    own = tuple(_own(each, settings, window) for each in settings.queries)
    taken = {_answered(question) for question in own}
    built = tuple(
        _built(question, settings.name, window, only)
        for metric in settings.metrics
        for question in BUILT_IN[metric]
        if _answered(question) not in taken
    )
    return built + own


def _answered(question: Question) -> tuple[str, Subject, Statistic]:
    way = question.ways[0]
    return way.resource, way.subject, way.statistic


def _built(question: Question, name: str, window: float, only: str) -> Question:
    part = f"{name}/{question.part}"
    return replace(question, part=part, ways=tuple(ready(way, part, window, only) for way in question.ways))


def _own(query: QuerySettings, settings: PrometheusSettings, window: float) -> Question:
    if fault := query_fault(query.query):
        raise SourceError(f"query {query.name!r} of source {settings.name!r} {fault}")
    unit, scale = _UNITS[query.unit]
    expression = filled(query.query, {"window": query.window or window, "interval": settings.interval})
    part = f"{settings.name}/{query.name}.{query.of}.{query.statistic}"
    # Of a plain selector this is when its samples were taken; of anything computed, when it was computed.
    time = f"timestamp(\n{expression}\n)"
    way = Query(query.name, expression, time, query.of, unit, query.statistic, query.window, scale, part)
    return Question(part, (way,), "correct the query, or let Prometheus scrape what it asks for")
