"""Declares fields of settings classes with what a configuration file may say about them.

    interval: float = setting(15.0, "15s unless set: how often it is queried", seconds=(1, HOUR))

`trimtab.config.schema` parses and dumps by these declarations, and the tables of the docs are checked against them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar

HOUR = 3600.0
DAY = 24 * HOUR
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
    between: the range of an integer. choices: of a string, or of the items of a list, as `validate_item` is.
    required: what to write, if the field may not be left out. empty_is_unset: an empty list or mapping is the default.
    omit_default: not dumped while it has its default.
    """

    doc: str = ""
    name: str = ""
    seconds: tuple[float, float] | None = None
    between: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()
    unique: bool = False
    required: str = ""
    empty_is_unset: bool = False
    validate: Validate | None = None
    validate_item: Validate | None = None
    omit_default: bool = False
    spec_file: SpecFile | None = None
    support: Support = Support.SUPPORTED


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


def setting(default: T, doc: str = "", **options: Any) -> T:
    """A dataclass field with this default and a Setting of these options."""
    return field(default=default, metadata={"setting": Setting(doc, **options)})
