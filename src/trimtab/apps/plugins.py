"""Finds the plugins, and the strategies and forecasters of the rescheduler, of installed packages by their entry points."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Callable, Collection, Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import NamedTuple

from trimtab.config.registry import DEFAULT_BINDER, IN_TREE
from trimtab.config.trimtab.rescheduling import Installed
from trimtab.core.framework.interface import ObservesPods
from trimtab.core.framework.profile import POINT_INTERFACES
from trimtab.core.model.change import Change
from trimtab.core.rescheduling.forecast import FORECASTERS
from trimtab.core.rescheduling.strategies.registry import RIVALS, STRATEGIES
from trimtab.forecasters.learned import Learned

ENTRY_POINT_GROUP = "trimtab.plugins"
STRATEGY_GROUP = "trimtab.strategies"
FORECASTER_GROUP = "trimtab.forecasters"
EXTRAS = {Learned.name: Learned}  # forecasters of our own whose library need not be installed
CODE = frozenset({".py", ".so", ".pyd"})  # suffixes of the files of a package


class PluginError(Exception):
    """An installed plugin cannot be used; says which package, why, and the remedy."""


class Kind(NamedTuple):
    """What packages may add: its word in messages, the names that are taken, and why a class cannot be used."""

    word: str
    builtin: Collection[str]
    invalid_reason: Callable[[type], str | None]


def installed_plugins(found: Iterable[EntryPoint] | None = None) -> dict[str, type]:
    """Plugins by name; raises PluginError on the first that cannot be used."""
    kind = Kind("plugin", {*IN_TREE, DEFAULT_BINDER}, _invalid_plugin)
    return _load_all(kind, entry_points(group=ENTRY_POINT_GROUP) if found is None else found)


def installed_strategies(found: Iterable[EntryPoint] | None = None) -> dict[str, type]:
    """The same for strategies of the rescheduler."""
    kind = Kind("strategy", {*STRATEGIES, *RIVALS}, _invalid_strategy)
    return _load_all(kind, entry_points(group=STRATEGY_GROUP) if found is None else found)


def installed_forecasters(found: Iterable[EntryPoint] | None = None) -> dict[str, type]:
    """The same for forecasters, and our own that need an extra."""
    kind = Kind("forecaster", {*FORECASTERS, *EXTRAS}, _invalid_forecaster)
    return {**EXTRAS, **_load_all(kind, entry_points(group=FORECASTER_GROUP) if found is None else found)}


def installed_for_rescheduling() -> Installed:
    return Installed(installed_strategies(), installed_forecasters())


def _load_all(kind: Kind, found: Iterable[EntryPoint]) -> dict[str, type]:
    entries: dict[str, EntryPoint] = {}
    for entry in found:
        if entry.name in entries:
            raise _error(kind, entry, f"{_package(entries[entry.name])} has a {kind.word} of that name, too")
        entries[entry.name] = entry
    return {name: _load(kind, entry) for name, entry in entries.items()}


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


def _load(kind: Kind, entry: EntryPoint) -> type:
    if entry.name in kind.builtin:
        raise _error(kind, entry, f"the name belongs to a built-in {kind.word}")
    try:
        loaded = entry.load()
    except Exception as error:
        raise _error(kind, entry, f"it cannot be imported: {type(error).__name__}: {error}") from error
    if (reason := _invalid_reason(kind, entry.name, loaded)) is not None:
        raise _error(kind, entry, reason)
    assert isinstance(loaded, type)
    return loaded


def _invalid_reason(kind: Kind, name: str, loaded: object) -> str | None:
    """Why a class cannot be used; None if it can."""
    if not isinstance(loaded, type) or not dataclasses.is_dataclass(loaded):
        return "it is not a dataclass"
    if getattr(loaded, "name", None) != name:
        return f"its class is named {getattr(loaded, 'name', None)!r}"
    return kind.invalid_reason(loaded)


def _invalid_plugin(loaded: type) -> str | None:
    if not isinstance(getattr(loaded, "requeue_on", None), Change):
        return "its class has no requeue_on"
    try:
        plugin = loaded()
    except Exception as error:
        return f"it cannot be created with default arguments: {error}"
    points = {*POINT_INTERFACES.values(), ObservesPods}
    return None if any(isinstance(plugin, point) for point in points) else "it has none of the methods of a plugin"


def _invalid_strategy(loaded: type) -> str | None:
    return _without(loaded, "suggest")


def _invalid_forecaster(loaded: type) -> str | None:
    return _without(loaded, "forecast")


def _without(loaded: type, method: str) -> str | None:
    try:
        loaded()
    except Exception as error:
        return f"it cannot be created with default arguments: {error}"
    return None if callable(getattr(loaded, method, None)) else f"it has no method `{method}`"


def _error(kind: Kind, entry: EntryPoint, reason: str) -> PluginError:
    return PluginError(
        f"the {kind.word} {entry.name} ({entry.value}) of {_package(entry)} cannot be used: {reason}. "
        "Fix that package, or uninstall it"
    )


def _package(entry: EntryPoint) -> str:
    package = entry.dist
    return f"the package {package.name} {package.version}" if package is not None else "an unknown package"
