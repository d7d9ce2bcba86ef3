"""Decides what the field `labels` asks for: rules in our own format; those of a rule.yaml are read by `rule_file`."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.config.config_node import ConfigNode, strings
from trimtab.config.trimtab.promql import validate_query
from trimtab.config.trimtab.thresholds import NUMBER, PERCENT, QUANTITY, Notation, dump_threshold, parse_threshold
from trimtab.config.trimtab.values import HOUR, format_duration, parse_duration, parse_name
from trimtab.core.load.pressure_rules import (
    AVAILABLE,
    LONGEST_AVERAGE,
    OF_A_RULE,
    OWN_METRICS,
    PREFIX,
    VALUE,
    Direction,
    Labelling,
    Of,
    Rule,
)
from trimtab.core.model.selectors import Requirement

DAY = 24 * HOUR
OBSERVE, APPLY = "observe", "apply"
CLEAR_MARGIN = 0.1  # of the threshold: how far back the measure must go unless `clear` says so
ROUND_ABOVE = 1000.0  # from here on fractions are dust
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
LABELS_FIELDS = {
    "mode": "`observe` unless set: only says what it would do; `apply` writes",
    "expireAfter": "5m unless set: without trusted data for this long a mark is taken off",
    "exclude": "lines of key, operator and values; nodes for which all hold are never marked, nor are control planes",
    "rules": "what marks a node, and how",
}
RULE_FIELDS = {
    "name": "what logs call the rule; each needs its own",
    "metric": "cpu, memory or memory.available; or else a query",
    "query": "any PromQL that gives one number a node",
    "source": "which source is asked the query; may be left out where there is one Prometheus alone",
    "of": "`capacity` unless set, or `allocatable`: what a percentage is of",
    "above": "the threshold, where much is trouble: `80%`; for a query a number",
    "below": "the threshold, where little is: `10%` or `2Gi` of memory.available; for a query a number",
    "clear": "how far it must go back: nine tenths of `above`, or eleven of `below` (half way to 100% at most), unless set",
    "over": "the latest value unless set: the span of samples that is averaged first, at most 30m",
    "for": "30s unless set: how long it must hold before the node is marked",
    "clearFor": "1m unless set: how long it must be clear before the mark goes",
    "label": f"key and value; `{PREFIX}` with the metric's or rule's name, `{VALUE}`, unless set or a taint is",
    "taint": f"a key under `{PREFIX}`, put with the effect PreferNoSchedule; none unless set",
}


def parse_labels(node: ConfigNode) -> Labelling | None:
    """What nodes are marked for, and how; None after a problem."""
    before, entries = len(node.report.problems), node.fields(LABELS_FIELDS) or {}
    mode = entries["mode"].choice([OBSERVE, APPLY]) if "mode" in entries else OBSERVE
    expire = parse_duration(entries.get("expireAfter"), 1.0, DAY, Labelling().expire_after)
    exclude = tuple(map(_parse_requirement, entries["exclude"].items())) if "exclude" in entries else ()
    rules = [_parse_rule(item) for item in entries["rules"].items()] if "rules" in entries else []
    if not rules and len(node.report.problems) == before:
        node.error("rules are missing: name at least one, or remove this field")
    if len(node.report.problems) > before:
        return None
    try:
        return Labelling(tuple(rule for rule in rules if rule), mode == APPLY, exclude, expire)
    except ValueError as error:
        entries["rules"].error(f"{error}: each needs a name of its own")
    return None


def _parse_requirement(node: ConfigNode) -> Requirement:
    before, entries = len(node.report.problems), node.fields(["key", "operator", "values"]) or {}
    key = entries["key"].string() if "key" in entries else ""
    operator = entries["operator"].choice(OPERATORS) if "operator" in entries else ""
    line = Requirement(key or "", operator or "", strings(entries["values"]) if "values" in entries else ())
    if len(node.report.problems) == before and not line.valid:
        node.error("is no line of a selector: write key, operator (In, NotIn, Exists, DoesNotExist) and values")
    return line


def _parse_rule(node: ConfigNode) -> Rule | None:
    before, entries = len(node.report.problems), node.fields(RULE_FIELDS) or {}
    if "name" not in entries:
        node.error("the name is missing")
        return None
    called = parse_name(entries["name"], "rule") or ""
    metric = _parse_metric(node, entries, called)
    direction, edge = _parse_threshold(node, entries, metric)
    label, taint = _parse_label_and_taint(entries, metric if metric in OWN_METRICS else called)
    if len(node.report.problems) > before or edge is None:
        return None
    scale, value = edge
    clear = (
        parse_threshold(entries["clear"], (scale,))
        if "clear" in entries
        else (scale, _default_clear(value, direction, scale))
    )
    over, hold = (
        parse_duration(entries.get("over"), 0.0, LONGEST_AVERAGE, 0.0),
        parse_duration(entries.get("for"), 0.0, DAY, 30.0),
    )
    rest = parse_duration(entries.get("clearFor"), 0.0, DAY, 60.0)
    of = Of(entries["of"].choice(["capacity", "allocatable"]) or "capacity") if "of" in entries else Of.CAPACITY
    if clear is None or len(node.report.problems) > before:
        return None
    try:
        return Rule(
            called,
            metric,
            value,
            clear[1],
            direction,
            of if scale is PERCENT else Of.ITSELF,
            *(over, hold, rest, label, taint),
            (entries["query"].string() or "") if "query" in entries else "",
            (entries["source"].string() or "") if "source" in entries else "",
        )
    except ValueError as error:
        node.error(str(error))
    return None


def default_clear(value: float, direction: Direction) -> float:
    """Where a mark goes again unless the file says so: a tenth back from the threshold, to a whole byte where it is any."""
    back = abs(value) * (-CLEAR_MARGIN if direction is Direction.ABOVE else CLEAR_MARGIN)
    return round(value + back, 9 if abs(value) < ROUND_ABOVE else None)


def _default_clear(value: float, direction: Direction, scale: Notation) -> float:
    """Of a share never beyond the whole: a mark that nothing can clear would stay."""
    found = default_clear(value, direction)
    return min(found, round((1 + value) / 2, 9)) if scale is PERCENT and direction is Direction.BELOW else found


def _parse_metric(node: ConfigNode, entries: Mapping[str, ConfigNode], called: str) -> str:
    if ("metric" in entries) == ("query" in entries):
        node.error(f"needs either a metric ({', '.join(OWN_METRICS)}) or a query")
        return ""
    if "metric" in entries:
        if "source" in entries:
            entries["source"].error("belongs to a query: a metric is taken from whoever measures it")
        return entries["metric"].choice(OWN_METRICS) or ""
    query = entries["query"].string()
    if query is not None and (fault := validate_query(query)) is not None:
        entries["query"].error(f"{query.strip()[:40]!r} {fault}")
    for field in ("over", "of"):
        if field in entries:
            entries[field].error("belongs to a metric: let the query itself average or divide")
    return f"{OF_A_RULE}{called}"


def _parse_threshold(
    node: ConfigNode, entries: Mapping[str, ConfigNode], metric: str
) -> tuple[Direction, tuple[Notation, float] | None]:
    if ("above" in entries) == ("below" in entries):
        node.error("needs either above or below: on which side of which threshold is the trouble?")
        return Direction.ABOVE, None
    direction = Direction.ABOVE if "above" in entries else Direction.BELOW
    scales = (PERCENT, QUANTITY) if metric == AVAILABLE else (PERCENT,) if metric in OWN_METRICS else (NUMBER,)
    return direction, parse_threshold(entries[direction.value], scales)


def _parse_label_and_taint(entries: Mapping[str, ConfigNode], suffix: str) -> tuple[tuple[str, str] | None, str]:
    taint = (entries["taint"].string() or "") if "taint" in entries else ""
    if "label" not in entries:
        return (None, taint) if taint else ((PREFIX + suffix, VALUE), "")
    pair = entries["label"].fields(["key", "value"]) or {}
    key = pair["key"].string() if "key" in pair else PREFIX + suffix
    value = pair["value"].string() if "value" in pair else VALUE
    return (key or "", value or ""), taint


def dump_labels(labels: Labelling) -> dict[str, object]:
    """Plain data that `parse_labels` turns into the same value again."""
    lines = [{"key": each.key, "operator": each.operator, "values": list(each.values)} for each in labels.exclude]
    return {
        "mode": APPLY if labels.apply else OBSERVE,
        "expireAfter": format_duration(labels.expire_after),
        **({"exclude": lines} if lines else {}),
        "rules": [_dump_rule(rule) for rule in labels.rules],
    }


def _dump_rule(rule: Rule) -> dict[str, object]:
    scale = NUMBER if rule.query else QUANTITY if rule.of is Of.ITSELF else PERCENT
    asked: dict[str, object] = {"query": rule.query, "source": rule.source} if rule.query else {"metric": rule.metric}
    return {
        "name": rule.name,
        **{field: value for field, value in asked.items() if value},
        **({"of": rule.of.value} if scale is PERCENT else {}),
        rule.direction.value: dump_threshold(rule.threshold, scale),
        "clear": dump_threshold(rule.clear, scale),
        **({"over": format_duration(rule.over)} if rule.over else {}),
        "for": format_duration(rule.hold),
        "clearFor": format_duration(rule.clear_for),
        **({"label": dict(zip(("key", "value"), rule.label, strict=True))} if rule.label else {}),
        **({"taint": rule.taint} if rule.taint else {}),
    }
