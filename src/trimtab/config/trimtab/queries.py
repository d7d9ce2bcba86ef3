"""Decides which questions are put to a Prometheus: the built-in ones, and the user's own in place of them or beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.config.config_node import ConfigNode
from trimtab.config.tree import MappingNode, SequenceNode
from trimtab.config.trimtab.fields import known_fields
from trimtab.config.trimtab.promql import placeholders, validate_query
from trimtab.config.trimtab.settings import DEFAULT_METRICS, BuiltinMetric, QuerySettings, QueryUnit
from trimtab.config.trimtab.values import HOUR, parse_duration, parse_enum, parse_name
from trimtab.core.load.pressure_rules import AVAILABLE, Rule
from trimtab.core.model.readings import Statistic, Subject
from trimtab.core.model.resources import CPU, MEMORY

_SHARES = (QueryUnit.PERCENT, QueryUnit.RATIO)
UNITS: Mapping[str, tuple[QueryUnit, ...]] = {
    CPU: (*_SHARES, QueryUnit.CORES, QueryUnit.MILLICORES),
    MEMORY: (*_SHARES, QueryUnit.BYTES),
}
BUILT_IN: Mapping[tuple[str, Subject], BuiltinMetric] = {
    (CPU, Subject.NODES): BuiltinMetric.NODE_CPU,
    (MEMORY, Subject.NODES): BuiltinMetric.NODE_MEMORY,
    (CPU, Subject.PODS): BuiltinMetric.POD_CPU,
    (MEMORY, Subject.PODS): BuiltinMetric.POD_MEMORY,
}
Entries = Mapping[str, ConfigNode]


def parse_queries(node: ConfigNode) -> tuple[QuerySettings, ...]:
    """The user's own questions; two for the same answer are reported."""
    made: dict[tuple[str, Subject, Statistic], QuerySettings] = {}
    for item in node.items():
        query = _parse_query(item)
        key = (query.name, query.of, query.statistic)
        if query.name and key in made:
            item.error(f"a second query for the {query.statistic} {query.name} of {query.of}: which one is right?")
        made[key] = query
    return tuple(made.values())


def _parse_query(item: ConfigNode) -> QuerySettings:
    entries = known_fields(item, "sources[].prometheus.queries[]")
    for needed in ("name", "query"):
        if needed not in entries:
            item.error(f"{needed} is missing: a query has a name and its PromQL")
    window = parse_duration(entries.get("window"), 1.0, 24 * HOUR, 0.0)
    called = (parse_name(entries["name"], "metric") if "name" in entries else None) or ""
    return QuerySettings(
        called,
        _promql(entries["query"], window) if "query" in entries else "",
        parse_enum(entries.get("of"), Subject, Subject.NODES),
        _unit(item, entries.get("unit"), called),
        parse_enum(entries.get("statistic"), Statistic, Statistic.LATEST),
        window,
    )


def _promql(node: ConfigNode, window: float) -> str:
    text = node.string()
    if text is None:
        return ""
    fault = validate_query(text)
    if fault is not None:
        node.error(f"{text.strip()[:40]!r} {fault}")
    elif "window" in placeholders(text) and not window:
        node.error("uses $window: write the field window beside it")
    return text


def _unit(item: ConfigNode, node: ConfigNode | None, called: str) -> QueryUnit:
    unit = parse_enum(node, QueryUnit, QueryUnit.NONE)
    fitting = UNITS.get(called, (QueryUnit.NONE,))
    if called and unit not in fitting:
        where = node if node is not None else item
        where.error(f"the unit of {called} is {unit}: write {' or '.join(fitting)}")
    return unit


def select_metrics(
    chosen: tuple[BuiltinMetric, ...] | None, queries: tuple[QuerySettings, ...], entries: Entries
) -> tuple[BuiltinMetric, ...]:
    """The built-in questions that are still asked: a query of the user's own takes the place of one."""
    replaced = {BUILT_IN.get((query.name, query.of)) for query in queries if query.statistic is Statistic.LATEST}
    if chosen is None:
        return tuple(metric for metric in DEFAULT_METRICS if metric not in replaced)
    for metric in chosen:
        if metric in replaced:
            entries["metrics"].error(f"{metric} stands in metrics and has a query of its own: remove one of the two")
    return chosen


def check_not_empty(node: ConfigNode, called: str | None, rules: Iterable[Rule]) -> None:
    """A Prometheus with an empty list of metrics must have queries, or rules for labels that ask it something."""
    entries = node.entries() or {} if isinstance(node.yaml, MappingNode) else {}
    if "metrics" not in entries or not all(
        _is_empty(entries[each]) for each in ("metrics", "queries") if each in entries
    ):
        return
    if not any(rule.source in ("", called) if rule.query else rule.metric == AVAILABLE for rule in rules):
        names = ", ".join(sorted(BuiltinMetric))
        entries["metrics"].error(
            f"[] leaves nothing to measure: name some of {names}, write queries, or remove the field for the usual ones"
        )


def _is_empty(node: ConfigNode) -> bool:
    return isinstance(node.yaml, SequenceNode) and not node.yaml.items
