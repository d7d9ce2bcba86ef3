"""Decides how a plugin's arguments are read into its dataclass and written back; what they mean is left to the plugin.

A field `scoring_strategy` is `scoringStrategy` in the file, as Kubernetes spells it. Types of Kubernetes whose shape in
files differs from the one in memory have a codec of their own in `kubernetes_args`. Crane's policy may stand in a file
that the arguments name; opening it is left to the shell, and what is wrong with it is told with its own name and lines.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum

from trimtab.config.config_node import ConfigNode, Report, missing
from trimtab.config.diagnostics import ConfigError
from trimtab.config.fields import children, is_ignored
from trimtab.config.kubernetes_args import CODECS, RANGES, Codec, validate
from trimtab.config.tree import MappingNode, ScalarNode, from_plain
from trimtab.config.versions import VERSION, VERSIONS
from trimtab.config.yaml import parse_documents
from trimtab.core.framework.interface import Plugin
from trimtab.core.plugins.dynamic import Policy
from trimtab.core.plugins.load_aware_scheduling import ByResource


class _Invalid:
    """Stands for a value that has been reported already."""


INVALID = _Invalid()
POLICY_VERSION, POLICY_KIND = "scheduler.policy.crane.io/v1alpha1", "DynamicSchedulerPolicy"
INSTEAD = "write where it stands, seen from this file, or its `spec` here as `policy`"
POLICY, POLICY_PATH = "policy", "policy_config_path"  # arguments of Dynamic: what the second names becomes the first


def build_plugin(name: str, kind: type[Plugin], args: Mapping[str, object] | None = None) -> Plugin:
    """A plugin from its arguments as plain data; raises ConfigError."""
    report = Report(f"arguments of {name}")
    plugin = parse_plugin(name, kind, ConfigNode(from_plain(args or {}), report, "args"))
    report.finish()
    assert plugin is not None
    return plugin


def parse_plugin(name: str, kind: type[Plugin], args: ConfigNode | None, version: str = VERSION) -> Plugin | None:
    """The plugin with the arguments at this place of a file of some version; None after a problem."""
    spot = args if args is not None else missing(Report(name))
    problems = len(spot.report.problems)
    hints = _field_types(kind)
    entries = spot.fields({"apiVersion", "kind", *map(camel_case, hints)}) or {}
    _check_header(name, version, entries)
    _note_ignored(name, entries)
    values = {
        field: _parse_argument(f"{name}.{key}", entries[key], hint)
        for field, hint in hints.items()
        if (key := camel_case(field)) in entries and not _is_unset(entries[key], hint)
    }
    if POLICY_PATH in values and name == "Dynamic":
        values |= _policy(entries, values.pop(POLICY_PATH), hints[POLICY])
    made = None if len(spot.report.problems) > problems else _construct(kind, values, spot)
    for argument, number, message in validate(name, made) if made is not None else ():
        where = entries.get(argument, spot)
        (where if number is None else where.items()[number]).error(message)
    return made  # type: ignore[return-value]


def _is_unset(node: ConfigNode, hint: object) -> bool:
    """An empty map of Koordinator's is as good as none, there as here; one with zeros takes its limits away."""
    return ByResource in (hint, *typing.get_args(hint)) and isinstance(node.yaml, MappingNode) and not node.yaml.entries


def _policy(entries: Mapping[str, ConfigNode], path: object, kind: object) -> dict[str, object]:
    """The policy in the file of this path, if there is one; what it leaves out is not there, as for Crane."""
    named = entries[camel_case(POLICY_PATH)]
    if not isinstance(path, str) or not path:
        return {}
    if POLICY in entries:
        named.error("policy stands here too: keep one of the two")
        return {}
    spec = _policy_spec(named, path)
    if spec is None or not isinstance(kind, type):
        return {}
    policy = _parse_dataclass(spec, kind, dict.fromkeys(_field_types(kind), ()))
    if isinstance(policy, Policy) and (names := policy.unsynced_metrics):
        spec.note(f"without syncPolicy Crane passes {', '.join(names)} over; here all count")
    return {POLICY: policy}


def _policy_spec(named: ConfigNode, path: str) -> ConfigNode | None:
    """The `spec` in the file that is named at this place; None after a problem."""
    report = named.report
    if report.read_file is None:
        named.error("no other file is read from here: write its `spec` as `policy`")
        return None
    try:
        file, content = report.read_file(path)
        trees = parse_documents(content, file)
    except OSError as error:
        named.error(f"{path[:200]!r} cannot be read: {error.strerror or error}: {INSTEAD}")
        return None
    except ConfigError as error:
        report.problems += error.problems
        return None
    first, *rest = (ConfigNode(tree, Report(file, report.problems, report.notes)) for tree in trees)
    for spot in rest:
        spot.error(f"a second document is not read: the file holds one {POLICY_KIND}")
    return _spec_of(first)


