"""Reads typed values out of a tree and reports what does not fit; which values are wanted is left to callers.

Every reader answers None after it has reported a problem, so that one pass over a file finds all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from trimtab.config.problem import ConfigError, Note, Problem, did_you_mean
from trimtab.config.tree import Branch, Leaf, Place, Table, Tree
from trimtab.core.model.span import duration

INT32 = (1 << 31) - 1
INT64 = (1 << 63) - 1


@dataclass(slots=True)
class Report:
    """What was found in one file so far."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    beside: Callable[[str], tuple[str, bytes]] | None = None  # reads a file that this one names; raises OSError

    def settle(self) -> tuple[Note, ...]:
        """The notes of a file that is fit for use; raises ConfigError with the problems of one that is not."""
        if self.problems:
            raise ConfigError(self.problems)
        return tuple(sorted(self.notes, key=lambda note: (note.line, note.column)))


@dataclass(frozen=True, slots=True)
class Spot:
    """A piece of the file, how one gets to it, and where to report about it."""

    tree: Tree
    report: Report
    path: str = ""

    def refuse(self, message: str, place: Place | None = None) -> None:
        where = place or self.tree.place
        self.report.problems.append(Problem(self.report.file, *where, self.path, message))

    def note(self, message: str, kind: type[Note] = Note) -> None:
        self.report.notes.append(kind(self.report.file, *self.tree.place, self.path, message))

    def entries(self) -> dict[str, Spot] | None:
        """The mapping's fields without those that are null, which Kubernetes takes as not set."""
        if not isinstance(self.tree, Table):
            self._unexpected("a mapping")
            return None
        return {key: self.child(key) for key, each in self.tree.entries.items() if not _is_null(each)}

    def fields(self, names: Collection[str]) -> dict[str, Spot] | None:
        """The mapping's fields, where only these may stand."""
        entries = self.entries()
        if entries is None or not isinstance(self.tree, Table):
            return None
        for key in self.tree.keys:
            if key not in names:
                self.child(key).refuse(f"unknown field{did_you_mean(key, names)}", self.tree.keys[key])
        return {key: spot for key, spot in entries.items() if key in names}

    def child(self, key: str) -> Spot:
        assert isinstance(self.tree, Table)
        return Spot(self.tree.entries[key], self.report, f"{self.path}.{key}" if self.path else key)

    def items(self) -> list[Spot]:
        """The list's items; none, and a problem, where there is no list."""
        if not isinstance(self.tree, Branch):
            self._unexpected("a list")
            return []
        return [Spot(each, self.report, f"{self.path}[{number}]") for number, each in enumerate(self.tree.items)]

    def text(self) -> str | None:
        value = self._value()
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            self.refuse(f"expected text, got {_described(self.tree)}: put it in quotes")
        else:
            self._unexpected("text")
        return None

    def choice(self, choices: Collection[str]) -> str | None:
        value = self.text()
        if value is None or value in choices:
            return value
        listed = ", ".join(sorted(choices))
        self.refuse(f"{value[:100]!r} is none of {listed}{did_you_mean(value, choices)}")
        return None

    def truth(self) -> bool | None:
        value = self._value()
        if isinstance(value, bool):
            return value
        self._unexpected("true or false")
        return None

    def whole(self, low: int = -INT64, high: int = INT64) -> int | None:
        value = self._value()
        if isinstance(value, bool) or not isinstance(value, int):
            self._unexpected("a whole number")
            return None
        if not low <= value <= high:
            self.refuse(f"{value} is not between {low} and {high}")
            return None
        return value

    def number(self) -> float | None:
        value = self._value()
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._unexpected("a number")
            return None
        return float(value)

    def seconds(self) -> float | None:
        """A duration as Go writes it: `15s`, `1h30m`, `1.5s`."""
        value = self._value()
        if not isinstance(value, str):
            self._unexpected('a duration such as "15s"')
            return None
        seconds = duration(value)
        if seconds is None:
            self.refuse(f'{value[:30]!r} is no duration: write a number and a unit, such as "15s", "1m30s" or "500ms"')
        return seconds

    def _value(self) -> object:
        """The single value; None where there is none or nobody can rely on it."""
        return self.tree.value if isinstance(self.tree, Leaf) and not self.tree.doubt else None

    def _unexpected(self, wanted: str) -> None:
        if isinstance(self.tree, Leaf) and self.tree.doubt:
            self.refuse(self.tree.doubt)
        else:
            self.refuse(f"expected {wanted}, got {_described(self.tree)}")


def texts(spot: Spot) -> tuple[str, ...]:
    """A list of texts; those that are none are reported and left out."""
    return tuple(value for item in spot.items() if (value := item.text()) is not None)


def _is_null(tree: Tree) -> bool:
    return isinstance(tree, Leaf) and tree.value is None


def _described(tree: Tree) -> str:
    match tree:
        case Table():
            return "a mapping"
        case Branch():
            return "a list"
        case Leaf(value=None):
            return "nothing"
        case Leaf(value=bool() as truth):
            return str(truth).lower()
        case Leaf(value=int() | float() as number):
            return f"the number {number}"
        case Leaf(value=value):
            return f"the text {str(value)[:40]!r}"


def nothing(report: Report, path: str = "") -> Spot:
    """The place where an absent mapping would be."""
    empty: Mapping[str, Tree] = {}
    return Spot(Table(empty, {}), report, path)
