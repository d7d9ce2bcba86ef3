"""A file's content with the line and column of each piece; what the pieces mean is left to the readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Position = tuple[int, int]
NO_POSITION: Position = (0, 0)


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A single value; `doubt` says why readers of YAML disagree about it, and then nothing may rely on it."""

    value: bool | int | float | str | None
    position: Position = NO_POSITION
    ambiguity: str = ""


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    items: tuple[YamlNode, ...]
    position: Position = NO_POSITION


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping, with the place of each key."""

    entries: Mapping[str, YamlNode]
    key_positions: Mapping[str, Position]
    position: Position = NO_POSITION


YamlNode = ScalarNode | SequenceNode | MappingNode


def from_plain(value: object) -> YamlNode:
    """The same tree from plain data (decoded JSON, say), which has no places."""
    if isinstance(value, Mapping):
        entries = {str(key): from_plain(each) for key, each in value.items()}
        return MappingNode(entries, dict.fromkeys(entries, NO_POSITION))
    if isinstance(value, list | tuple):
        return SequenceNode(tuple(from_plain(each) for each in value))
    if value is None or isinstance(value, bool | int | float | str):
        return ScalarNode(value)
    raise TypeError(f"{type(value).__name__} is not plain data")
