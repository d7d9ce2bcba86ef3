"""Decides what text is acceptable YAML and where each piece of it stands; leaves the meaning of the pieces to others.

Stricter than YAML 1.1: a key may stand only once, what readers of YAML disagree about (`no`, `012`, `1:30`) is marked
as doubtful, tags and merge keys are refused, and size, depth and the growth of aliases are bounded.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from trimtab.config.problem import ConfigError, Problem
from trimtab.config.tree import Branch, Leaf, Place, Table, Tree

MAX_BYTES = 1 << 20  # what a ConfigMap can hold
MAX_DEPTH = 50
MAX_NODES = 50_000

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,19})")
_DECIMAL = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_DOUBTFUL_NUMBER = re.compile(
    r"[-+]?(0[0-9_]+|0[xob][0-9a-f_]+|[0-9][0-9_]*_[0-9_]*|[0-9]{20,}|[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?|\.(inf|nan))",
    re.IGNORECASE,
)
_DOUBTFUL_WORDS = {"yes", "no", "on", "off"}
_CONSTANTS: dict[str, bool | None] = {
    spelling: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
} | {"": None, "~": None}
_TEXT_TAG = "tag:yaml.org,2002:str"


def documents(content: str | bytes, file: str) -> tuple[Tree, ...]:
    """The documents of a file, empty ones left out; raises ConfigError with all that is wrong with the form."""
    text = _checked_text(content, file)
    growing = _Growing(file)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            growing.take(event)
    except yaml.YAMLError as error:
        growing.problems.append(_syntax_problem(error, text, file))
    if growing.problems:
        raise ConfigError(growing.problems)
    found = tuple(tree for tree in growing.roots if not (isinstance(tree, Leaf) and tree.value is None))
    if not found:
        raise ConfigError([Problem(file, 0, 0, "", "the file is empty")])
    return found


def _checked_text(content: str | bytes, file: str) -> str:
    size = len(content)
    if size > MAX_BYTES:
        raise _refused(file, (0, 0), f"the file is larger than {MAX_BYTES} bytes")
    text = content if isinstance(content, str) else _decoded(content, file)
    if text.startswith("\ufeff"):
        raise _refused(file, (1, 1), "the file starts with a byte order mark: save it as UTF-8 without one")
    if (strange := _UNPRINTABLE.search(text)) is not None:
        code = f"U+{ord(strange.group()):04X}"
        raise _refused(file, _place_of(text, strange.start()), f"the character {code} may not stand in a YAML file")
    return text


def _decoded(content: bytes, file: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        place = _place_of(content[: error.start].decode(), error.start)
        raise _refused(file, place, "the file is not UTF-8 text") from None


def _place_of(text: str, offset: int) -> Place:
    before = text[:offset]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _refused(file: str, place: Place, message: str) -> ConfigError:
    return ConfigError([Problem(file, *place, "", message)])


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return Problem(file, 0, 0, "", f"not YAML: {error}")
    said = str(getattr(error, "problem", None) or error)
    line = text.splitlines()[mark.line] if mark.line < len(text.splitlines()) else ""
    if line[mark.column : mark.column + 1] == "\t":
        said = "a tab stands where only spaces may indent"
    return Problem(file, mark.line + 1, mark.column + 1, "", f"not YAML: {said}")


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end is still to come."""

    place: Place
    anchor: str | None
    before: int
    is_table: bool
    items: list[Tree] = field(default_factory=list)
    entries: dict[str, Tree] = field(default_factory=dict)
    keys: dict[str, Place] = field(default_factory=dict)
    key: str | None = None

    def tree(self) -> Tree:
        if self.is_table:
            return Table(self.entries, self.keys, self.place)
        return Branch(tuple(self.items), self.place)


class _Growing:
    """Builds trees out of parser events, without recursion, so that no nesting can exhaust the stack."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.roots: list[Tree] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Tree, int]] = {}
        self._nodes = 0

    def take(self, event: Any) -> None:
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        match event:
            case yaml.DocumentStartEvent():
                self._anchors = {}
            case yaml.ScalarEvent():
                self._count(1, place)
                self._add(self._leaf(event, place), event.anchor, 1)
            case yaml.AliasEvent():
                tree, size = self._anchored(str(event.anchor), place)
                self._count(size, place)
                self._add(tree, None, size)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event, place)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                done = self._open.pop()
                tree = done.tree()
                self._add(tree, done.anchor, self._nodes - done.before)

    def _begin(self, event: Any, place: Place) -> None:
        if event.tag is not None:
            self._refuse(place, f"the tag {event.tag} is not supported")
        if len(self._open) >= MAX_DEPTH:
            raise _refused(self.file, place, f"nested deeper than {MAX_DEPTH} levels")
        before = self._nodes
        self._count(1, place)
        self._open.append(_Open(place, event.anchor, before, isinstance(event, yaml.MappingStartEvent)))

    def _anchored(self, name: str, place: Place) -> tuple[Tree, int]:
        if name not in self._anchors:
            raise _refused(self.file, place, f"the alias *{name} refers to nothing that stands complete before it")
        return self._anchors[name]

    def _count(self, nodes: int, place: Place) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _refused(self.file, place, f"more than {MAX_NODES} values, aliases counted in full")

    def _add(self, tree: Tree, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (tree, size)
        if not self._open:
            self.roots.append(tree)
            return
        top = self._open[-1]
        if not top.is_table:
            top.items.append(tree)
        elif top.key is None:
            top.key = self._key(tree, top)
        else:
            top.entries.setdefault(top.key, tree)
            top.key = None

    def _key(self, tree: Tree, table: _Open) -> str:
        """The key's text; a bad one is reported and stands in under a name that no field has."""
        value = tree.value if isinstance(tree, Leaf) else None
        if not isinstance(value, str):
            self._refuse(tree.place, "a key must be text")
        elif isinstance(tree, Leaf) and tree.doubt:
            self._refuse(tree.place, tree.doubt)
        elif value == "<<":
            self._refuse(tree.place, "merge keys are not supported: write the fields out")
        elif value in table.keys:
            self._refuse(tree.place, f"the key {value} stands twice, first in line {table.keys[value][0]}")
        name = str(value)
        table.keys.setdefault(name, tree.place)
        return name

    def _leaf(self, event: Any, place: Place) -> Leaf:
        if event.tag not in (None, "!", _TEXT_TAG):
            self._refuse(place, f"the tag {event.tag} is not supported")
        plain = event.implicit[0] and event.tag is None
        return _resolved(event.value, place) if plain else Leaf(event.value, place)

    def _refuse(self, place: Place, message: str) -> None:
        self.problems.append(Problem(self.file, *place, "", message))


def _resolved(word: str, place: Place) -> Leaf:
    """What an unquoted word stands for."""
    if word in _CONSTANTS:
        return Leaf(_CONSTANTS[word], place)
    if _WHOLE.fullmatch(word):
        return Leaf(int(word), place)
    if word.lower() in _DOUBTFUL_WORDS:
        return Leaf(
            word, place, f"{word} is a truth value to some and text to others: write true or false, or quote it"
        )
    if _DOUBTFUL_NUMBER.fullmatch(word):
        return Leaf(
            word, place, f"{word[:30]} is no plain number: write it as a decimal one, or quote it if it is text"
        )
    if _DECIMAL.fullmatch(word) and math.isfinite(float(word)):
        return Leaf(float(word), place)
    return Leaf(word, place)
