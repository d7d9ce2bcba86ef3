"""Label selectors as written in objects; which nodes or pods they match is computed where the labels are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

Pairs = tuple[tuple[str, str], ...]

LABEL_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})  # nodes alone can be asked for Gt and Lt
MAX_LABEL_VALUE = 63  # of a label

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")


class Requirement(Struct, frozen=True, gc=False):
    """One `key operator values` line of a selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether Kubernetes would accept it as a requirement on labels; an unsound one matches nothing."""
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
    """Pairs that must be equal and requirements that must hold; empty matches all, absent (None) matches nothing."""

    match_labels: Pairs = ()
    match_expressions: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    @property
    def valid(self) -> bool:
        """Whether Kubernetes would accept it; an unsound one matches nothing."""
        return all(_KEY.fullmatch(key) and _VALUE.fullmatch(value) for key, value in self.match_labels) and all(
            line.operator in LABEL_OPERATORS and line.valid for line in self.match_expressions
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a sound selector matches these labels."""
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            _matches(line, labels.get(line.key)) for line in self.match_expressions
        )


class NodeSelectorTerm(Struct, frozen=True, gc=False, rename="camel"):
    """All requirements on labels and on the node's name must hold; a term with none matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


def _matches(line: Requirement, value: str | None) -> bool:
    match line.operator:
        case "In":
            return value in line.values
        case "NotIn":
            return value not in line.values
        case "Exists":
            return value is not None
    return value is None


def label_pairs(labels: dict[str, str] | None) -> Pairs:
    """Labels as a value that can be hashed."""
    return tuple(sorted(labels.items())) if labels else ()


def parse_int64(text: str) -> int | None:
    """A label value as a 64-bit integer, or None; what `Gt` and `Lt` compare."""
    if not text.isascii() or not text.removeprefix("-").removeprefix("+").isdigit() or text[:2] in ("+-", "-+"):
        return None
    value = int(text) if len(text) <= MAX_LABEL_VALUE else 1 << 63
    return value if -(1 << 63) <= value < 1 << 63 else None
