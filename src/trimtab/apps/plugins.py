"""Finds the plugins of installed packages by their entry points."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from trimtab.config.registry import DEFAULT_BINDER, IN_TREE
from trimtab.core.framework.interface import ObservesPods
from trimtab.core.framework.profile import POINT_INTERFACES
from trimtab.core.model.change import Change

ENTRY_POINT_GROUP = "trimtab.plugins"
CODE = frozenset({".py", ".so", ".pyd"})  # suffixes of the files of a package


class PluginError(Exception):
    """An installed plugin cannot be used; says which package, why, and the remedy."""


def installed_plugins(found: Iterable[EntryPoint] | None = None) -> dict[str, type]:
    """Plugins by name; raises PluginError on the first that cannot be used."""
    entries: dict[str, EntryPoint] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP) if found is None else found:
        if entry.name in entries:
            raise _error(entry, f"{_package(entries[entry.name])} has a plugin of that name, too")
        entries[entry.name] = entry
    return {name: _load(entry) for name, entry in entries.items()}


def source_digest(kind: type) -> str:
    """Of the files of the package that a plugin is in, by which a change of its code is noticed."""
    found = hashlib.sha256()
    for path in _source_files(kind.__module__):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _source_files(module: str) -> list[Path]:
    """Those of the outermost package that is a folder of its own, or the module's file; a namespace package is neither."""
    parts = module.split(".")
    outer = (sys.modules.get(".".join(parts[:length])) for length in range(1, len(parts) + 1))
    file = next((Path(each.__file__) for each in outer if each is not None and each.__file__), None)
    if file is None:
        return []
    return sorted(each for each in file.parent.rglob("*") if each.suffix in CODE) if file.stem == "__init__" else [file]


def _load(entry: EntryPoint) -> type:
    if entry.name in {*IN_TREE, DEFAULT_BINDER}:
        raise _error(entry, "the name belongs to a built-in plugin")
    try:
        kind = entry.load()
    except Exception as error:
        raise _error(entry, f"it cannot be imported: {type(error).__name__}: {error}") from error
    if (reason := _invalid_reason(entry.name, kind)) is not None:
        raise _error(entry, reason)
    assert isinstance(kind, type)
    return kind


def _invalid_reason(name: str, kind: object) -> str | None:
    """Why a class is not a plugin; None if it is."""
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return "it is not a dataclass"
    if getattr(kind, "name", None) != name:
        return f"its class is named {getattr(kind, 'name', None)!r}"
    if not isinstance(getattr(kind, "requeue_on", None), Change):
        return "its class has no requeue_on"
    try:
        plugin = kind()
    except Exception as error:
        return f"it cannot be created with default arguments: {error}"
    points = {*POINT_INTERFACES.values(), ObservesPods}
    return None if any(isinstance(plugin, point) for point in points) else "it has none of the methods of a plugin"


def _error(entry: EntryPoint, reason: str) -> PluginError:
    return PluginError(
        f"the plugin {entry.name} ({entry.value}) of {_package(entry)} cannot be used: {reason}. "
        "Fix that package, or uninstall it"
    )


def _package(entry: EntryPoint) -> str:
    package = entry.dist
    return f"the package {package.name} {package.version}" if package is not None else "an unknown package"
