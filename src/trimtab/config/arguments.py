"""Decides how a plugin's arguments are read into its dataclass and written back; what they mean is left to the plugin.

A field `scoring_strategy` is `scoringStrategy` in the file, as Kubernetes spells it. Types of Kubernetes whose shape in
files differs from the one in memory have a codec of their own in `kubernetes_arguments`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum

from trimtab.config.fields import is_ignored, names
from trimtab.config.kubernetes_arguments import CODECS, NARROWED, Codec, faults
from trimtab.config.spot import Report, Spot, nothing
from trimtab.config.tree import plant
from trimtab.config.versions import VERSION, VERSIONS
from trimtab.core.placing.contract import Plugin


class _Unreadable:
    """Stands for a value that has been reported already."""


UNREADABLE = _Unreadable()


def plugin_from(name: str, kind: type[Plugin], args: Mapping[str, object] | None = None) -> Plugin:
    """A plugin from its arguments as plain data; raises ConfigError."""
    report = Report(f"arguments of {name}")
    plugin = read_plugin(name, kind, Spot(plant(args or {}), report, "args"))
    report.settle()
    assert plugin is not None
    return plugin


def read_plugin(name: str, kind: type[Plugin], args: Spot | None, version: str = VERSION) -> Plugin | None:
    """The plugin with the arguments at this place of a file of some version; None after a problem."""
    spot = args if args is not None else nothing(Report(name))
    problems = len(spot.report.problems)
    hints = _hints(kind)
    entries = spot.fields({"apiVersion", "kind", *map(_camel, hints)}) or {}
    _check_header(name, version, entries)
    _note_ignored(name, entries)
    values = {
        field: _read_argument(f"{name}.{key}", entries[key], hint)
        for field, hint in hints.items()
        if (key := _camel(field)) in entries
    }
    made = None if len(spot.report.problems) > problems else _made(kind, values, spot)
    for argument, number, message in faults(name, made) if made is not None else ():
        where = entries.get(argument, spot)
        (where if number is None else where.items()[number]).refuse(message)
    return made  # type: ignore[return-value]


def _read_argument(path: str, spot: Spot, hint: object) -> object:
    return _reported(NARROWED[path](spot)) if path in NARROWED else read(spot, hint)


def read(spot: Spot, hint: object) -> object:
    """A value of the annotated type."""
    codec = CODECS.get(hint)
    if codec is not None:
        return _reported(codec.read(spot))
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if (
        origin in (typing.Union, types.UnionType)
        and len(rest := [each for each in inner if each is not type(None)]) == 1
    ):
        return read(spot, rest[0])
    if origin is tuple and inner[1:] == (Ellipsis,):
        return tuple(read(item, inner[0]) for item in spot.items())
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        word = spot.choice([each.value for each in hint])
        return UNREADABLE if word is None else hint(word)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _read_dataclass(spot, hint)
    return _read_plain(spot, hint)


def _read_plain(spot: Spot, hint: object) -> object:
    readers: dict[object, Callable[[], object]] = {
        str: spot.text,
        bool: spot.truth,
        int: spot.whole,
        float: spot.number,
    }
    if hint not in readers:
        spot.refuse("this argument cannot be set in a file")
        return UNREADABLE
    return _reported(readers[hint]())


def _read_dataclass(spot: Spot, kind: type) -> object:
    problems = len(spot.report.problems)
    hints = _hints(kind)
    entries = spot.fields([_camel(field) for field in hints]) or {}
    values = {field: read(entries[key], hint) for field, hint in hints.items() if (key := _camel(field)) in entries}
    return UNREADABLE if len(spot.report.problems) > problems else _reported(_made(kind, values, spot))


def _made(kind: Callable[..., object], values: Mapping[str, object], spot: Spot) -> object | None:
    """The value, unless it refuses its own fields."""
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        spot.refuse(str(error))
        return None


def _check_header(name: str, version: str, entries: Mapping[str, Spot]) -> None:
    if "apiVersion" in entries:
        entries["apiVersion"].choice([VERSION] if version == VERSION else VERSIONS)
    if "kind" in entries:
        entries["kind"].choice([f"{name}Args"])


def _note_ignored(name: str, entries: Mapping[str, Spot]) -> None:
    for key, field in names(f"{name}Args").items():
        if field is not None and key in entries and is_ignored(field):
            entries[key].note(f"ignored: {field.about}")


def write(value: object) -> object:
    """Plain data that `read` turns into the same value again."""
    codec: Codec | None = CODECS.get(type(value))
    if codec is not None:
        return codec.write(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [write(each) for each in value]
    if dataclasses.is_dataclass(value):
        return written_arguments(value)
    return value


def written_arguments(value: object) -> dict[str, object]:
    """The arguments that are set, under the names of the file; a list that is empty by itself is not set."""
    fields = {each.name: each.default for each in dataclasses.fields(value)}  # type: ignore[arg-type]
    given = {field: getattr(value, field) for field in _hints(type(value))}
    return {
        _camel(field): write(each)
        for field, each in given.items()
        if each is not None and not (each == () == fields[field])
    }


def _hints(kind: type) -> dict[str, object]:
    """The fields that a file may set, with their types."""
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _reported(value: object) -> object:
    return UNREADABLE if value is None else value
