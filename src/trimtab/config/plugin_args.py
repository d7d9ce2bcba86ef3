"""Parses the arguments of plugins into their dataclasses, as the schema of each says.

An argument may name a file with the value of another one (`SpecFile`); problems in it are reported with its own name and
lines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from trimtab.config.config_node import ConfigNode, Report, missing
from trimtab.config.diagnostics import ConfigError
from trimtab.config.fields import VERSION, VERSIONS
from trimtab.config.schema import (
    FieldSchema,
    Parsed,
    check_fields,
    construct,
    dump_fields,
    fields_of,
    parse_dataclass,
    parse_fields,
)
from trimtab.config.yaml import from_plain, parse_documents
from trimtab.core.framework.interface import Plugin
from trimtab.core.model.setting import SpecFile, Support

T = TypeVar("T")


def build_plugin(name: str, kind: type[Plugin], args: Mapping[str, object] | None = None) -> Plugin:
    """A plugin from its arguments as plain data; raises ConfigError."""
    report = Report(f"arguments of {name}")
    plugin = parse_plugin(name, kind, ConfigNode(from_plain(args or {}), report, "args"))
    report.finish()
    assert plugin is not None
    return plugin


def parse_plugin(name: str, kind: type[T], args: ConfigNode | None, version: str = VERSION) -> T | None:
    """The plugin, or the rescheduler's strategy, with these arguments, in a file of this version; None after a problem."""
    node = args if args is not None else missing(Report(name))
    before = len(node.report.problems)
    parsed = _parse_args(name, kind, node, version)
    if parsed is None or len(node.report.problems) > before:
        return None
    plugin = construct(kind, parsed.values, node, quiet=False)
    return plugin if isinstance(plugin, kind) else None


def _parse_args(name: str, kind: type, node: ConfigNode, version: str) -> Parsed | None:
    fields = fields_of(kind)
    accepted = [each for each in fields if each.setting.support is not Support.REJECTED]
    parsed = parse_fields(node, accepted, extra=("apiVersion", "kind", *(each.key for each in fields)))
    if parsed is None:
        return None
    _check_header(name, version, parsed.entries)
    for field in (each for each in fields if each.key in parsed.entries):
        if field.setting.support is Support.REJECTED:
            parsed.entries[field.key].error(field.setting.doc)
        elif field.setting.support is Support.IGNORED and parsed.values.get(field.name) not in field.setting.anyway:
            parsed.entries[field.key].note(f"ignored: {field.setting.doc}")
        if field.setting.spec_file is not None and field.name in parsed.values:
            _load_spec_file(parsed, field, field.setting.spec_file, accepted)
    check_fields(kind, parsed)
    return parsed


def _check_header(name: str, version: str, entries: Mapping[str, ConfigNode]) -> None:
    if "apiVersion" in entries:
        entries["apiVersion"].choice([VERSION] if version == VERSION else VERSIONS)
    if "kind" in entries:
        entries["kind"].choice([f"{name}Args"])


def _load_spec_file(parsed: Parsed, field: FieldSchema, file: SpecFile, fields: list[FieldSchema]) -> None:
    """Sets the other field from the file; what the file leaves out is empty, as for the program that it was written for."""
    path = parsed.values.pop(field.name)
    target = next(each for each in fields if each.name == file.field)
    node = parsed.entries[field.key]
    if not path or not isinstance(target.type, type):
        return
    if target.key in parsed.entries:
        node.error(f"{target.key} is set, too: keep one of the two")
        return
    spec = _read_spec(node, path, file, target.key)
    if spec is not None:
        value = parse_dataclass(spec, target.type, defaults={each.name: () for each in fields_of(target.type)})
        for note in getattr(value, "file_notes", tuple)():
            spec.note(note)
        parsed.values[target.name] = value


def _read_spec(node: ConfigNode, path: str, file: SpecFile, instead: str) -> ConfigNode | None:
    """The `spec` in the file that is named here; None after a problem."""
    report = node.report
    if report.read_file is None:
        node.error(f"no other file can be read here: write its `spec` as `{instead}`")
        return None
    try:
        name, content = report.read_file(path)
        first, *rest = parse_documents(content, name)
    except OSError as error:
        message = f"{path[:200]!r} cannot be read: {error.strerror or error}"
        node.error(f"{message}: write its path, relative to this file, or its `spec` here as `{instead}`")
        return None
    except ConfigError as error:
        report.problems += error.problems
        return None
    inner = Report(name, report.problems, report.notes)
    for tree in rest:
        ConfigNode(tree, inner).error(f"a second document is not supported: the file holds one {file.kind}")
    return _find_spec(ConfigNode(first, inner), file)


def _find_spec(root: ConfigNode, file: SpecFile) -> ConfigNode | None:
    before, entries = len(root.report.problems), root.fields(("apiVersion", "kind", "metadata", "spec")) or {}
    for name, expected in (("apiVersion", file.api_version), ("kind", file.kind)):
        if name in entries:
            entries[name].choice((expected,))
        elif len(root.report.problems) == before:
            header = f"apiVersion: {file.api_version} and kind: {file.kind}"
            root.error(f"{name} is missing: the file must start with {header}")
    if "spec" not in entries and len(root.report.problems) == before:
        root.error(f"spec is missing: write {file.hint} under it")
    return entries.get("spec") if len(root.report.problems) == before else None


def dump_arguments(plugin: Any, given: Collection[str] = ()) -> dict[str, object]:
    """The arguments that have an effect, with every default filled in, and those without effect that a file gives."""
    unused = (each for each in fields_of(plugin.__class__) if each.setting.support is not Support.SUPPORTED)
    return dump_fields(plugin, skip=[each.name for each in unused if each.key not in given], keep=given)
