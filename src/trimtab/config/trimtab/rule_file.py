"""Decides what a rule.yaml asks for, the format of the labeller that was here before us; touches no file itself.

    PromJob: {Name: any}            # read and set aside, as ever
    Rulename:
      Node_mem: {Promsql: "(1 - MemAvailable/MemTotal)*100", Threshold: 70}

Every rule puts `status=presure` on nodes above its threshold. What used to make labels flap and healthy nodes look
pressed can be said beside it: Direction (above, below), Clear, For and ClearFor.
"""

from __future__ import annotations

from trimtab.config.config_node import ConfigNode, Report
from trimtab.config.tree import ScalarNode
from trimtab.config.trimtab.labels import default_clear
from trimtab.config.trimtab.promql import validate_query
from trimtab.config.trimtab.values import HOUR, parse_duration
from trimtab.config.yaml import parse_documents
from trimtab.core.load.pressure_rules import LEGACY_KEY, LEGACY_VALUE, OF_A_RULE, Direction, Of, Rule

FIELDS = ("Promsql", "Threshold", "Direction", "Clear", "For", "ClearFor")
CLEAR_FOR = 60.0
MAX_NAME_LENGTH = 63


def parse_rule_file(content: str | bytes, file: str) -> tuple[Rule, ...]:
    """The rules of a file; raises ConfigError with all its problems."""
    report = Report(file)
    first, *rest = parse_documents(content, file)
    for tree in rest:
        ConfigNode(tree, report).error("a second document is not read: put all rules under one Rulename")
    root = ConfigNode(first, report)
    entries = root.fields(["PromJob", "Rulename"]) or {}
    found = (entries["Rulename"].entries() or {}) if "Rulename" in entries else {}
    rules = [_parse_rule(called, spot) for called, spot in found.items()]
    if not rules and not report.problems:
        root.error("has no rules: write at least one under Rulename, with Promsql and Threshold")
    report.finish()
    return tuple(rule for rule in rules if rule is not None)


def _parse_rule(called: str, node: ConfigNode) -> Rule | None:
    before, entries = len(node.report.problems), node.fields(FIELDS) or {}
    if not called or len(called) > MAX_NAME_LENGTH or not called.isprintable():
        node.error(f"{called[:40]!r} is no name of a rule: use up to {MAX_NAME_LENGTH} characters that can be read")
    for needed in ("Promsql", "Threshold"):
        if needed not in entries:
            node.error(f"{needed} is missing")
    query = entries["Promsql"].string() if "Promsql" in entries else None
    if query is not None and (fault := validate_query(query)) is not None:
        entries["Promsql"].error(f"{query.strip()[:40]!r} {fault}")
    edge = _parse_number(entries["Threshold"]) if "Threshold" in entries else None
    direction = (
        Direction(entries["Direction"].choice(["above", "below"]) or "above") if "Direction" in entries else None
    )
    clear = _parse_number(entries["Clear"]) if "Clear" in entries else None
    hold, rest = (
        parse_duration(entries.get("For"), 0, 24 * HOUR, 0.0),
        parse_duration(entries.get("ClearFor"), 0, 24 * HOUR, CLEAR_FOR),
    )
    if len(node.report.problems) > before or query is None or edge is None:
        return None
    side = direction or Direction.ABOVE
    label = (LEGACY_KEY, LEGACY_VALUE)
    low = default_clear(edge, side) if clear is None else clear
    try:
        return Rule(called, f"{OF_A_RULE}{called}", edge, low, side, Of.ITSELF, 0.0, hold, rest, label, query=query)
    except ValueError as error:
        node.error(str(error))
    return None


def _parse_number(node: ConfigNode) -> float | None:
    """A number, or a text that is one: the format always took it as text."""
    value = node.yaml.value if isinstance(node.yaml, ScalarNode) else None
    if not isinstance(value, str):
        return node.number()
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if number - number != 0 or not value.strip().isascii():  # neither NaN nor infinite
        node.error(f"{value[:40]!r} is no number")
        return None
    return number
