"""Parses YAML into nodes with their line and column.

Stricter than YAML 1.1: keys are unique, what YAML parsers disagree about (`no`, `012`, `1:30`) is marked as ambiguous,
tags and merge keys are rejected, and size, depth and the growth of aliases are bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from trimtab.config.diagnostics import ConfigError, Problem

MAX_BYTES = 1 << 20  # what a ConfigMap can hold
MAX_DEPTH = 50
MAX_NODES = 50_000

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,19})")
_DECIMAL = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_AMBIGUOUS_NUMBER = re.compile(
    r"[-+]?(0[0-9_]+|0[xob][0-9a-f_]+|[0-9][0-9_]*_[0-9_]*|[0-9]{20,}|[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?|\.(inf|nan))",
    re.IGNORECASE,
)
_AMBIGUOUS_WORDS = {"yes", "no", "on", "off"}
_CONSTANTS: dict[str, bool | None] = {
    spelling: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
} | {"": None, "~": None}
_STRING_TAG = "tag:yaml.org,2002:str"

Position = tuple[int, int]
NO_POSITION: Position = (0, 0)


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A single value; `ambiguity` says why YAML parsers disagree about it, and then it must not be used."""

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
    """A mapping, with the position of each key."""

    entries: Mapping[str, YamlNode]
    key_positions: Mapping[str, Position]
    position: Position = NO_POSITION


YamlNode = ScalarNode | SequenceNode | MappingNode


def from_plain(value: object) -> YamlNode:
    """The same from plain data such as decoded JSON, without positions."""
    if isinstance(value, Mapping):
        entries = {str(key): from_plain(each) for key, each in value.items()}
        return MappingNode(entries, dict.fromkeys(entries, NO_POSITION))
    if isinstance(value, list | tuple):
        return SequenceNode(tuple(from_plain(each) for each in value))
    if value is None or isinstance(value, bool | int | float | str):
        return ScalarNode(value)
    raise TypeError(f"{type(value).__name__} is not plain data")


def parse_documents(content: str | bytes, file: str, origin: Position = (0, 0)) -> tuple[YamlNode, ...]:
    """The documents of a file without empty ones; raises ConfigError with all syntax problems.

    origin: the lines and columns before the text, if it is part of a larger file.
    """
    text = _check_text(content, file)
    builder = _TreeBuilder(file, origin)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.handle_event(event)
    except yaml.YAMLError as error:
        builder.problems.append(_syntax_problem(error, text, file, origin))
    if builder.problems:
        raise ConfigError(builder.problems)
    found = tuple(tree for tree in builder.roots if not (isinstance(tree, ScalarNode) and tree.value is None))
    if not found:
        raise ConfigError([Problem(file, 0, 0, "", "the file is empty")])
    return found


def _check_text(content: str | bytes, file: str) -> str:
    size = len(content)
    if size > MAX_BYTES:
        raise _config_error(file, (0, 0), f"the file is larger than {MAX_BYTES} bytes")
    text = content if isinstance(content, str) else _decode(content, file)
    if text.startswith("\ufeff"):
        raise _config_error(file, (1, 1), "the file starts with a byte order mark: save it as UTF-8 without one")
    if (strange := _UNPRINTABLE.search(text)) is not None:
        code = f"U+{ord(strange.group()):04X}"
        raise _config_error(file, _position_of(text, strange.start()), f"the character {code} is not allowed in YAML")
    return text


