"""Decides which single values fields of our own document take; which fields there are is left to `fields`.

Like the readers of `spot`, each answers None after it has reported a problem.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from typing import TypeVar

from trimtab.config.config_node import ConfigNode

HOUR = 3600.0
_NAME = re.compile(r"[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?", re.I)
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
Word = TypeVar("Word", bound=StrEnum)


def parse_duration(node: ConfigNode | None, low: float, high: float, default: float) -> float:
    """A duration between two others."""
    seconds = node.duration() if node is not None else None
    if node is None or seconds is None:
        return default
    if not low <= seconds <= high:
        node.error(f"{format_duration(seconds)} is not between {format_duration(low)} and {format_duration(high)}")
        return default
    return seconds


def format_duration(seconds: float) -> str:
    """A duration as people write it, exact to the nanosecond."""
    for size, unit in ((3600, "h"), (60, "m"), (1, "s")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds:.0f}s" if size == 1 else f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s" if seconds == float(f"{seconds:g}") else f"{round(seconds * 10**9)}ns"


def parse_ratio(node: ConfigNode | None, default: float) -> float:
    """A number above 0 and at most 1."""
    value = node.number() if node is not None else None
    if node is None or value is None:
        return default
    if not 0 < value <= 1:
        node.error(f"{value:g} is not above 0 and at most 1")
        return default
    return value


def parse_boolean(node: ConfigNode | None, default: bool) -> bool:
    value = node.boolean() if node is not None else None
    return default if value is None else value


def parse_enum(node: ConfigNode | None, kind: type[Word], default: Word) -> Word:
    """One of a closed list."""
    value = node.choice([each.value for each in kind]) if node is not None else None
    return default if value is None else kind(value)


def parse_enums(node: ConfigNode, kind: type[Word]) -> tuple[Word, ...]:
    """Some of a closed list, each once."""
    return tuple(kind(value) for value in parse_unique(node, [each.value for each in kind]))


def parse_unique(node: ConfigNode, choices: Collection[str] | None = None) -> tuple[str, ...]:
    """A list of texts, each once."""
    kept: dict[str, None] = {}
    for item in node.items():
        value = item.string() if choices is None else item.choice(choices)
        if value in kept:
            item.error(f"{str(value)[:100]!r} stands twice in this list")
        elif value is not None:
            kept[value] = None
    return tuple(kept)


def parse_name(node: ConfigNode, of: str) -> str | None:
    """A name for logs and metrics."""
    value = node.string()
    if value is None or _NAME.fullmatch(value):
        return value
    node.error(f"{value[:100]!r} is no name of a {of}: use up to 63 letters, digits, '-', '_' and '.'")
    return None


def is_label_name(text: str) -> bool:
    """Whether a label of Prometheus may be called so."""
    return _LABEL.fullmatch(text) is not None


def parse_label_name(node: ConfigNode) -> str:
    """The name of a label of Prometheus."""
    value = node.string()
    if value is not None and not is_label_name(value):
        node.error(f"{value[:100]!r} is no name of a label: use letters, digits and '_'")
    return value or ""


def parse_path(node: ConfigNode | None) -> str:
    """The path of a file; where it leads must be plain to see."""
    value = node.string() if node is not None else None
    if node is None or value is None:
        return ""
    if (fault := validate_path(value)) is not None:
        node.error(fault)
        return ""
    return value


def validate_path(value: str) -> str | None:
    """Why this is no path of a file that is plain to see."""
    if not value or not value.isprintable() or len(value) > 4096:
        return "is no path of a file: write one such as /etc/trimtab/token"
    return f"{value[:100]!r} leads through '..': write the path without" if ".." in value.split("/") else None
