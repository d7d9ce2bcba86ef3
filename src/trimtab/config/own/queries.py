"""Decides which questions are put to a Prometheus: the built-in ones, and the user's own in place of them or beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.config.own.fields import found
from trimtab.config.own.promql import query_fault, used
from trimtab.config.own.settings import USUAL, Measure, Metric, QuerySettings
from trimtab.config.own.values import HOUR, name, span, word
from trimtab.config.spot import Spot
from trimtab.config.tree import Branch, Table
from trimtab.core.load.pressure_rules import AVAILABLE, Rule
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Statistic, Subject

_SHARES = (Measure.PERCENT, Measure.RATIO)
UNITS: Mapping[str, tuple[Measure, ...]] = {
    CPU: (*_SHARES, Measure.CORES, Measure.MILLICORES),
    MEMORY: (*_SHARES, Measure.BYTES),
}
BUILT_IN: Mapping[tuple[str, Subject], Metric] = {
    (CPU, Subject.NODES): Metric.NODE_CPU,
    (MEMORY, Subject.NODES): Metric.NODE_MEMORY,
    (CPU, Subject.PODS): Metric.POD_CPU,
    (MEMORY, Subject.PODS): Metric.POD_MEMORY,
}
Entries = Mapping[str, Spot]


def read_queries(spot: Spot) -> tuple[QuerySettings, ...]:
    """The user's own questions; two for the same answer are reported."""
    made: dict[tuple[str, Subject, Statistic], QuerySettings] = {}
    for item in spot.items():
        query = _read_query(item)
        key = (query.name, query.of, query.statistic)
        if query.name and key in made:
            item.refuse(f"a second query for the {query.statistic} {query.name} of {query.of}: which one is right?")
        made[key] = query
    return tuple(made.values())


def _read_query(item: Spot) -> QuerySettings:
    entries = found(item, "sources[].prometheus.queries[]")
    for needed in ("name", "query"):
        if needed not in entries:
            item.refuse(f"{needed} is missing: a query has a name and its PromQL")
    window = span(entries.get("window"), 1.0, 24 * HOUR, 0.0)
    called = (name(entries["name"], "metric") if "name" in entries else None) or ""
    return QuerySettings(
        called,
        _promql(entries["query"], window) if "query" in entries else "",
        word(entries.get("of"), Subject, Subject.NODES),
        _unit(item, entries.get("unit"), called),
        word(entries.get("statistic"), Statistic, Statistic.LATEST),
        window,
    )


def _promql(spot: Spot, window: float) -> str:
    text = spot.text()
    if text is None:
        return ""
    fault = query_fault(text)
    if fault is not None:
        spot.refuse(f"{text.strip()[:40]!r} {fault}")
    elif "window" in used(text) and not window:
        spot.refuse("uses $window: write the field window beside it")
    return text


def _unit(item: Spot, spot: Spot | None, called: str) -> Measure:
    unit = word(spot, Measure, Measure.NONE)
    fitting = UNITS.get(called, (Measure.NONE,))
    if called and unit not in fitting:
        where = spot if spot is not None else item
        where.refuse(f"the unit of {called} is {unit}: write {' or '.join(fitting)}")
    return unit


def check_queries(
    chosen: tuple[Metric, ...] | None, queries: tuple[QuerySettings, ...], entries: Entries
) -> tuple[Metric, ...]:
    """The built-in questions that are still asked: a query of the user's own takes the place of one."""
    replaced = {BUILT_IN.get((query.name, query.of)) for query in queries if query.statistic is Statistic.LATEST}
    if chosen is None:
        return tuple(metric for metric in USUAL if metric not in replaced)
    for metric in chosen:
        if metric in replaced:
            entries["metrics"].refuse(f"{metric} stands in metrics and has a query of its own: remove one of the two")
    return chosen


def check_asked(spot: Spot, called: str | None, rules: Iterable[Rule]) -> None:
    """A Prometheus with an empty list of metrics must have queries, or rules for labels that ask it something."""
    entries = spot.entries() or {} if isinstance(spot.tree, Table) else {}
    if "metrics" not in entries or not all(
        _is_empty(entries[each]) for each in ("metrics", "queries") if each in entries
    ):
        return
    if not any(rule.source in ("", called) if rule.query else rule.metric == AVAILABLE for rule in rules):
        names = ", ".join(sorted(Metric))
        entries["metrics"].refuse(
            f"[] leaves nothing to measure: name some of {names}, write queries, or remove the field for the usual ones"
        )


def _is_empty(spot: Spot) -> bool:
    return isinstance(spot.tree, Branch) and not spot.tree.items
