"""Parses mappings of a configuration file into dataclasses and dumps them again, driven by their fields.

A field `scoring_strategy` is `scoringStrategy` in the file, as Kubernetes spells it; one that is declared by `setting`
says more about itself. What a class has to say about several fields at once goes into a static method
`check_fields(parsed)`, which knows the position of each, or, as a ValueError about the whole, into `__post_init__`.
Types whose shape in a file differs from the one in memory have a codec in `codecs`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from functools import cache, reduce
from math import inf
from operator import or_
from typing import Any

from trimtab.config.codecs import CODECS
from trimtab.config.config_node import ConfigNode
from trimtab.config.yaml import MappingNode, ScalarNode, SequenceNode
from trimtab.core.model.duration import format_duration
from trimtab.core.model.setting import ArgumentError, Setting, camel_case

PLAIN = Setting()


class _Invalid:
    """Stands for a value whose problem has been reported."""


INVALID = _Invalid()


@dataclasses.dataclass(frozen=True, slots=True)
class FieldSchema:
    """A field by its name in the class and in the file (`key`), with its type and default."""

    name: str
    key: str
    type: object
    default: object
    setting: Setting
    secret: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Parsed:
    """A mapping of the file whose fields have been parsed one by one: their nodes by key, their values by name."""

    node: ConfigNode
    entries: Mapping[str, ConfigNode]
    values: dict[str, Any]

    def at(self, *keys: str) -> ConfigNode:
        """The first of these fields that is set, or the mapping itself."""
        return next((self.entries[key] for key in keys if key in self.entries), self.node)


@cache
def fields_of(kind: type) -> tuple[FieldSchema, ...]:
    """The fields that a file may set; none of a class that is no dataclass."""
    if not dataclasses.is_dataclass(kind):
        return ()
    hints = typing.get_type_hints(kind)
    return tuple(_field_schema(each, hints[each.name]) for each in dataclasses.fields(kind) if each.init)


def _field_schema(field: dataclasses.Field[Any], hint: object) -> FieldSchema:
    kind, setting = _without_none(hint), field.metadata.get("setting", PLAIN)
    key = setting.name or camel_case(field.name)
    return FieldSchema(field.name, key, kind, field.default, setting, not field.repr and kind is str)


def _without_none(hint: object) -> object:
    """X of `X | None`."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    return reduce(or_, (each for each in typing.get_args(hint) if each is not type(None)))


def parse_dataclass(
    node: ConfigNode,
    kind: type,
    fixed: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
) -> object:
    """The value of this class in a mapping; INVALID only if none can be made at all.

    After a problem, which makes the file unusable, fields that could not be parsed have their defaults, so that further
    problems are found. `fixed` fields are not the file's to set; `defaults` go before those of the class.
    """
    before = len(node.report.problems)
    fields = [each for each in fields_of(kind) if each.name not in (fixed or {})]
    parsed = parse_fields(node, fields)
    if parsed is not None:
        check_fields(kind, parsed)
    values = {**(defaults or {}), **(parsed.values if parsed is not None else {}), **(fixed or {})}
    return construct(kind, values, node, quiet=len(node.report.problems) > before)


def check_fields(kind: type, parsed: Parsed) -> None:
    """What the class has to say about its fields together."""
    if hasattr(kind, "check_fields"):
        kind.check_fields(parsed)


def parse_fields(node: ConfigNode, fields: Collection[FieldSchema], extra: Collection[str] = ()) -> Parsed | None:
    """Each field by itself, where only these and `extra` keys are allowed; None if there is no mapping."""
    entries = node.fields({*extra, *(each.key for each in fields)})
    if entries is None:
        return None
    for each in fields:
        if each.setting.required and each.key not in entries:
            node.error(f"{each.key} is missing: {each.setting.required}")
    return parse_entries(node, entries, fields)


def parse_entries(node: ConfigNode, entries: Mapping[str, ConfigNode], fields: Collection[FieldSchema]) -> Parsed:
    """The same for a mapping whose keys have been checked."""
    given = [each for each in fields if each.key in entries and not _is_unset(entries[each.key], each)]
    values = {each.name: _parse_field(entries[each.key], each) for each in given}
    return Parsed(node, entries, {name: value for name, value in values.items() if value is not INVALID})


def _is_unset(node: ConfigNode, field: FieldSchema) -> bool:
    is_empty = node.yaml in (SequenceNode((), node.yaml.position), MappingNode({}, {}, node.yaml.position))
    return field.setting.empty_is_unset and is_empty


def construct(kind: Callable[..., object], values: Mapping[str, object], node: ConfigNode, quiet: bool) -> object:
    """The value, unless it rejects its own fields, which is not worth reporting after other problems."""
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        if not quiet:
            _node_of(error, node).error(str(error))
        return INVALID


