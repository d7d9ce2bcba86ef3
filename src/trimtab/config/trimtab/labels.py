"""Parses and dumps the field `labels` of a `TrimtabConfiguration`: the rules by which nodes get pressure labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from trimtab.config.config_node import ConfigNode
from trimtab.config.schema import Parsed, dump_fields, parse_dataclass
from trimtab.config.trimtab.promql import query_error
from trimtab.config.trimtab.validation import validate_name
from trimtab.config.yaml import SequenceNode
from trimtab.core.load.pressure_rules import (
    MAX_AVERAGE_SECONDS,
    MEMORY_AVAILABLE,
    OWN_METRICS,
    PREFIX,
    RULE_QUERY_PREFIX,
    VALUE,
    Denominator,
    Direction,
    LabellingSettings,
    Rule,
)
from trimtab.core.model.duration import DAY
from trimtab.core.model.resources import NANOS
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.setting import setting
from trimtab.wire.quantity import QuantityError, nanos

CLEAR_MARGIN = 0.1  # of the threshold: how far the value must go back unless `clear` is set
ROUND_ABOVE = 1000.0  # larger values are rounded to whole numbers
_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%")


class Notation(StrEnum):
    """How a threshold is written."""

    PERCENT = "a percentage such as 80%"
    QUANTITY = "an amount such as 2Gi"
    NUMBER = "a number"


@dataclass(frozen=True, slots=True)
class LabelSpec:
    """A label as the file has it."""

    key: str | None = None
    value: str = VALUE


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """A rule as the file has it; raises ValueError unless it makes a valid Rule."""

    name: str = setting(
        "", "what logs call the rule; must be unique", required="each rule needs one", validate=validate_name
    )
    metric: str | None = setting(None, "cpu, memory or memory.available; or else a query", choices=OWN_METRICS)
    query: str = setting("", "any PromQL that returns one number per node", validate=query_error)
    source: str = setting("", "which source runs the query; may be left out if there is only one Prometheus")
    of: str | None = setting(
        None, "`capacity` unless set, or `allocatable`: what a percentage is of", choices=("capacity", "allocatable")
    )
    above: str | float | None = setting(None, "the threshold, where high values are bad: `80%`; a number for a query")
    below: str | float | None = setting(
        None, "the threshold, where low values are bad: `10%` or `2Gi` of memory.available; a number for a query"
    )
    clear: str | float | None = setting(
        None,
        "where pressure ends: nine tenths of `above`, or eleven tenths of `below` (at most half "
        "way to 100%), unless set",
    )
    over: float = setting(
        0.0,
        "the latest value unless set: the time range that is averaged first, at most 30m",
        seconds=(0, MAX_AVERAGE_SECONDS),
        omit_default=True,
    )
    hold: float = setting(
        30.0, "30s unless set: how long it must hold before the node is labelled", name="for", seconds=(0, DAY)
    )
    clear_for: float = setting(
        60.0, "1m unless set: how long it must be clear before the label is removed", seconds=(0, DAY)
    )
    label: LabelSpec | None = setting(
        None, f"key and value; `{PREFIX}` with the metric's or rule's name, `{VALUE}`, unless set or a taint is"
    )
    taint: str = setting("", f"a key under `{PREFIX}`, added with the effect PreferNoSchedule; none unless set")

    @staticmethod
    def check_fields(parsed: Parsed) -> None:
        entries = parsed.entries
        if ("metric" in entries) == ("query" in entries):
            parsed.node.error(f"needs either a metric ({', '.join(OWN_METRICS)}) or a query")
        elif "metric" in entries and "source" in entries:
            entries["source"].error("only applies to a query: a metric comes from any source that measures it")
        for field in ("over", "of") if "query" in entries else ():
            if field in entries:
                entries[field].error("only applies to a metric: average or divide in the query itself")
        if ("above" in entries) == ("below" in entries):
            parsed.node.error("needs either above or below")
        elif "metric" in parsed.values or "metric" not in entries:
            _check_thresholds(parsed)

    def __post_init__(self) -> None:
        self.rule()

    def rule(self) -> Rule:
        """The rule that this describes."""
        direction, written = (Direction.BELOW, self.below) if self.above is None else (Direction.ABOVE, self.above)
        notation, threshold = parse_threshold("" if written is None else written, _notations(self.metric))
        clear = self.clear if self.clear is None else parse_threshold(self.clear, (notation,))[1]
        return Rule(
            self.name,
            self.metric or f"{RULE_QUERY_PREFIX}{self.name}",
            threshold,
            _default_clear(threshold, direction, notation) if clear is None else clear,
            direction,
            Denominator(self.of or Denominator.CAPACITY) if notation is Notation.PERCENT else Denominator.NONE,
            *(self.over, self.hold, self.clear_for, self._label(), self.taint, self.query, self.source),
        )

    def _label(self) -> tuple[str, str] | None:
        default = PREFIX + (self.metric or self.name)
        if self.label is None:
            return None if self.taint else (default, VALUE)
        return default if self.label.key is None else self.label.key, self.label.value

    @classmethod
    def of_rule(cls, rule: Rule) -> RuleSpec:
        """How the file describes a rule."""
        notation = _notation_of(rule)
        threshold = dump_threshold(rule.threshold, notation)
        return cls(
            rule.name,
            None if rule.query else rule.metric,
            rule.query,
            rule.source,
            rule.denominator.value if notation is Notation.PERCENT else None,
            threshold if rule.direction is Direction.ABOVE else None,
            threshold if rule.direction is Direction.BELOW else None,
            dump_threshold(rule.clear, notation),
            *(rule.average_seconds, rule.for_seconds, rule.clear_for_seconds),
            None if rule.label is None else LabelSpec(*rule.label),
            rule.taint,
        )


def _check_thresholds(parsed: Parsed) -> None:
    notations = _notations(parsed.values.get("metric"))
    for field in ("above", "below", "clear"):
        try:
            if field in parsed.values:
                notations = (parse_threshold(parsed.values[field], notations)[0],)
        except ValueError as error:
            parsed.entries[field].error(str(error))


def _notations(metric: str | None) -> tuple[Notation, ...]:
    """How a threshold for this metric, or for a query, may be written."""
    if metric is None:
        return (Notation.NUMBER,)
    return (Notation.PERCENT, Notation.QUANTITY) if metric == MEMORY_AVAILABLE else (Notation.PERCENT,)


def parse_threshold(value: str | float, notations: tuple[Notation, ...]) -> tuple[Notation, float]:
    """The notation and the value, a percentage as a fraction; raises ValueError."""
    text = str(value)
    if Notation.NUMBER in notations:
        if isinstance(value, str):
            raise ValueError(f"expected a number, got {text[:40]!r}")
        return Notation.NUMBER, float(value)
    if Notation.PERCENT in notations and (found := _PERCENTAGE.fullmatch(text)):
        if not 0 < float(found[1]) <= 100:
            raise ValueError(f"{text} is not above 0% and at most 100%")
        return Notation.PERCENT, float(found[1]) / 100
    if Notation.QUANTITY in notations and (amount := _parse_amount(text)) is not None:
        return Notation.QUANTITY, amount
    raise ValueError(f"{text[:40]!r} is not {' or '.join(notations)}")


def _parse_amount(text: str) -> float | None:
    try:
        amount = nanos(text) / NANOS if text else 0.0
    except QuantityError:
        return None
    return amount if amount > 0 else None


def _notation_of(rule: Rule) -> Notation:
    if rule.query:
        return Notation.NUMBER
    return Notation.QUANTITY if rule.denominator is Denominator.NONE else Notation.PERCENT


def dump_threshold(value: float, notation: Notation) -> str | float:
    """The threshold as it is written in a file."""
    match notation:
        case Notation.PERCENT:
            return f"{_decimal(value * 100, 6)}%"
        case Notation.QUANTITY:
            return _decimal(value, 9)
    return value


def _decimal(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def default_clear(threshold: float, direction: Direction) -> float:
    """Where pressure ends unless the file says so: a tenth back from the threshold, rounded if that is large."""
    back = abs(threshold) * (-CLEAR_MARGIN if direction is Direction.ABOVE else CLEAR_MARGIN)
    return round(threshold + back, 9 if abs(threshold) < ROUND_ABOVE else None)


def _default_clear(threshold: float, direction: Direction, notation: Notation) -> float:
    """A fraction must stay reachable: at most half way to the whole."""
    clear = default_clear(threshold, direction)
    if notation is Notation.PERCENT and direction is Direction.BELOW:
        return min(clear, round((1 + threshold) / 2, 9))
    return clear


@dataclass(frozen=True, slots=True)
class LabelsSpec:
    """The whole field as the file has it."""

    mode: str = setting(
        "observe", "`observe` unless set: only logs what it would do; `apply` writes", choices=("observe", "apply")
    )
    expire_after: float = setting(
        LabellingSettings().expire_after,
        "5m unless set: after so long without trusted data a label is removed",
        seconds=(1, DAY),
    )
    exclude: tuple[Requirement, ...] = setting(
        (),
        "requirements of key, operator and values; nodes that match all of them are never "
        "labelled, nor are control planes",
    )
    rules: tuple[RuleSpec, ...] = setting((), "when a node is labelled, and how")

    @staticmethod
    def check_fields(parsed: Parsed) -> None:
        listed = parsed.entries["rules"].yaml if "rules" in parsed.entries else SequenceNode(())
        if isinstance(listed, SequenceNode) and not listed.items:
            parsed.node.error("rules are missing: name at least one, or remove this field")
        names = [each.name for each in parsed.values.get("rules", ())]
        for name in dict.fromkeys(each for each in names if names.count(each) > 1):
            parsed.entries["rules"].error(f"two rules are named {name}: names must be unique")


def parse_labels(node: ConfigNode) -> LabellingSettings | None:
    """The rules and how they are applied; None after a problem."""
    before = len(node.report.problems)
    spec = parse_dataclass(node, LabelsSpec)
    if not isinstance(spec, LabelsSpec) or len(node.report.problems) > before:
        return None
    rules = tuple(each.rule() for each in spec.rules)
    return LabellingSettings(rules, spec.mode == "apply", spec.exclude, spec.expire_after)


def dump_labels(labels: LabellingSettings) -> dict[str, object]:
    """Plain data that `parse_labels` turns into the same value."""
    rules = tuple(RuleSpec.of_rule(rule) for rule in labels.rules)
    return dump_fields(LabelsSpec("apply" if labels.apply else "observe", labels.expire_after, labels.exclude, rules))
