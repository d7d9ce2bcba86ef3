"""Decides which plugins run at which point, in which order and with which weight; leaves their arguments to others.

The rules are kube-scheduler's. A plugin under `multiPoint` runs at every point that it serves, unless that point
disables it by name or disables `*`. What a point itself enables runs there, whatever is disabled. At each point come
first those named in both lists, in the point's order; then the rest of `multiPoint`; then the rest of the point.
Before there was `multiPoint`, a point's own lists were laid over the defaults of that point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trimtab.config.fields import known
from trimtab.config.problem import did_you_mean
from trimtab.config.registry import GONE, KNOWN
from trimtab.config.spot import INT32, Spot
from trimtab.config.tree import Table
from trimtab.config.versions import Catalogue
from trimtab.core.placing.profile import Point

EVERYTHING = "*"
MULTI = "multiPoint"
_SCHEMA = "profiles[].plugins.POINT"


@dataclass(frozen=True, slots=True)
class Named:
    """A plugin as a list names it; the place is None for one that comes from the defaults."""

    name: str
    weight: int = 0
    spot: Spot | None = None


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What one point (or `multiPoint`) enables and disables."""

    enabled: tuple[Named, ...] = ()
    disabled: frozenset[str] = frozenset()


Arrange = Callable[[PluginSet, PluginSet, Callable[[str], bool]], tuple[Named, ...]]


def read_set(spot: Spot, catalogue: Catalogue) -> PluginSet:
    """A point's lists; names that nobody knows, that are not built, or that stand twice are reported."""
    entries = known(spot, _SCHEMA)
    enabled = _read_enabled(entries["enabled"], catalogue) if "enabled" in entries else ()
    disabled = _read_disabled(entries["disabled"], catalogue) if "disabled" in entries else frozenset()
    return PluginSet(enabled, disabled)


def _read_enabled(spot: Spot, catalogue: Catalogue) -> tuple[Named, ...]:
    found: dict[str, Named] = {}
    for item in spot.items():
        entries = known(item, f"{_SCHEMA}.enabled[]")
        name = _name(item, entries)
        weight = entries["weight"].whole(0, INT32) if "weight" in entries else 0
        if name is None or not is_usable(entries["name"], name, catalogue):
            continue
        if name in found:
            item.refuse(f"{name} stands twice in this list")
        if "weight" in entries and weight == 0:
            entries["weight"].note("counts as 1, as in kube-scheduler: disable the plugin to leave it out")
        found[name] = Named(name, weight or 0, item)
    return tuple(found.values())


def _read_disabled(spot: Spot, catalogue: Catalogue) -> frozenset[str]:
    names = set()
    for item in spot.items():
        entries = known(item, f"{_SCHEMA}.disabled[]")
        name = _name(item, entries)
        if name is not None and name != EVERYTHING and name not in GONE:
            _is_known(entries["name"], name, catalogue)
        names.add(name)
    return frozenset(name for name in names if name is not None)


def _name(item: Spot, entries: Mapping[str, Spot]) -> str | None:
    if "name" in entries:
        return entries["name"].text()
    if isinstance(item.tree, Table):
        item.refuse("the plugin's name is missing")
    return None


def is_usable(spot: Spot, name: str, catalogue: Catalogue) -> bool:
    """Whether a file may name this plugin as one to run or to configure; noted or reported if not."""
    if name in catalogue.built:
        return True
    if name in catalogue.version.left_out:
        spot.note(f"left out: {GONE[name]} does the work of {name}")
    elif name in GONE:
        spot.refuse(f"{name} is gone from Kubernetes: {GONE[name]} does its work")
    elif _is_known(spot, name, catalogue):
        spot.refuse(f"{name} is not built yet: remove it here (as a default plugin it would only be noted)")
    return False


def _is_known(spot: Spot, name: str, catalogue: Catalogue) -> bool:
    names = {*KNOWN, *catalogue.built}
    if name not in names:
        spot.refuse(f"there is no plugin {name[:100]!r}{did_you_mean(name, names)}")
    return name in names


def with_defaults(custom: PluginSet, defaults: Mapping[str, int]) -> PluginSet:
    """`multiPoint` laid over the default plugins: one named again is changed in place, a new one comes last."""
    named = {each.name: each for each in custom.enabled}
    kept: dict[str, Named] = {}
    if EVERYTHING not in custom.disabled:
        kept = {
            name: named.get(name, Named(name, weight))
            for name, weight in defaults.items()
            if name not in custom.disabled
        }
    return PluginSet((*kept.values(), *(each for each in custom.enabled if each.name not in kept)), custom.disabled)


def at_point(point: PluginSet, multi: PluginSet, serves: Callable[[str], bool]) -> tuple[Named, ...]:
    """The plugins of one point in their order, each with the weight that counts there."""
    own = {each.name: each for each in point.enabled}
    if EVERYTHING in point.disabled:
        return tuple(own.values())
    spread = [each for each in multi.enabled if serves(each.name) and each.name not in point.disabled]
    overridden = {each.name for each in spread} & own.keys()
    return (
        *(each for name, each in own.items() if name in overridden),
        *(each for each in spread if each.name not in own),
        *(each for name, each in own.items() if name not in overridden),
    )


def over_defaults(point: PluginSet, multi: PluginSet, serves: Callable[[str], bool]) -> tuple[Named, ...]:
    """The same by the rule of v1beta2: the point's own lists over the defaults that serve there."""
    return with_defaults(point, {each.name: each.weight for each in multi.enabled if serves(each.name)}).enabled


def points() -> tuple[str, ...]:
    """The names under which a file lists plugins."""
    return (*(point.value for point in Point), MULTI)
