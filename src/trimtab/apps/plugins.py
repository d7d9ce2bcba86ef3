"""Decides which plugins other packages offer, by their entry points; whether a file may name them is left to config."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from trimtab.config.registry import DEFAULT_BINDER, IN_TREE
from trimtab.core.framework.interface import ObservesPods
from trimtab.core.framework.profile import POINT_INTERFACES
from trimtab.core.model.change import Change

ENTRY_POINT_GROUP = "trimtab.plugins"


class PluginError(Exception):
    """A package offers a plugin that cannot be used; the text says which package, why, and what to do."""


def installed_plugins(found: Iterable[EntryPoint] | None = None) -> dict[str, type]:
    """The plugins of installed packages by name; raises PluginError on the first that cannot be used."""
    offered: dict[str, EntryPoint] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP) if found is None else found:
        if entry.name in offered:
            raise _error(entry, f"{_package(offered[entry.name])} offers that name too")
        offered[entry.name] = entry
    return {name: _load(entry) for name, entry in offered.items()}


def _load(entry: EntryPoint) -> type:
    if entry.name in {*IN_TREE, DEFAULT_BINDER}:
        raise _error(entry, "that name is one of Trimtab's own")
    try:
        kind = entry.load()
    except Exception as error:
        raise _error(entry, f"it cannot be imported: {type(error).__name__}: {error}") from error
    if (fault := _invalid_reason(entry.name, kind)) is not None:
        raise _error(entry, fault)
    assert isinstance(kind, type)
    return kind


def _invalid_reason(name: str, kind: object) -> str | None:
    """What keeps a class from being a plugin."""
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return "it is no dataclass"
    if getattr(kind, "name", None) != name:
        return f"its class calls itself {getattr(kind, 'name', None)!r}"
    if not isinstance(getattr(kind, "requeue_on", None), Change):
        return "its class has no requeue_on"
    try:
        plugin = kind()
    except Exception as error:
        return f"it cannot be made with default arguments: {error}"
    points = {*POINT_INTERFACES.values(), ObservesPods}
    return None if any(isinstance(plugin, point) for point in points) else "it has none of the methods of a plugin"


def _error(entry: EntryPoint, fault: str) -> PluginError:
    return PluginError(
        f"the plugin {entry.name} ({entry.value}) of {_package(entry)} cannot be used: {fault}. "
        "Mend that package, or uninstall it"
    )


def _package(entry: EntryPoint) -> str:
    held = entry.dist
    return f"the package {held.name} {held.version}" if held is not None else "an unknown package"
