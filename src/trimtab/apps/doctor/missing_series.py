"""Diagnoses why a node has no usable series in Prometheus, by the labels of the series that there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from trimtab.config.diagnostics import printable
from trimtab.config.trimtab.settings import AUTO, PrometheusSettings
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Subject
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.client import PrometheusClient
from trimtab.sources.prometheus.node_matching import NODE_LABELS, MatchFailure, NodeMatcher, strip_port
from trimtab.sources.prometheus.queries import SERIES_KIND_LABEL, TIME, Query, plan_queries
from trimtab.sources.prometheus.response import (
    VECTOR_DECODERS,
    SeriesList,
    node_owners,
    parse_number,
    to_reading,
)

MAX_LABEL_CHARS = 100
TOO_FEW_SAMPLES, NO_ANSWER = "too few samples", "no response"


class MissingReason(NamedTuple):
    """Why a node or pod has no value, and the details of this one."""

    reason: str
    detail: str = ""


class SeriesDiagnosis(NamedTuple):
    """Why each node has no value, as far as series tell; and the labels of series that match no node."""

    missing: Mapping[str, MissingReason]
    unmatched: tuple[str, ...] = ()


async def diagnose(
    settings: PrometheusSettings, resource: str, nodes: Sequence[Node], missing: Collection[str], now: float
) -> SeriesDiagnosis:
    """Run the source's queries for this metric once more, and match their series to nodes."""
    queries = [query for planned in plan_queries(settings) for query in planned.alternatives]
    relevant = [query for query in queries if (query.resource, query.subject) == (resource, Subject.NODES)]
    matcher, client = NodeMatcher(nodes, settings.node_label), PrometheusClient(settings)
    best: tuple[Query, dict[str | MatchFailure, list[Any]]] | None = None
    try:
        async with asyncio.timeout(settings.timeout):
            for query in relevant:
                by_owner = _by_owner(await _series(client, query, settings), matcher)
                if best is None and by_owner:
                    best = query, by_owner
                if any(isinstance(match, str) for match in by_owner):
                    best = query, by_owner
                    break
    except (SourceError, TimeoutError):
        return SeriesDiagnosis(dict.fromkeys(missing, MissingReason(NO_ANSWER)))
    finally:
        await client.close()
    return SeriesDiagnosis({}) if best is None else _diagnose_nodes(best, settings, matcher, nodes, missing, now)


async def _series(client: PrometheusClient, query: Query, settings: PrometheusSettings) -> SeriesList:
    response = await client.post("/api/v1/query", {"query": query.promql, "timeout": f"{settings.timeout:g}"})
    found: SeriesList = VECTOR_DECODERS[False].decode(response, Counter())
    return found


def _by_owner(series: SeriesList, matcher: NodeMatcher) -> dict[str | MatchFailure, list[Any]]:
    by_owner: dict[str | MatchFailure, list[Any]] = {}
    for each in series:
        by_owner.setdefault(matcher.match(each.metric), []).append(each)
    return by_owner


def _diagnose_nodes(
    best: tuple[Query, dict[str | MatchFailure, list[Any]]],
    settings: PrometheusSettings,
    matcher: NodeMatcher,
    nodes: Sequence[Node],
    missing: Collection[str],
    now: float,
) -> SeriesDiagnosis:
    query, by_owner = best
    missing_reasons: dict[str, MissingReason] = {}
    ambiguous = _by_label_value(by_owner.get(MatchFailure.AMBIGUOUS, []))
    for node in (node for node in nodes if node.name in missing):
        series = by_owner.get(node.name)
        if series:
            missing_reasons[node.name] = _missing_reason(query, series, matcher, settings, now)
        elif named := [each for text in (node.name, *node.addresses) for each in ambiguous.get(text, ())]:
            missing_reasons[node.name] = MissingReason(MatchFailure.AMBIGUOUS.value, _example_labels(named, settings))
    unmatched = dict.fromkeys(
        _identifying_labels(each.metric, settings) for each in _values(by_owner.get(MatchFailure.UNMATCHED, []))
    )
    return SeriesDiagnosis(missing_reasons, tuple(unmatched))


def _missing_reason(
    query: Query, series: SeriesList, matcher: NodeMatcher, settings: PrometheusSettings, now: float
) -> MissingReason:
    """Why the series of a node give no value."""
    skipped = to_reading(query, series, node_owners(matcher), now, Counter()).skipped
    if skipped:
        return MissingReason(skipped[0][0], _example_labels(series, settings))
    age = now - max(parse_number(each.value.value, 1.0) for each in series)
    return MissingReason("stale", f"{age:.0f} s") if age > settings.rate_window else MissingReason(TOO_FEW_SAMPLES)


def _by_label_value(series: SeriesList) -> dict[str, list[Any]]:
    """By each label value that could be a name or an address."""
    found: dict[str, list[Any]] = {}
    for each in series:
        for text in {part for value in each.metric.values() for part in (value, strip_port(value))}:
            found.setdefault(text, []).append(each)
    return found


def _values(series: SeriesList) -> list[Any]:
    return [each for each in series if each.metric.get(SERIES_KIND_LABEL) != TIME]


def _example_labels(series: SeriesList, settings: PrometheusSettings) -> str:
    words = list(dict.fromkeys(_identifying_labels(each.metric, settings) for each in _values(series)))
    return " and ".join(words[:2])


def _identifying_labels(labels: Mapping[str, str], settings: PrometheusSettings) -> str:
    """The labels that could identify a node; of a series without such labels, the first three."""
    wanted = NODE_LABELS if settings.node_label == AUTO else (settings.node_label, "instance")
    plain = {key: value for key, value in labels.items() if key != SERIES_KIND_LABEL and not key.startswith("__")}
    shown = {key: plain[key] for key in wanted if key in plain} or dict(list(plain.items())[:3])
    return printable(" ".join(f"{key}={value}" for key, value in shown.items()))[:MAX_LABEL_CHARS] or "no labels"
