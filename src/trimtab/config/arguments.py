"""Decides how a plugin's arguments are read into its dataclass and written back; what they mean is left to the plugin.

A field `scoring_strategy` is `scoringStrategy` in the file, as Kubernetes spells it. Types of Kubernetes whose shape in
files differs from the one in memory have a codec of their own in `kubernetes_arguments`. Crane's policy may stand in a file
that the arguments name; opening it is left to the shell, and what is wrong with it is told with its own name and lines.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum

from trimtab.config.fields import is_ignored, names
from trimtab.config.kubernetes_arguments import CODECS, NARROWED, Codec, faults
from trimtab.config.problem import ConfigError
from trimtab.config.spot import Report, Spot, nothing
from trimtab.config.tree import Leaf, Table, plant
from trimtab.config.versions import VERSION, VERSIONS
from trimtab.config.yaml import documents
from trimtab.core.placing.contract import Plugin
from trimtab.core.plugins.dynamic import Policy
from trimtab.core.plugins.load_aware_scheduling import ByResource


class _Unreadable:
    """Stands for a value that has been reported already."""


UNREADABLE = _Unreadable()
POLICY_VERSION, POLICY_KIND = "scheduler.policy.crane.io/v1alpha1", "DynamicSchedulerPolicy"
INSTEAD = "write where it stands, seen from this file, or its `spec` here as `policy`"
POLICY, POLICY_PATH = "policy", "policy_config_path"  # arguments of Dynamic: what the second names becomes the first


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
        if (key := _camel(field)) in entries and not _says_nothing(entries[key], hint)
    }
    if POLICY_PATH in values and name == "Dynamic":
        values |= _policy(entries, values.pop(POLICY_PATH), hints[POLICY])
    made = None if len(spot.report.problems) > problems else _made(kind, values, spot)
    for argument, number, message in faults(name, made) if made is not None else ():
        where = entries.get(argument, spot)
        (where if number is None else where.items()[number]).refuse(message)
    return made  # type: ignore[return-value]


def _says_nothing(spot: Spot, hint: object) -> bool:
    """An empty map of Koordinator's is as good as none, there as here; one with zeros takes its limits away."""
    return ByResource in (hint, *typing.get_args(hint)) and isinstance(spot.tree, Table) and not spot.tree.entries


def _policy(entries: Mapping[str, Spot], path: object, kind: object) -> dict[str, object]:
    """The policy in the file of this path, if there is one; what it leaves out is not there, as for Crane."""
    named = entries[_camel(POLICY_PATH)]
    if not isinstance(path, str) or not path:
        return {}
    if POLICY in entries:
        named.refuse("policy stands here too: keep one of the two")
        return {}
    spec = _policy_spec(named, path)
    if spec is None or not isinstance(kind, type):
        return {}
    policy = _read_dataclass(spec, kind, dict.fromkeys(_hints(kind), ()))
    if isinstance(policy, Policy) and (names := policy.never_copied):
        spec.note(f"without syncPolicy Crane passes {', '.join(names)} over; here all count")
    return {POLICY: policy}


def _policy_spec(named: Spot, path: str) -> Spot | None:
    """The `spec` in the file that is named at this place; None after a problem."""
    report = named.report
    if report.beside is None:
        named.refuse("no other file is read from here: write its `spec` as `policy`")
        return None
    try:
        file, content = report.beside(path)
        trees = documents(content, file)
    except OSError as error:
        named.refuse(f"{path[:200]!r} cannot be read: {error.strerror or error}: {INSTEAD}")
        return None
    except ConfigError as error:
        report.problems += error.problems
        return None
    first, *rest = (Spot(tree, Report(file, report.problems, report.notes)) for tree in trees)
    for spot in rest:
        spot.refuse(f"a second document is not read: the file holds one {POLICY_KIND}")
    return _spec_of(first)


def _spec_of(root: Spot) -> Spot | None:
    before, entries = len(root.report.problems), root.fields(("apiVersion", "kind", "metadata", "spec")) or {}
    for name, wanted in (("apiVersion", POLICY_VERSION), ("kind", POLICY_KIND)):
        if name in entries:
            entries[name].choice((wanted,))
        elif len(root.report.problems) == before:
            root.refuse(
                f"{name} is missing: the file must begin with apiVersion: {POLICY_VERSION} and kind: {POLICY_KIND}"
            )
    if "spec" not in entries and len(root.report.problems) == before:
        root.refuse("spec is missing: write syncPolicy, predicate, priority and hotValue under it")
    return entries.get("spec") if len(root.report.problems) == before else None


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


def _read_dataclass(spot: Spot, kind: type, left_out: Mapping[str, object] | None = None) -> object:
    """`left_out` stands in for fields that are not there, where the type's own defaults must not."""
    problems = len(spot.report.problems)
    hints = _hints(kind)
    entries = spot.fields([_camel(field) for field in hints]) or {}
    secrets = {each.name for each in dataclasses.fields(kind) if not each.repr}
    values = {
        field: _read_secret(entries[key]) if field in secrets and hint is str else read(entries[key], hint)
        for field, hint in hints.items()
        if (key := _camel(field)) in entries
    }
    return (
        UNREADABLE
        if len(spot.report.problems) > problems
        else _reported(_made(kind, {**(left_out or {}), **values}, spot))
    )


def _read_secret(spot: Spot) -> object:
    """A text; whatever else it is, no message repeats it."""
    if isinstance(spot.tree, Leaf) and isinstance(spot.tree.value, str) and not spot.tree.doubt:
        return spot.tree.value
    spot.refuse(
        "is no text, and a secret may not stand here: put it in a file, and name that in a TrimtabConfiguration"
    )
    return UNREADABLE


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
