"""Decides which profiles a file describes; leaves plugins' order to `plugin_sets` and arguments to `arguments`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from trimtab.config.arguments import read_plugin
from trimtab.config.fields import known
from trimtab.config.plugin_sets import (
    MULTI,
    Arrange,
    Named,
    PluginSet,
    at_point,
    is_usable,
    over_defaults,
    points,
    read_set,
    with_defaults,
)
from trimtab.config.problem import Aside
from trimtab.config.registry import BINDER, SERVES
from trimtab.config.spot import Spot
from trimtab.config.versions import VERSION, Catalogue
from trimtab.core.placing.contract import Order, Plugin, Score
from trimtab.core.placing.profile import CAPABLE, Point, Profile, profile

DEFAULT_SCHEDULER = "default-scheduler"
_SCHEMA = "profiles[]"


@dataclass(frozen=True, slots=True)
class Placed:
    """A profile, the place in the file that describes it, and the places of its plugins' arguments.

    unused: the places of arguments for plugins that it does not enable.
    """

    profile: Profile
    spot: Spot
    plugins: Mapping[str, Plugin]
    arguments: Mapping[str, Spot]
    unused: Mapping[str, Spot]


class Binder:
    """Stands for the engine's own last step, which serves the point `bind` and takes no arguments."""


def read_profiles(spots: list[Spot], catalogue: Catalogue) -> tuple[Placed, ...]:
    """All profiles of a file; what is wrong with one, or between two, is reported."""
    placed = [each for spot in spots if (each := _read_profile(spot, catalogue, alone=len(spots) == 1)) is not None]
    for number, later in enumerate(placed):
        for earlier in placed[:number]:
            if later.profile.name == earlier.profile.name:
                later.spot.refuse(
                    f"{later.profile.name!r} is taken by {earlier.spot.path}: each profile needs its own name"
                )
                break
        if later.profile.order != placed[0].profile.order:
            later.spot.refuse("queueSort must be the same in all profiles, for there is one queue")
    return tuple(placed)


def _read_profile(spot: Spot, catalogue: Catalogue, alone: bool) -> Placed | None:
    entries = known(spot, _SCHEMA)
    if "percentageOfNodesToScore" in entries:
        entries["percentageOfNodesToScore"].whole(0, 100)
    name, where = _scheduler_name(spot, entries, alone)
    sets = _read_sets(entries["plugins"], catalogue) if "plugins" in entries else {}
    multi = with_defaults(sets.get(MULTI, PluginSet()), catalogue.version.defaults)
    arguments = _read_plugin_config(entries["pluginConfig"], catalogue) if "pluginConfig" in entries else {}
    _note_unbuilt(spot, multi, catalogue)
    plugins = _made(arguments, sets, multi, catalogue)
    if plugins is None or name is None:
        return None
    arrange = at_point if catalogue.version.multi_point else over_defaults
    made = _assembled(name, spot, sets, multi, plugins, arrange)
    enabled = {each for listed in made.enabled.values() for each in listed}
    run = {each: plugin for each, plugin in plugins.items() if each in enabled}
    used = {each: args for each, args in arguments.items() if each in enabled}
    return Placed(made, where, run, used, {each: args for each, args in arguments.items() if each not in enabled})


def _scheduler_name(spot: Spot, entries: Mapping[str, Spot], alone: bool) -> tuple[str | None, Spot]:
    if "schedulerName" not in entries:
        if not alone:
            spot.refuse("schedulerName is missing: only a single profile may leave it out")
        return DEFAULT_SCHEDULER if alone else None, spot
    where = entries["schedulerName"]
    name = where.text()
    if name == "":
        where.refuse("a profile needs a name")
    return name or None, where


def _read_sets(spot: Spot, catalogue: Catalogue) -> dict[str, PluginSet]:
    entries = spot.fields(points()) or {}
    if MULTI in entries and not catalogue.version.multi_point:
        entries[MULTI].refuse(f"{catalogue.version.name} has no {MULTI}: write {VERSION}, or name the points")
    return {name: read_set(each, catalogue) for name, each in entries.items()}


