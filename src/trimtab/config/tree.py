"""A file's content with the line and column of each piece; what the pieces mean is left to the readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Place = tuple[int, int]
NOWHERE: Place = (0, 0)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value; `doubt` says why readers of YAML disagree about it, and then nothing may rely on it."""

    value: bool | int | float | str | None
    place: Place = NOWHERE
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """A list."""

    items: tuple[Tree, ...]
    place: Place = NOWHERE


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping, with the place of each key."""

    entries: Mapping[str, Tree]
    keys: Mapping[str, Place]
    place: Place = NOWHERE


Tree = Leaf | Branch | Table


def plant(value: object) -> Tree:
    """The same tree from plain data (decoded JSON, say), which has no places."""
    if isinstance(value, Mapping):
        entries = {str(key): plant(each) for key, each in value.items()}
        return Table(entries, dict.fromkeys(entries, NOWHERE))
    if isinstance(value, list | tuple):
        return Branch(tuple(plant(each) for each in value))
    if value is None or isinstance(value, bool | int | float | str):
        return Leaf(value)
    raise TypeError(f"{type(value).__name__} is not plain data")
