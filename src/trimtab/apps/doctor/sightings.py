"""Decides why nodes that exist have no usable series in a Prometheus, by the labels of those that there are.

Asked only for nodes that a look has missed; who is missed is `coverage`'s to say.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from trimtab.config.own.settings import AUTO, PrometheusSettings
from trimtab.config.problem import printable
from trimtab.core.model.node import Node
from trimtab.core.model.sample import Subject
from trimtab.sources.contract import SourceError
from trimtab.sources.prometheus.answers import KIND, VECTORS
from trimtab.sources.prometheus.asking import Asking
from trimtab.sources.prometheus.gathering import gather, number_of, of_nodes
from trimtab.sources.prometheus.identity import NODE_LABELS, Identity, Nobody, host_of
from trimtab.sources.prometheus.query import TIME, Query
from trimtab.sources.prometheus.questions import questions

LONGEST = 100
YOUNG, UNTOLD = "too few samples", "untold"
Series = Sequence[Any]


class Loss(NamedTuple):
    """Why a node has no value: a word, and what is peculiar to this node."""

    reason: str
    detail: str = ""


class Sighting(NamedTuple):
    """Why each node has none, where there is a trace of it; and how series are labelled that count for nobody."""

    losses: Mapping[str, Loss]
    strangers: tuple[str, ...] = ()


async def sighted(
    settings: PrometheusSettings, resource: str, nodes: Sequence[Node], missing: Collection[str], now: float
) -> Sighting:
    """One more look at what the source asks about this resource; nothing where it does not answer now."""
    ways = [way for question in questions(settings) for way in question.ways]
    asked = [way for way in ways if (way.resource, way.subject) == (resource, Subject.NODES)]
    identity, asking = Identity(nodes, settings.node_label), Asking(settings)
    best: tuple[Query, dict[str | Nobody, list[Any]]] | None = None
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
        return Sighting(dict.fromkeys(missing, Loss(UNTOLD)))
    finally:
        await asking.close()
    return Sighting({}) if best is None else _sorted_out(best, settings, identity, nodes, missing, now)


async def _series(asking: Asking, way: Query, settings: PrometheusSettings) -> Series:
    answer = await asking.ask("/api/v1/query", {"query": way.text, "timeout": f"{settings.timeout:g}"})
    found: Series = VECTORS[False].read(answer, Counter())
    return found


def _by_owner(series: Series, identity: Identity) -> dict[str | Nobody, list[Any]]:
    owned: dict[str | Nobody, list[Any]] = {}
    for each in series:
        owned.setdefault(identity.node_of(each.metric), []).append(each)
    return owned


def _sorted_out(
    best: tuple[Query, dict[str | Nobody, list[Any]]],
    settings: PrometheusSettings,
    identity: Identity,
    nodes: Sequence[Node],
    missing: Collection[str],
    now: float,
) -> Sighting:
    way, owned = best
    losses: dict[str, Loss] = {}
    unclear = _by_text(owned.get(Nobody.AMBIGUOUS, []))
    for node in (node for node in nodes if node.name in missing):
        mine = owned.get(node.name)
        if mine:
            losses[node.name] = _loss(way, mine, identity, settings, now)
        elif named := [each for text in (node.name, *node.addresses) for each in unclear.get(text, ())]:
            losses[node.name] = Loss(Nobody.AMBIGUOUS.value, _labelled(named, settings))
    nobody = dict.fromkeys(_words(each.metric, settings) for each in _values(owned.get(Nobody.UNMATCHED, [])))
    return Sighting(losses, tuple(nobody))


def _loss(way: Query, mine: Series, identity: Identity, settings: PrometheusSettings, now: float) -> Loss:
    """Why the series of a node come to nothing, in the words of whoever left them out."""
    skipped = gather(way, mine, of_nodes(identity), now, Counter()).skipped
    if skipped:
        return Loss(skipped[0][0], _labelled(mine, settings))
    age = now - max(number_of(each.value.value, 1.0) for each in mine)
    return Loss("stale", f"{age:.0f} s") if age > settings.rate_window else Loss(YOUNG)


def _by_text(series: Series) -> dict[str, list[Any]]:
    """By whatever in their labels could be a name or an address."""
    found: dict[str, list[Any]] = {}
    for each in series:
        for text in {part for value in each.metric.values() for part in (value, host_of(value))}:
            found.setdefault(text, []).append(each)
    return found


def _values(series: Series) -> list[Any]:
    return [each for each in series if each.metric.get(KIND) != TIME]


def _labelled(series: Series, settings: PrometheusSettings) -> str:
    words = list(dict.fromkeys(_words(each.metric, settings) for each in _values(series)))
    return " and ".join(words[:2])


def _words(labels: Mapping[str, str], settings: PrometheusSettings) -> str:
    """The labels that could name a node; of a series without one, whatever it has."""
    wanted = NODE_LABELS if settings.node_label == AUTO else (settings.node_label, "instance")
    plain = {key: value for key, value in labels.items() if key != KIND and not key.startswith("__")}
    shown = {key: plain[key] for key in wanted if key in plain} or dict(list(plain.items())[:3])
    return printable(" ".join(f"{key}={value}" for key, value in shown.items()))[:LONGEST] or "no label at all"
