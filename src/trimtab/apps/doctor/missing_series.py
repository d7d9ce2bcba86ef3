"""Decides why nodes that exist have no usable series in a Prometheus, by the labels of those that there are.

Asked only for nodes that a look has missed; who is missed is `coverage`'s to say.
"""

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
    node_owners,
    parse_number,
    to_reading,
)

MAX_LABEL_CHARS = 100
TOO_FEW_SAMPLES, NO_ANSWER = "too few samples", "untold"
Series = Sequence[Any]


class MissingReason(NamedTuple):
    """Why a node has no value: a word, and what is peculiar to this node."""

    reason: str
    detail: str = ""


class SeriesDiagnosis(NamedTuple):
    """Why each node has none, where there is a trace of it; and how series are labelled that count for nobody."""

    missing: Mapping[str, MissingReason]
    unmatched: tuple[str, ...] = ()


async def diagnose(
    settings: PrometheusSettings, resource: str, nodes: Sequence[Node], missing: Collection[str], now: float
) -> SeriesDiagnosis:
    """One more look at what the source asks about this resource; nothing where it does not answer now."""
    ways = [way for question in plan_queries(settings) for way in question.alternatives]
    asked = [way for way in ways if (way.resource, way.subject) == (resource, Subject.NODES)]
    identity, asking = NodeMatcher(nodes, settings.node_label), PrometheusClient(settings)
    best: tuple[Query, dict[str | MatchFailure, list[Any]]] | None = None
    try:
        async with asyncio.timeout(settings.timeout):
            for way in asked:
                owned = _by_owner(await _series(asking, way, settings), identity)
                if best is None and owned:
                    best = way, owned
                if any(isinstance(owner, str) for owner in owned):
                    best = way, owned
                    break
    except (SourceError, TimeoutError):
        return SeriesDiagnosis(dict.fromkeys(missing, MissingReason(NO_ANSWER)))
    finally:
        await asking.close()
    return SeriesDiagnosis({}) if best is None else _diagnose_nodes(best, settings, identity, nodes, missing, now)


async def _series(asking: PrometheusClient, way: Query, settings: PrometheusSettings) -> Series:
    answer = await asking.post("/api/v1/query", {"query": way.promql, "timeout": f"{settings.timeout:g}"})
    found: Series = VECTOR_DECODERS[False].decode(answer, Counter())
    return found


def _by_owner(series: Series, identity: NodeMatcher) -> dict[str | MatchFailure, list[Any]]:
    owned: dict[str | MatchFailure, list[Any]] = {}
    for each in series:
        owned.setdefault(identity.match(each.metric), []).append(each)
    return owned


def _diagnose_nodes(
    best: tuple[Query, dict[str | MatchFailure, list[Any]]],
    settings: PrometheusSettings,
    identity: NodeMatcher,
    nodes: Sequence[Node],
    missing: Collection[str],
    now: float,
) -> SeriesDiagnosis:
    way, owned = best
    losses: dict[str, MissingReason] = {}
    unclear = _by_label_value(owned.get(MatchFailure.AMBIGUOUS, []))
    for node in (node for node in nodes if node.name in missing):
        mine = owned.get(node.name)
        if mine:
            losses[node.name] = _missing_reason(way, mine, identity, settings, now)
        elif named := [each for text in (node.name, *node.addresses) for each in unclear.get(text, ())]:
            losses[node.name] = MissingReason(MatchFailure.AMBIGUOUS.value, _example_labels(named, settings))
    nobody = dict.fromkeys(
        _identifying_labels(each.metric, settings) for each in _values(owned.get(MatchFailure.UNMATCHED, []))
    )
    return SeriesDiagnosis(losses, tuple(nobody))


def _missing_reason(
    way: Query, mine: Series, identity: NodeMatcher, settings: PrometheusSettings, now: float
) -> MissingReason:
    """Why the series of a node come to nothing, in the words of whoever left them out."""
    skipped = to_reading(way, mine, node_owners(identity), now, Counter()).skipped
    if skipped:
        return MissingReason(skipped[0][0], _example_labels(mine, settings))
    age = now - max(parse_number(each.value.value, 1.0) for each in mine)
    return MissingReason("stale", f"{age:.0f} s") if age > settings.rate_window else MissingReason(TOO_FEW_SAMPLES)


def _by_label_value(series: Series) -> dict[str, list[Any]]:
    """By whatever in their labels could be a name or an address."""
    found: dict[str, list[Any]] = {}
    for each in series:
        for text in {part for value in each.metric.values() for part in (value, strip_port(value))}:
            found.setdefault(text, []).append(each)
    return found


def _values(series: Series) -> list[Any]:
    return [each for each in series if each.metric.get(SERIES_KIND_LABEL) != TIME]


def _example_labels(series: Series, settings: PrometheusSettings) -> str:
    words = list(dict.fromkeys(_identifying_labels(each.metric, settings) for each in _values(series)))
    return " and ".join(words[:2])


def _identifying_labels(labels: Mapping[str, str], settings: PrometheusSettings) -> str:
    """The labels that could name a node; of a series without one, whatever it has."""
    wanted = NODE_LABELS if settings.node_label == AUTO else (settings.node_label, "instance")
    plain = {key: value for key, value in labels.items() if key != SERIES_KIND_LABEL and not key.startswith("__")}
    shown = {key: plain[key] for key in wanted if key in plain} or dict(list(plain.items())[:3])
    return printable(" ".join(f"{key}={value}" for key, value in shown.items()))[:MAX_LABEL_CHARS] or "no label at all"
