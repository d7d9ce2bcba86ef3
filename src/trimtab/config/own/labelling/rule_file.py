"""Decides what a rule.yaml asks for, the format of the labeller that was here before us; touches no file itself.

    PromJob: {Name: any}            # read and set aside, as ever
    Rulename:
      Node_mem: {Promsql: "(1 - MemAvailable/MemTotal)*100", Threshold: 70}

Every rule puts `status=presure` on nodes above its threshold. What used to make labels flap and healthy nodes look
pressed can be said beside it: Direction (above, below), Clear, For and ClearFor.
"""

from __future__ import annotations

from trimtab.config.own.labelling.labels import reserve
from trimtab.config.own.promql import query_fault
from trimtab.config.own.values import HOUR, span
from trimtab.config.spot import Report, Spot
from trimtab.config.tree import Leaf
from trimtab.config.yaml import documents
from trimtab.core.load.pressure_rules import LEGACY_KEY, LEGACY_VALUE, OF_A_RULE, Direction, Of, Rule

FIELDS = ("Promsql", "Threshold", "Direction", "Clear", "For", "ClearFor")
CLEAR_FOR = 60.0
LONGEST_NAME = 63


def read_rules(content: str | bytes, file: str) -> tuple[Rule, ...]:
    """The rules of a file; raises ConfigError with all its problems."""
    report = Report(file)
    first, *rest = documents(content, file)
    for tree in rest:
        Spot(tree, report).refuse("a second document is not read: put all rules under one Rulename")
    root = Spot(first, report)
    entries = root.fields(["PromJob", "Rulename"]) or {}
    found = (entries["Rulename"].entries() or {}) if "Rulename" in entries else {}
    rules = [_read_rule(called, spot) for called, spot in found.items()]
    if not rules and not report.problems:
        root.refuse("has no rules: write at least one under Rulename, with Promsql and Threshold")
    report.settle()
    return tuple(rule for rule in rules if rule is not None)


def _read_rule(called: str, spot: Spot) -> Rule | None:
    before, entries = len(spot.report.problems), spot.fields(FIELDS) or {}
    if not called or len(called) > LONGEST_NAME or not called.isprintable():
        spot.refuse(f"{called[:40]!r} is no name of a rule: use up to {LONGEST_NAME} characters that can be read")
    for needed in ("Promsql", "Threshold"):
        if needed not in entries:
            spot.refuse(f"{needed} is missing")
    query = entries["Promsql"].text() if "Promsql" in entries else None
    if query is not None and (fault := query_fault(query)) is not None:
        entries["Promsql"].refuse(f"{query.strip()[:40]!r} {fault}")
    edge = _number(entries["Threshold"]) if "Threshold" in entries else None
    direction = (
        Direction(entries["Direction"].choice(["above", "below"]) or "above") if "Direction" in entries else None
    )
    clear = _number(entries["Clear"]) if "Clear" in entries else None
    hold, rest = span(entries.get("For"), 0, 24 * HOUR, 0.0), span(entries.get("ClearFor"), 0, 24 * HOUR, CLEAR_FOR)
    if len(spot.report.problems) > before or query is None or edge is None:
        return None
    side = direction or Direction.ABOVE
    label = (LEGACY_KEY, LEGACY_VALUE)
    low = reserve(edge, side) if clear is None else clear
    try:
        return Rule(called, f"{OF_A_RULE}{called}", edge, low, side, Of.ITSELF, 0.0, hold, rest, label, query=query)
    except ValueError as error:
        spot.refuse(str(error))
    return None


def _number(spot: Spot) -> float | None:
    """A number, or a text that is one: the format always took it as text."""
    value = spot.tree.value if isinstance(spot.tree, Leaf) else None
    if not isinstance(value, str):
        return spot.number()
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if number - number != 0 or not value.strip().isascii():  # neither NaN nor infinite
        spot.refuse(f"{value[:40]!r} is no number")
        return None
    return number