def _read_plugin_config(spot: Spot, catalogue: Catalogue) -> dict[str, Spot]:
    """The places of the arguments by plugin; each plugin may be configured once."""
    seen: set[str] = set()
    found: dict[str, Spot] = {}
    for item in spot.items():
        entries = known(item, f"{_SCHEMA}.pluginConfig[]")
        if "name" not in entries:
            item.refuse("the plugin's name is missing")
            continue
        name = entries["name"].text()
        if name is None or not is_usable(entries["name"], name, catalogue):
            continue
        if name in seen:
            entries["name"].refuse(f"{name} is configured twice")
        seen.add(name)
        if "args" in entries:
            found[name] = entries["args"]
    return found


def _note_unbuilt(spot: Spot, multi: PluginSet, catalogue: Catalogue) -> None:
    missing = [each.name for each in multi.enabled if each.name not in catalogue.built]
    if missing:
        spot.note(
            f"default plugins not built yet, left out: {', '.join(missing)} "
            "(a pod that cannot do without one stays pending with an event that says so)",
            Aside,
        )


def _made(
    arguments: Mapping[str, Spot], sets: Mapping[str, PluginSet], multi: PluginSet, catalogue: Catalogue
) -> dict[str, Plugin] | None:
    """The profile's plugins by name; None if the arguments of one are no good."""
    named = {each.name for each in (*multi.enabled, *(each for one in sets.values() for each in one.enabled))}
    for name, args in arguments.items():
        if name not in named:
            args.note(f"ignored: {name} is not enabled in this profile")
    every = {
        name: read_plugin(name, catalogue.built[name], arguments.get(name), catalogue.version.name)
        for name in {**arguments, **dict.fromkeys(named)}
        if name in catalogue.built
    }
    made = {name: plugin for name, plugin in every.items() if plugin is not None}
    return made if len(made) == len(every) else None


def _assembled(
    name: str,
    spot: Spot,
    sets: Mapping[str, PluginSet],
    multi: PluginSet,
    plugins: Mapping[str, Plugin],
    arrange: Arrange,
) -> Profile:
    enabled: dict[Point, tuple[Named, ...]] = {}
    for point in Point:
        own = sets.get(point.value, PluginSet())
        _check_capable(point, own, plugins)
        enabled[point] = arrange(own, multi, partial(_has_at, plugins, point))
    _check_weights(sets, multi, plugins)
    _check_needed(spot, enabled, plugins)
    return profile(
        name,
        {
            point: [
                (plugins[each.name], each.weight or 1) for each in named if not isinstance(plugins[each.name], Binder)
            ]
            for point, named in enabled.items()
        },
    )


def _has_at(plugins: Mapping[str, Plugin], point: Point, name: str) -> bool:
    return name in plugins and _serves(plugins[name], point)


def _serves(plugin: object, point: Point) -> bool:
    if isinstance(plugin, Binder):
        return point is Point.BIND
    return point in CAPABLE and isinstance(plugin, CAPABLE[point])


def _check_capable(point: Point, own: PluginSet, plugins: Mapping[str, object]) -> None:
    for each in own.enabled:
        if each.spot is None or _serves(plugins[each.name], point) or point in SERVES.get(each.name, ()):
            continue
        where = [
            other.value for other in Point if _serves(plugins[each.name], other) or other in SERVES.get(each.name, ())
        ]
        each.spot.refuse(f"{each.name} cannot serve {point.value}, only {', '.join(where) or 'nothing'}")


def _check_weights(sets: Mapping[str, PluginSet], multi: PluginSet, plugins: Mapping[str, object]) -> None:
    for name, one in {**sets, MULTI: multi}.items():
        for each in one.enabled:
            scores = name in (MULTI, Point.SCORE.value) and isinstance(plugins.get(each.name), Score)
            if each.spot is not None and each.weight and not scores:
                each.spot.note("ignored: the weight counts only for plugins that score, at score or multiPoint")


def _check_needed(spot: Spot, enabled: Mapping[Point, tuple[Named, ...]], plugins: Mapping[str, object]) -> None:
    orders = [each.name for each in enabled[Point.QUEUE_SORT] if isinstance(plugins[each.name], Order)]
    if len(orders) != 1:
        spot.refuse(
            f"exactly one queueSort plugin is needed, but there are {len(orders)}: {', '.join(orders) or 'none'}"
        )
    if not enabled[Point.BIND]:
        spot.refuse(f"no plugin is left to bind pods: do not disable {BINDER}")
