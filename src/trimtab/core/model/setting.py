"""Declares fields of settings classes with what a configuration file may say about them.

    interval: float = setting(15.0, "15s unless set: how often it is queried", seconds=(1, HOUR))

`trimtab.config.schema` parses and dumps by these declarations, and the tables of the docs are checked against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import inf
from typing import Any, Protocol, TypeVar

INT32 = (1 << 31) - 1  # ranges up to this or beyond have no upper end that a person would choose
PERCENTAGE: Mapping[str, Any] = {"above": 0, "between": (0, 100)}  # options of a setting
T = TypeVar("T")
Validate = Callable[[Any], str | None]  # what is wrong with a value of the right type, or None


class Support(StrEnum):
    """A field has its effect, is checked and ignored with a note, or is rejected."""

    SUPPORTED = "supported"
    IGNORED = "ignored"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class SpecFile:
    """The field names a file with an object of this kind, whose `spec` becomes another field; `hint` is what that holds."""

    field: str
    api_version: str
    kind: str
    hint: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A field's documentation, and which values it takes.

    name: in the file, if not the field's own in camelCase. seconds: written as a Go duration, within this range.
    between: the range of a number, both ends included; above: its low end, excluded.
    choices: of a string, or of the items of a list, as `validate_item` is.
    required: what to write, if the field may not be left out. empty_is_unset: an empty list or mapping is the default.
    omit_default: not dumped while it has its default. anyway: values of an ignored field that ask for what happens here
    in any case, so that they need no note.
    """

    doc: str = ""
    name: str = ""
    seconds: tuple[float, float] | None = None
    between: tuple[float, float] | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    unique: bool = False
    required: str = ""
    empty_is_unset: bool = False
    validate: Validate | None = None
    validate_item: Validate | None = None
    omit_default: bool = False
    spec_file: SpecFile | None = None
    support: Support = Support.SUPPORTED
    anyway: tuple[object, ...] = ()

    def range_error(self, value: float) -> str | None:
        """What is wrong with a number of this field, if anything."""
        low, high = self.between or (-inf, inf)
        if low <= value <= high and (self.above is None or value > self.above):
            return None
        if high < INT32:
            limits = f"between {low:g} and" if self.above is None else f"above {self.above:g} and at most"
            return f"{value:g} is not {limits} {high:g}"
        if value > high:
            return f"{value:g} must be at most {high}"
        return f"{value:g} must be {low:g} or more" if self.above is None else f"{value:g} must be above {self.above:g}"


class ParsedFields(Protocol):
    """What a static method `check_fields(parsed)` of a settings class gets, before an instance is created.

    entries: the nodes of the fields that are set, by their names in the file; each has `error`, `note` and `items`.
    values: the parsed values by the fields' names, which may be changed.
    """

    @property
    def node(self) -> Any: ...

    @property
    def entries(self) -> Mapping[str, Any]: ...

    @property
    def values(self) -> dict[str, Any]: ...

    def at(self, *keys: str) -> Any:
        """The node of the first of these fields that is set, or of the whole mapping."""


class ArgumentError(ValueError):
    """What is wrong with a field, by its name in the file, where the class itself finds it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def camel_case(name: str) -> str:
    """A field's name as Kubernetes spells it in files."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def check_ranges(value: Any) -> None:
    """Raises ArgumentError for the first number of a dataclass that is out of its declared range.

    In a file every such number is reported, at its own place, before an instance is created.
    """
    for key, message in _out_of_range(value):
        raise ArgumentError(key, f"{key}: {message}")


def _out_of_range(value: Any) -> Iterator[tuple[str, str]]:
    for each in fields(value):
        declared, number = each.metadata.get("setting"), getattr(value, each.name)
        if declared is None or isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if (message := declared.range_error(number)) is not None:
            yield declared.name or camel_case(each.name), message


def setting(default: T, doc: str = "", **options: Any) -> T:
    """A dataclass field with this default and a Setting of these options."""
    return field(default=default, metadata={"setting": Setting(doc, **options)})
