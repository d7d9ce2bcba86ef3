"""Decides which single values fields of our own document take; which fields there are is left to `fields`.

Like the readers of `spot`, each answers None after it has reported a problem.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from typing import TypeVar

from trimtab.config.spot import Spot

HOUR = 3600.0
_NAME = re.compile(r"[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?", re.I)
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
Word = TypeVar("Word", bound=StrEnum)


def span(spot: Spot | None, low: float, high: float, otherwise: float) -> float:
    """A duration between two others."""
    seconds = spot.seconds() if spot is not None else None
    if spot is None or seconds is None:
        return otherwise
    if not low <= seconds <= high:
        spot.refuse(f"{told(seconds)} is not between {told(low)} and {told(high)}")
        return otherwise
    return seconds


def told(seconds: float) -> str:
    """A duration as people write it, exact to the nanosecond."""
    for size, unit in ((3600, "h"), (60, "m"), (1, "s")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds:.0f}s" if size == 1 else f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s" if seconds == float(f"{seconds:g}") else f"{round(seconds * 10**9)}ns"


def share(spot: Spot | None, otherwise: float) -> float:
    """A number above 0 and at most 1."""
    value = spot.number() if spot is not None else None
    if spot is None or value is None:
        return otherwise
    if not 0 < value <= 1:
        spot.refuse(f"{value:g} is not above 0 and at most 1")
        return otherwise
    return value


def truth(spot: Spot | None, otherwise: bool) -> bool:
    value = spot.truth() if spot is not None else None
    return otherwise if value is None else value


def word(spot: Spot | None, kind: type[Word], otherwise: Word) -> Word:
    """One of a closed list."""
    value = spot.choice([each.value for each in kind]) if spot is not None else None
    return otherwise if value is None else kind(value)


def words(spot: Spot, kind: type[Word]) -> tuple[Word, ...]:
    """Some of a closed list, each once."""
    return tuple(kind(value) for value in once(spot, [each.value for each in kind]))


def once(spot: Spot, choices: Collection[str] | None = None) -> tuple[str, ...]:
    """A list of texts, each once."""
    kept: dict[str, None] = {}
    for item in spot.items():
        value = item.text() if choices is None else item.choice(choices)
        if value in kept:
            item.refuse(f"{str(value)[:100]!r} stands twice in this list")
        elif value is not None:
            kept[value] = None
    return tuple(kept)


def name(spot: Spot, of: str) -> str | None:
    """A name for logs and metrics."""
    value = spot.text()
    if value is None or _NAME.fullmatch(value):
        return value
    spot.refuse(f"{value[:100]!r} is no name of a {of}: use up to 63 letters, digits, '-', '_' and '.'")
    return None


def is_label(text: str) -> bool:
    """Whether a label of Prometheus may be called so."""
    return _LABEL.fullmatch(text) is not None


def label(spot: Spot) -> str:
    """The name of a label of Prometheus."""
    value = spot.text()
    if value is not None and not is_label(value):
        spot.refuse(f"{value[:100]!r} is no name of a label: use letters, digits and '_'")
    return value or ""


def path(spot: Spot | None) -> str:
    """The path of a file; where it leads must be plain to see."""
    value = spot.text() if spot is not None else None
    if spot is None or value is None:
        return ""
    if (fault := path_fault(value)) is not None:
        spot.refuse(fault)
        return ""
    return value


def path_fault(value: str) -> str | None:
    """Why this is no path of a file that is plain to see."""
    if not value or not value.isprintable() or len(value) > 4096:
        return "is no path of a file: write one such as /etc/trimtab/token"
    return f"{value[:100]!r} leads through '..': write the path without" if ".." in value.split("/") else None
