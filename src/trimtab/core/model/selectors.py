"""Label selectors as written in objects, and their validation with Kubernetes' own error texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping

from msgspec import Struct

Pairs = tuple[tuple[str, str], ...]

LABEL_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})  # Gt and Lt are for nodes only
MAX_LABEL_VALUE = 63  # of a label

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
# One part of a selector's text: `key=value`, `key!=value`, `key in (a, b)`, `key notin (a, b)`, `key` or `!key`.
_PART = re.compile(
    r"\s*(?:!\s*(?P<absent>[^\s=!,()]+)|(?P<key>[^\s=!,()]+)"
    r"(?:\s*(?P<sign>==?|!=)\s*(?P<value>[^\s=!,()]*)|\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def is_label_key(text: str) -> bool:
    """Whether Kubernetes accepts this as the key of a label, or as the name of a resource."""
    return _KEY.fullmatch(text) is not None


class Requirement(Struct, frozen=True, gc=False):
    """One `key operator values` line of a selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether Kubernetes accepts it as a requirement on labels; an invalid one matches nothing."""
        if not _KEY.fullmatch(self.key) or not all(_VALUE.fullmatch(value) for value in self.values):
            return False
        match self.operator:
            case "In" | "NotIn":
                return bool(self.values)
            case "Exists" | "DoesNotExist":
                return not self.values
            case "Gt" | "Lt":
                return len(self.values) == 1 and parse_int64(self.values[0]) is not None
        return False


class LabelSelector(Struct, frozen=True, gc=False):
    """An empty selector matches everything; an absent one (None) matches nothing."""

    match_labels: Pairs = ()
    match_expressions: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    @property
    def valid(self) -> bool:
        """Whether Kubernetes accepts it; an invalid one matches nothing."""
        return all(_KEY.fullmatch(key) and _VALUE.fullmatch(value) for key, value in self.match_labels) and all(
            line.operator in LABEL_OPERATORS and line.valid for line in self.match_expressions
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a valid selector matches these labels."""
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            _matches(line.operator, line.values, labels.get(line.key)) for line in self.match_expressions
        )

    def matcher(self) -> Callable[[Mapping[str, str]], bool]:
        """`matches` for many labels: a list of values is searched once, not each time."""
        if not any(len(line.values) > 1 for line in self.match_expressions):
            return self.matches
        lines = [(line.key, line.operator, frozenset(line.values)) for line in self.match_expressions]
        return lambda labels: (
            all(labels.get(key) == value for key, value in self.match_labels)
            and all(_matches(operator, values, labels.get(key)) for key, operator, values in lines)
        )


class NodeSelectorTerm(Struct, frozen=True, gc=False, rename="camel"):
    """All requirements on labels and on the node's name must match; an empty term matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


def _matches(operator: str, values: Container[str | None], value: str | None) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
    return value is None


def parse_selector(text: str) -> LabelSelector | None:
    """A selector as `kubectl get -l` takes it, all of whose parts must match; None if it is invalid or empty."""
    labels, lines, at = dict[str, str](), list[Requirement](), 0
    while at < len(text):
        if (part := _PART.match(text, at)) is None:
            return None
        line, at = _parse_part(part), part.end()
        if line.operator == "In" and len(line.values) == 1 and line.key not in labels:
            labels[line.key] = line.values[0]
        else:
            lines.append(line)
    selector = LabelSelector(tuple(labels.items()), tuple(lines))
    return selector if selector.valid and not selector.empty and not text.rstrip().endswith(",") else None


def _parse_part(part: re.Match[str]) -> Requirement:
    if part["absent"]:
        return Requirement(part["absent"], "DoesNotExist")
    if part["sign"]:
        return Requirement(part["key"], "NotIn" if part["sign"] == "!=" else "In", (part["value"],))
    if part["word"]:
        values = tuple(each.strip() for each in part["values"].split(","))
        return Requirement(part["key"], "In" if part["word"] == "in" else "NotIn", values)
    return Requirement(part["key"], "Exists")


def label_pairs(labels: dict[str, str] | None) -> Pairs:
    """Labels as a hashable value."""
    return tuple(sorted(labels.items())) if labels else ()


def parse_int64(text: str) -> int | None:
    """A label value as a 64-bit integer, for `Gt` and `Lt`; None if it is not one."""
    if not text.isascii() or not text.removeprefix("-").removeprefix("+").isdigit() or text[:2] in ("+-", "-+"):
        return None
    value = int(text) if len(text) <= MAX_LABEL_VALUE else 1 << 63
    return value if -(1 << 63) <= value < 1 << 63 else None


def selector_error(selector: LabelSelector | None) -> str:
    """The selector's first error in Kubernetes' words; empty if it is valid."""
    if selector is None or selector.valid:
        return ""
    lines = (*(Requirement(key, "In", (value,)) for key, value in selector.match_labels), *selector.match_expressions)
    return next((error for error in map(_requirement_error, lines) if error), "")


def _requirement_error(line: Requirement) -> str:
    if line.operator not in LABEL_OPERATORS:
        return f"{json.dumps(line.operator)} is not a valid label selector operator"
    if line.valid:
        return ""
    if not Requirement(line.key, "Exists").valid:
        return f"key: Invalid value: {json.dumps(line.key)}: not a valid label key"
    if line.operator in ("In", "NotIn") and not line.values:
        return "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    if line.operator not in ("In", "NotIn"):
        return (
            f"values: Invalid value: {json.dumps(line.values)}: values set must be empty for exists and does not exist"
        )
    index, value = next(
        (index, value) for index, value in enumerate(line.values) if not Requirement(line.key, "In", (value,)).valid
    )
    return f"values[{index}][{line.key}]: Invalid value: {json.dumps(value)}: {_VALUE_RULE}"
