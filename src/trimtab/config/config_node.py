"""A value of a configuration file with its path and position: typed accessors that report what does not fit.

Every accessor returns None after it has reported a problem, so that one pass over a file finds all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from trimtab.config.diagnostics import ConfigError, Note, Problem, did_you_mean
from trimtab.config.yaml import MappingNode, Position, ScalarNode, SequenceNode, YamlNode
from trimtab.core.model.duration import INT64, parse_duration


@dataclass(slots=True)
class Report:
    """The problems and notes of one file so far."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    read_file: Callable[[str], tuple[str, bytes]] | None = None  # reads a file that this one names; raises OSError

    def finish(self) -> tuple[Note, ...]:
        """The notes of a valid file; raises ConfigError with the problems of an invalid one."""
        if self.problems:
            raise ConfigError(self.problems)
        return tuple(sorted(self.notes, key=lambda note: (note.line, note.column)))


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A value, its path in the file, and the report for its problems."""

    yaml: YamlNode
    report: Report
    path: str = ""

    def error(self, message: str, position: Position | None = None) -> None:
        where = position or self.yaml.position
        self.report.problems.append(Problem(self.report.file, *where, self.path, message))

    def note(self, message: str, kind: type[Note] = Note) -> None:
        self.report.notes.append(kind(self.report.file, *self.yaml.position, self.path, message))

    def entries(self) -> dict[str, ConfigNode] | None:
        """The fields of the mapping without those that are null, which count as unset, as in Kubernetes."""
        if not isinstance(self.yaml, MappingNode):
            self._unexpected("a mapping")
            return None
        return {key: self.child(key) for key, each in self.yaml.entries.items() if not _is_null(each)}

    def fields(self, names: Collection[str]) -> dict[str, ConfigNode] | None:
        """The same, where only these names are allowed."""
        entries = self.entries()
        if entries is None or not isinstance(self.yaml, MappingNode):
            return None
        for key in self.yaml.key_positions:
            if key not in names:
                self.child(key).error(f"unknown field{did_you_mean(key, names)}", self.yaml.key_positions[key])
        return {key: node for key, node in entries.items() if key in names}

    def child(self, key: str) -> ConfigNode:
        assert isinstance(self.yaml, MappingNode)
        return ConfigNode(self.yaml.entries[key], self.report, f"{self.path}.{key}" if self.path else key)

    def items(self) -> list[ConfigNode]:
        """The items of the list; none, and a problem, if this is no list."""
        if not isinstance(self.yaml, SequenceNode):
            self._unexpected("a list")
            return []
        return [ConfigNode(each, self.report, f"{self.path}[{number}]") for number, each in enumerate(self.yaml.items)]

    def string(self) -> str | None:
        value = self._value()
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            self.error(f"expected a string, got {_describe(self.yaml)}: put it in quotes")
        else:
            self._unexpected("a string")
        return None

    def choice(self, choices: Collection[str]) -> str | None:
        value = self.string()
        if value is None or value in choices:
            return value
        listed = ", ".join(sorted(choices))
        self.error(f"{value[:100]!r} is not one of {listed}{did_you_mean(value, choices)}")
        return None

    def boolean(self) -> bool | None:
        value = self._value()
        if isinstance(value, bool):
            return value
        self._unexpected("true or false")
        return None

    def integer(self, low: int = -INT64, high: int = INT64) -> int | None:
        value = self._value()
        if isinstance(value, bool) or not isinstance(value, int):
            self._unexpected("an integer")
            return None
        if not low <= value <= high:
            self.error(f"{value} is not between {low} and {high}")
            return None
        return value

    def number(self) -> float | None:
        value = self._value()
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._unexpected("a number")
            return None
        return float(value)

    def duration(self) -> float | None:
        """A duration as Go writes it: `15s`, `1h30m`, `1.5s`."""
        value = self._value()
        if not isinstance(value, str):
            self._unexpected('a duration such as "15s"')
            return None
        seconds = parse_duration(value)
        if seconds is None:
            self.error(
                f'{value[:30]!r} is not a duration: write a number and a unit, such as "15s", "1m30s" or "500ms"'
            )
        return seconds

    def _value(self) -> object:
        """The scalar; None if this is none, or is ambiguous."""
        return self.yaml.value if isinstance(self.yaml, ScalarNode) and not self.yaml.ambiguity else None

    def _unexpected(self, expected: str) -> None:
        if isinstance(self.yaml, ScalarNode) and self.yaml.ambiguity:
            self.error(self.yaml.ambiguity)
        else:
            self.error(f"expected {expected}, got {_describe(self.yaml)}")


def strings(node: ConfigNode) -> tuple[str, ...]:
    """A list of strings; other items are reported and left out."""
    return tuple(value for item in node.items() if (value := item.string()) is not None)


def _is_null(tree: YamlNode) -> bool:
    return isinstance(tree, ScalarNode) and tree.value is None


def _describe(tree: YamlNode) -> str:
    match tree:
        case MappingNode():
            return "a mapping"
        case SequenceNode():
            return "a list"
        case ScalarNode(value=None):
            return "null"
        case ScalarNode(value=bool() as truth):
            return str(truth).lower()
        case ScalarNode(value=int() | float() as number):
            return f"the number {number}"
        case ScalarNode(value=value):
            return f"the string {str(value)[:40]!r}"


def missing(report: Report, path: str = "") -> ConfigNode:
    """An absent mapping, as an empty one."""
    empty: Mapping[str, YamlNode] = {}
    return ConfigNode(MappingNode(empty, {}), report, path)