def _node_of(error: Exception, node: ConfigNode) -> ConfigNode:
    key = error.key if isinstance(error, ArgumentError) else ""
    return node.child(key) if isinstance(node.yaml, MappingNode) and key in node.yaml.entries else node


def _parse_field(node: ConfigNode, field: FieldSchema) -> object:
    return _parse_secret(node) if field.secret else _parse_checked(node, field.type, field.setting)


def _parse_secret(node: ConfigNode) -> object:
    """A string; no message repeats whatever else it is."""
    if isinstance(node.yaml, ScalarNode) and isinstance(node.yaml.value, str) and not node.yaml.ambiguity:
        return node.yaml.value
    node.error(
        "must be a string, and a secret may not be written here: put it in a file, and name that file in a "
        "TrimtabConfiguration"
    )
    return INVALID


def _parse_checked(node: ConfigNode, kind: object, setting: Setting) -> object:
    before = len(node.report.problems)
    value = _parse_typed(node, kind, setting)
    if value is INVALID or len(node.report.problems) > before:
        return value
    error = None if isinstance(value, bool) or not isinstance(value, int | float) else setting.range_error(value)
    if error is None and setting.validate is not None:
        error = setting.validate(value)
    if error is not None:
        node.error(error)
    return value if error is None else INVALID


def _parse_typed(node: ConfigNode, kind: object, setting: Setting) -> object:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in CODECS:
        return _or_invalid(CODECS[kind].parse(node))
    if origin is tuple and inner[1:] == (Ellipsis,):
        return tuple(_parse_items(node, _without_none(inner[0]), setting))
    if setting.choices:
        return _or_invalid(node.choice(setting.choices))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        word = node.choice([each.value for each in kind])
        return INVALID if word is None else kind(word)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return parse_dataclass(node, kind)
    return _parse_plain(node, kind, setting)


def _parse_items(node: ConfigNode, kind: object, setting: Setting) -> Iterator[object]:
    item_setting = Setting(choices=setting.choices, validate=setting.validate_item)
    seen: list[object] = []
    for item in node.items():
        value = _parse_checked(item, kind, item_setting)
        if setting.unique and value in seen:
            item.error(f"{value!s:.100} is listed twice")
        elif value is not INVALID:
            seen.append(value)
            yield value


def _parse_plain(node: ConfigNode, kind: object, setting: Setting) -> object:
    if setting.seconds is not None:
        return _parse_seconds(node, *setting.seconds)
    parsers: dict[object, Callable[[], object]] = {
        str: node.string,
        bool: node.boolean,
        int: node.integer,
        float: node.number,
    }
    if kind not in parsers:
        node.error("cannot be set in a file")
        return INVALID
    return _or_invalid(parsers[kind]())


def _parse_seconds(node: ConfigNode, low: float, high: float) -> object:
    seconds = node.duration()
    if seconds is not None and not low <= seconds <= high:
        limits = f"is not between {format_duration(low)} and {format_duration(high)}" if high < inf else ""
        node.error(f"{format_duration(seconds)} {limits}" if limits else "must be positive")
        return INVALID
    return _or_invalid(seconds)


def _or_invalid(value: object) -> object:
    return INVALID if value is None else value


def dump_fields(value: Any, skip: Collection[str] = (), keep: Collection[str] = ()) -> dict[str, object]:
    """A dataclass as plain data that parses as the same value; fields that are unset or empty by default are left out.

    skip: names of fields to leave out. keep: keys to dump also where they have such a default.
    """
    found = [(each, getattr(value, each.name)) for each in fields_of(value.__class__) if each.name not in skip]
    return {
        each.key: _dump_field(given, each) for each, given in found if not _is_omitted(given, each, each.key in keep)
    }


def _is_omitted(value: object, field: FieldSchema, keep: bool) -> bool:
    return value is None or (not keep and value == field.default and (field.setting.omit_default or value in ((), "")))


def _dump_field(value: Any, field: FieldSchema) -> object:
    return format_duration(value) if field.setting.seconds else dump_value(value, field.type)


def dump_value(value: Any, kind: object) -> object:
    """Plain data that parses as the same value of this type."""
    if kind in CODECS:
        return CODECS[kind].dump(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [dump_value(each, typing.get_args(kind)[0]) for each in value]
    if dataclasses.is_dataclass(value):
        return dump_fields(value)
    return value


def document_fields(kind: type, path: str) -> Iterator[tuple[str, Setting]]:
    """Every documented field of a class and of those within it: its path in the file, and its setting."""
    for field in fields_of(kind):
        inner = typing.get_args(field.type)
        if field.setting.doc:
            yield f"{path}{field.key}", field.setting
        elif isinstance(field.type, type):
            yield from document_fields(field.type, f"{path}{field.key}.")
        elif inner and isinstance(inner[0], type):
            yield from document_fields(inner[0], f"{path}{field.key}[].")