def _spec_of(root: ConfigNode) -> ConfigNode | None:
    before, entries = len(root.report.problems), root.fields(("apiVersion", "kind", "metadata", "spec")) or {}
    for name, wanted in (("apiVersion", POLICY_VERSION), ("kind", POLICY_KIND)):
        if name in entries:
            entries[name].choice((wanted,))
        elif len(root.report.problems) == before:
            root.error(
                f"{name} is missing: the file must begin with apiVersion: {POLICY_VERSION} and kind: {POLICY_KIND}"
            )
    if "spec" not in entries and len(root.report.problems) == before:
        root.error("spec is missing: write syncPolicy, predicate, priority and hotValue under it")
    return entries.get("spec") if len(root.report.problems) == before else None


def _parse_argument(path: str, node: ConfigNode, hint: object) -> object:
    return _or_invalid(RANGES[path](node)) if path in RANGES else parse_value(node, hint)


def parse_value(node: ConfigNode, hint: object) -> object:
    """A value of the annotated type."""
    codec = CODECS.get(hint)
    if codec is not None:
        return _or_invalid(codec.parse(node))
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if (
        origin in (typing.Union, types.UnionType)
        and len(rest := [each for each in inner if each is not type(None)]) == 1
    ):
        return parse_value(node, rest[0])
    if origin is tuple and inner[1:] == (Ellipsis,):
        return tuple(parse_value(item, inner[0]) for item in node.items())
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        word = node.choice([each.value for each in hint])
        return INVALID if word is None else hint(word)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _parse_dataclass(node, hint)
    return _parse_plain(node, hint)


def _parse_plain(node: ConfigNode, hint: object) -> object:
    readers: dict[object, Callable[[], object]] = {
        str: node.string,
        bool: node.boolean,
        int: node.integer,
        float: node.number,
    }
    if hint not in readers:
        node.error("this argument cannot be set in a file")
        return INVALID
    return _or_invalid(readers[hint]())


def _parse_dataclass(node: ConfigNode, kind: type, left_out: Mapping[str, object] | None = None) -> object:
    """`left_out` stands in for fields that are not there, where the type's own defaults must not."""
    problems = len(node.report.problems)
    hints = _field_types(kind)
    entries = node.fields([camel_case(field) for field in hints]) or {}
    secrets = {each.name for each in dataclasses.fields(kind) if not each.repr}
    values = {
        field: _parse_secret(entries[key]) if field in secrets and hint is str else parse_value(entries[key], hint)
        for field, hint in hints.items()
        if (key := camel_case(field)) in entries
    }
    return (
        INVALID
        if len(node.report.problems) > problems
        else _or_invalid(_construct(kind, {**(left_out or {}), **values}, node))
    )


def _parse_secret(node: ConfigNode) -> object:
    """A text; whatever else it is, no message repeats it."""
    if isinstance(node.yaml, ScalarNode) and isinstance(node.yaml.value, str) and not node.yaml.ambiguity:
        return node.yaml.value
    node.error("is no text, and a secret may not stand here: put it in a file, and name that in a TrimtabConfiguration")
    return INVALID


def _construct(kind: Callable[..., object], values: Mapping[str, object], node: ConfigNode) -> object | None:
    """The value, unless it refuses its own fields."""
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        node.error(str(error))
        return None


def _check_header(name: str, version: str, entries: Mapping[str, ConfigNode]) -> None:
    if "apiVersion" in entries:
        entries["apiVersion"].choice([VERSION] if version == VERSION else VERSIONS)
    if "kind" in entries:
        entries["kind"].choice([f"{name}Args"])


def _note_ignored(name: str, entries: Mapping[str, ConfigNode]) -> None:
    for key, field in children(f"{name}Args").items():
        if field is not None and key in entries and is_ignored(field):
            entries[key].note(f"ignored: {field.doc}")


def dump_value(value: object) -> object:
    """Plain data that `read` turns into the same value again."""
    codec: Codec | None = CODECS.get(type(value))
    if codec is not None:
        return codec.dump(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [dump_value(each) for each in value]
    if dataclasses.is_dataclass(value):
        return dump_fields(value)
    return value


def dump_fields(value: object) -> dict[str, object]:
    """The arguments that are set, under the names of the file; a list that is empty by itself is not set."""
    fields = {each.name: each.default for each in dataclasses.fields(value)}  # type: ignore[arg-type]
    given = {field: getattr(value, field) for field in _field_types(type(value))}
    return {
        camel_case(field): dump_value(each)
        for field, each in given.items()
        if each is not None and not (each == () == fields[field])
    }


def _field_types(kind: type) -> dict[str, object]:
    """The fields that a file may set, with their types."""
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _or_invalid(value: object) -> object:
    return INVALID if value is None else value
