"""Decides which questions one source asks in one look; leaves their form to `query` and their words to `default_queries`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trimtab.config.trimtab.promql import substitute, validate_query
from trimtab.config.trimtab.settings import PrometheusSettings, QuerySettings, QueryUnit
from trimtab.core.model.readings import Statistic, Subject, Unit
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.default_queries import DEFAULT_QUERIES
from trimtab.sources.prometheus.queries import MetricQuery, Query, label_matchers, render

_UNITS: Mapping[QueryUnit, tuple[Unit, float]] = {
    QueryUnit.NONE: (Unit.RAW, 1.0),
    QueryUnit.PERCENT: (Unit.FRACTION, 0.01),
    QueryUnit.RATIO: (Unit.FRACTION, 1.0),
    QueryUnit.CORES: (Unit.ABSOLUTE, 1000.0),
    QueryUnit.MILLICORES: (Unit.ABSOLUTE, 1.0),
    QueryUnit.BYTES: (Unit.ABSOLUTE, 1.0),
}


def plan_queries(settings: PrometheusSettings, window: float | None = None) -> tuple[MetricQuery, ...]:
    """All of them; a query of the user's own stands in for the built-in one of its name.

    window: what rates cover, if not the span of the settings.
    """
    only = label_matchers(dict(settings.match_labels))
    window = settings.rate_window if window is None else window
    own = tuple(_user_query(each, settings, window) for each in settings.queries)
    taken = {_measures(question) for question in own}
    built = tuple(
        _render_default(question, settings.name, window, only)
        for metric in settings.metrics
        for question in DEFAULT_QUERIES[metric]
        if _measures(question) not in taken
    )
    return built + own


def _measures(query: MetricQuery) -> tuple[str, Subject, Statistic]:
    way = query.alternatives[0]
    return way.resource, way.subject, way.statistic


def _render_default(question: MetricQuery, name: str, window: float, only: str) -> MetricQuery:
    part = f"{name}/{question.name}"
    return replace(
        question, name=part, alternatives=tuple(render(way, part, window, only) for way in question.alternatives)
    )


def _user_query(query: QuerySettings, settings: PrometheusSettings, window: float) -> MetricQuery:
    if fault := validate_query(query.query):
        raise SourceError(f"query {query.name!r} of source {settings.name!r} {fault}")
    unit, scale = _UNITS[query.unit]
    expression = substitute(query.query, {"window": query.window or window, "interval": settings.interval})
    part = f"{settings.name}/{query.name}.{query.of}.{query.statistic}"
    # Of a plain selector this is when its samples were taken; of anything computed, when it was computed.
    time = f"timestamp(\n{expression}\n)"
    way = Query(query.name, expression, time, query.of, unit, query.statistic, query.window, scale, part)
    return MetricQuery(part, (way,), "correct the query, or let Prometheus scrape what it asks for")