def _decode(content: bytes, file: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        place = _position_of(content[: error.start].decode(), error.start)
        raise _config_error(file, place, "the file is not UTF-8 text") from None


def _position_of(text: str, offset: int) -> Position:
    before = text[:offset]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _config_error(file: str, place: Position, message: str) -> ConfigError:
    return ConfigError([Problem(file, *place, "", message)])


def _syntax_problem(error: yaml.YAMLError, text: str, file: str, origin: Position) -> Problem:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return Problem(file, 0, 0, "", f"not YAML: {error}")
    message = str(getattr(error, "problem", None) or error)
    line = text.splitlines()[mark.line] if mark.line < len(text.splitlines()) else ""
    if line[mark.column : mark.column + 1] == "\t":
        message = "indent with spaces, not tabs"
    return Problem(file, *_position(mark, origin), "", f"not YAML: {message}")


def _position(mark: Any, origin: Position) -> Position:
    """Line and column of a mark, counted from 1."""
    return origin[0] + mark.line + 1, origin[1] + mark.column + 1


@dataclass(slots=True)
class _OpenCollection:
    """A list or mapping whose end has not been parsed yet."""

    position: Position
    anchor: str | None
    nodes_before: int
    is_mapping: bool
    items: list[YamlNode] = field(default_factory=list)
    entries: dict[str, YamlNode] = field(default_factory=dict)
    key_positions: dict[str, Position] = field(default_factory=dict)
    key: str | None = None

    def build(self) -> YamlNode:
        if self.is_mapping:
            return MappingNode(self.entries, self.key_positions, self.position)
        return SequenceNode(tuple(self.items), self.position)


class _TreeBuilder:
    """Builds nodes from parser events, without recursion, so that no nesting can exhaust the stack."""

    def __init__(self, file: str, origin: Position) -> None:
        self.file, self.origin = file, origin
        self.problems: list[Problem] = []
        self.roots: list[YamlNode] = []
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[YamlNode, int]] = {}
        self._nodes = 0

    def handle_event(self, event: Any) -> None:
        place = _position(event.start_mark, self.origin)
        match event:
            case yaml.DocumentStartEvent():
                self._anchors = {}
            case yaml.ScalarEvent():
                self._count(1, place)
                self._add(self._scalar(event, place), event.anchor, 1)
            case yaml.AliasEvent():
                tree, size = self._anchored(str(event.anchor), place)
                self._count(size, place)
                self._add(tree, None, size)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event, place)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                done = self._open.pop()
                tree = done.build()
                self._add(tree, done.anchor, self._nodes - done.nodes_before)

    def _begin(self, event: Any, place: Position) -> None:
        if event.tag is not None:
            self._error(place, f"the tag {event.tag} is not supported")
        if len(self._open) >= MAX_DEPTH:
            raise _config_error(self.file, place, f"nested deeper than {MAX_DEPTH} levels")
        before = self._nodes
        self._count(1, place)
        self._open.append(_OpenCollection(place, event.anchor, before, isinstance(event, yaml.MappingStartEvent)))

    def _anchored(self, name: str, place: Position) -> tuple[YamlNode, int]:
        if name not in self._anchors:
            raise _config_error(self.file, place, f"the alias *{name} is not defined before this line")
        return self._anchors[name]

    def _count(self, nodes: int, place: Position) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _config_error(self.file, place, f"more than {MAX_NODES} values, aliases counted in full")

    def _add(self, tree: YamlNode, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (tree, size)
        if not self._open:
            self.roots.append(tree)
            return
        top = self._open[-1]
        if not top.is_mapping:
            top.items.append(tree)
        elif top.key is None:
            top.key = self._key(tree, top)
        else:
            top.entries.setdefault(top.key, tree)
            top.key = None

    def _key(self, tree: YamlNode, table: _OpenCollection) -> str:
        """The key; an invalid one is reported, and replaced by a name that no field has."""
        value = tree.value if isinstance(tree, ScalarNode) else None
        if not isinstance(value, str):
            self._error(tree.position, "a key must be a string")
        elif isinstance(tree, ScalarNode) and tree.ambiguity:
            self._error(tree.position, tree.ambiguity)
        elif value == "<<":
            self._error(tree.position, "merge keys are not supported: write the fields out")
        elif value in table.key_positions:
            self._error(tree.position, f"duplicate key {value}, first set in line {table.key_positions[value][0]}")
        name = str(value)
        table.key_positions.setdefault(name, tree.position)
        return name

    def _scalar(self, event: Any, place: Position) -> ScalarNode:
        if event.tag not in (None, "!", _STRING_TAG):
            self._error(place, f"the tag {event.tag} is not supported")
        plain = event.implicit[0] and event.tag is None
        return _resolve_plain(event.value, place) if plain else ScalarNode(event.value, place)

    def _error(self, place: Position, message: str) -> None:
        self.problems.append(Problem(self.file, *place, "", message))


def _resolve_plain(word: str, place: Position) -> ScalarNode:
    """The value of an unquoted scalar."""
    if word in _CONSTANTS:
        return ScalarNode(_CONSTANTS[word], place)
    if _INTEGER.fullmatch(word):
        return ScalarNode(int(word), place)
    if word.lower() in _AMBIGUOUS_WORDS:
        return ScalarNode(
            word,
            place,
            f"{word} is a boolean to some YAML parsers and a string to others: write true or false, or quote it",
        )
    if _AMBIGUOUS_NUMBER.fullmatch(word):
        return ScalarNode(
            word, place, f"{word[:30]} is not a plain decimal number: write it as one, or quote it if it is a string"
        )
    if _DECIMAL.fullmatch(word) and math.isfinite(float(word)):
        return ScalarNode(float(word), place)
    return ScalarNode(word, place)
