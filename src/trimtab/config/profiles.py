"""Parses the profiles of a KubeSchedulerConfiguration: which plugins run at which extension point, in which order.

The rules are kube-scheduler's. A plugin under `multiPoint` runs at every point that it implements, unless that point
disables it by name or disables `*`. What a point itself enables runs there, whatever is disabled. The order at each point:
first those in both lists, in the point's order; then the rest of `multiPoint`; then the rest of the point. In v1beta2,
which has no `multiPoint`, a point's own lists are merged with the defaults of that point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from trimtab.config.config_node import ConfigNode
from trimtab.config.configuration import WrittenProfile
from trimtab.config.diagnostics import Info, did_you_mean
from trimtab.config.fields import VERSION, PluginCatalogue, checked_fields
from trimtab.config.plugin_args import parse_plugin
from trimtab.config.registry import DEFAULT_BINDER, KUBERNETES_POINTS, POINTS, REMOVED
from trimtab.config.yaml import MappingNode
from trimtab.core.framework.interface import Plugin, QueueSort, Score
from trimtab.core.framework.profile import POINT_INTERFACES, ExtensionPoint, Profile, build_profile
from trimtab.core.model.setting import INT32
from trimtab.wire.pod_template import DEFAULT_SCHEDULER

ALL = "*"
MULTI_POINT = "multiPoint"
_SCHEMA = "profiles[]"
_POINT = f"{_SCHEMA}.plugins.POINT"


@dataclass(frozen=True, slots=True)
class ParsedProfile:
    """A profile, its node in the file, and its plugins, enabled or only configured, with the nodes of their arguments."""

    profile: Profile
    node: ConfigNode
    plugins: Mapping[str, Plugin]
    arguments: Mapping[str, ConfigNode]
    listed: Mapping[ExtensionPoint, tuple[PluginRef, ...]]

    @property
    def enabled(self) -> frozenset[str]:
        """The names of the plugins that run at any point."""
        return frozenset(name for listed in self.profile.enabled.values() for name in listed)

    @property
    def written(self) -> WrittenProfile:
        enabled = {
            point: tuple((each.name, each.weight) for each in refs if _is_written(each.name, point))
            for point, refs in self.listed.items()
        }
        names = dict.fromkeys(name for refs in enabled.values() for name, _ in refs)
        given = {name: frozenset(args.entries() or ()) for name, args in self.arguments.items()}
        return WrittenProfile({name: self.plugins[name] for name in (*names, *given)}, enabled, given)


def _is_written(name: str, point: ExtensionPoint) -> bool:
    """Score includes preScore here, so at preScore only plugins are written that have that point in Kubernetes."""
    return point is not ExtensionPoint.PRE_SCORE or point in POINTS.get(name, ())


class DefaultBinder:
    """Stands for the engine's own bind step, so that files may name it; takes no arguments."""


def parse_profiles(nodes: list[ConfigNode], catalogue: PluginCatalogue, percentage: int) -> tuple[ParsedProfile, ...]:
    """All profiles of a file; their problems are reported. `percentage` is that of nodes to score, for all profiles."""
    alone = len(nodes) == 1
    parsed = [each for node in nodes if (each := _parse_profile(node, catalogue, percentage, alone)) is not None]
    first: dict[str, ParsedProfile] = {}
    for each in parsed:
        name, earlier = each.profile.name, first.setdefault(each.profile.name, each)
        if earlier is not each:
            each.node.error(f"{name!r} is already the name of {earlier.node.path}: each profile needs its own")
        if each.profile.queue_sort != parsed[0].profile.queue_sort:
            each.node.error("queueSort must be the same in all profiles: they share one queue")
    return tuple(parsed)


def _parse_profile(node: ConfigNode, catalogue: PluginCatalogue, percentage: int, alone: bool) -> ParsedProfile | None:
    entries = checked_fields(node, _SCHEMA)
    if "percentageOfNodesToScore" in entries:
        percentage = entries["percentageOfNodesToScore"].integer(0, 100) or 0
    name, name_node = _scheduler_name(node, entries, alone)
    sets = _parse_plugin_sets(entries["plugins"], catalogue) if "plugins" in entries else {}
    multi = merge_plugin_set(sets.get(MULTI_POINT, PluginSet()), catalogue.version.defaults)
    arguments = _parse_plugin_config(entries["pluginConfig"], catalogue) if "pluginConfig" in entries else {}
    _note_missing_plugins(node, multi, catalogue)
    plugins = _build_plugins(arguments, sets, multi, catalogue)
    if plugins is None or name is None:
        return None
    expand = expand_multi_point if catalogue.version.multi_point else merge_at_point
    enabled = _expand_points(node, sets, multi, plugins, expand)
    profile = replace(_build_profile(name, enabled, plugins), percentage_of_nodes_to_score=percentage)
    return ParsedProfile(profile, name_node, plugins, arguments, enabled)


def _scheduler_name(node: ConfigNode, entries: Mapping[str, ConfigNode], alone: bool) -> tuple[str | None, ConfigNode]:
    if "schedulerName" not in entries:
        if not alone:
            node.error("schedulerName is missing: only a single profile may leave it out")
        return DEFAULT_SCHEDULER if alone else None, node
    name = entries["schedulerName"].string()
    if name == "":
        entries["schedulerName"].error("must not be empty")
    return name or None, entries["schedulerName"]


def _parse_plugin_sets(node: ConfigNode, catalogue: PluginCatalogue) -> dict[str, PluginSet]:
    entries = node.fields(point_names()) or {}
    if MULTI_POINT in entries and not catalogue.version.multi_point:
        entries[MULTI_POINT].error(
            f"{catalogue.version.name} has no {MULTI_POINT}: write {VERSION}, or name the points"
        )
    return {name: parse_plugin_set(each, catalogue) for name, each in entries.items()}


def _parse_plugin_config(node: ConfigNode, catalogue: PluginCatalogue) -> dict[str, ConfigNode]:
    """The arguments by plugin; each plugin may be configured once."""
    seen: set[str] = set()
    found: dict[str, ConfigNode] = {}
    for item in node.items():
        entries = checked_fields(item, f"{_SCHEMA}.pluginConfig[]")
        if "name" not in entries:
            item.error("the plugin's name is missing")
            continue
        name = entries["name"].string()
        if name is None or not is_usable(entries["name"], name, catalogue):
            continue
        if name in seen:
            entries["name"].error(f"{name} is configured twice")
        seen.add(name)
        if "args" in entries:
            found[name] = entries["args"]
    return found


def _note_missing_plugins(node: ConfigNode, multi: PluginSet, catalogue: PluginCatalogue) -> None:
    missing = [each.name for each in multi.enabled if each.name not in catalogue.plugins]
    if missing:
        node.note(
            f"default plugins not supported yet, ignored: {', '.join(missing)} "
            "(a pod that needs one stays pending, with an Event that says so)",
            Info,
        )


def _build_plugins(
    arguments: Mapping[str, ConfigNode], sets: Mapping[str, PluginSet], multi: PluginSet, catalogue: PluginCatalogue
) -> dict[str, Plugin] | None:
    """The profile's plugins by name; None if the arguments of one are invalid."""
    named = {each.name for each in (*multi.enabled, *(each for one in sets.values() for each in one.enabled))}
    for name, args in arguments.items():
        if name not in named:
            args.note(f"ignored: {name} is not enabled in this profile")
    every: dict[str, Plugin | None] = {
        name: parse_plugin(name, catalogue.plugins[name], arguments.get(name), catalogue.version.name)
        for name in {**arguments, **dict.fromkeys(named)}
        if name in catalogue.plugins
    }
    valid = {name: plugin for name, plugin in every.items() if plugin is not None}
    return valid if len(valid) == len(every) else None


def _expand_points(
    node: ConfigNode, sets: Mapping[str, PluginSet], multi: PluginSet, plugins: Mapping[str, Plugin], expand: Expand
) -> dict[ExtensionPoint, tuple[PluginRef, ...]]:
    """The plugins of each point; problems with the lists are reported."""
    enabled: dict[ExtensionPoint, tuple[PluginRef, ...]] = {}
    for point in ExtensionPoint:
        own = sets.get(point.value, PluginSet())
        _check_points(point, own, plugins)
        enabled[point] = expand(own, multi, partial(_implements, plugins, point))
    _check_weights(sets, multi, plugins)
    _check_required(node, enabled, plugins)
    return enabled


def _build_profile(
    name: str, enabled: Mapping[ExtensionPoint, tuple[PluginRef, ...]], plugins: Mapping[str, Plugin]
) -> Profile:
    return build_profile(
        name,
        {
            point: [
                (plugins[each.name], each.weight or 1)
                for each in named
                if not isinstance(plugins[each.name], DefaultBinder)
            ]
            for point, named in enabled.items()
        },
    )


def _implements(plugins: Mapping[str, Plugin], point: ExtensionPoint, name: str) -> bool:
    """Whether the plugin has this point, here or in Kubernetes."""
    return name in plugins and (_serves(plugins[name], point) or point in POINTS.get(name, ()))


def _serves(plugin: object, point: ExtensionPoint) -> bool:
    if isinstance(plugin, DefaultBinder):
        return point is ExtensionPoint.BIND
    return point in POINT_INTERFACES and isinstance(plugin, POINT_INTERFACES[point])


def _check_points(point: ExtensionPoint, own: PluginSet, plugins: Mapping[str, Plugin]) -> None:
    for each in own.enabled:
        if each.node is None or _implements(plugins, point, each.name):
            continue
        others = [other.value for other in ExtensionPoint if _implements(plugins, other, each.name)]
        each.node.error(f"{each.name} does not implement {point.value}, only {', '.join(others) or 'nothing'}")


def _check_weights(sets: Mapping[str, PluginSet], multi: PluginSet, plugins: Mapping[str, object]) -> None:
    for name, one in {**sets, MULTI_POINT: multi}.items():
        for each in one.enabled:
            scores = name in (MULTI_POINT, ExtensionPoint.SCORE.value) and isinstance(plugins.get(each.name), Score)
            if each.node is not None and each.weight and not scores:
                each.node.note("ignored: a weight only applies to score plugins, under score or multiPoint")


def _check_required(
    node: ConfigNode, enabled: Mapping[ExtensionPoint, tuple[PluginRef, ...]], plugins: Mapping[str, object]
) -> None:
    sorters = [each.name for each in enabled[ExtensionPoint.QUEUE_SORT] if isinstance(plugins[each.name], QueueSort)]
    if len(sorters) != 1:
        node.error(
            f"exactly one queueSort plugin is needed, but there are {len(sorters)}: {', '.join(sorters) or 'none'}"
        )
    if not enabled[ExtensionPoint.BIND]:
        node.error(f"no bind plugin is enabled: do not disable {DEFAULT_BINDER}")


@dataclass(frozen=True, slots=True)
class PluginRef:
    """A plugin in a list of the file; the node is None for one of the defaults."""

    name: str
    weight: int = 0
    node: ConfigNode | None = None


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What one point (or `multiPoint`) enables and disables."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: frozenset[str] = frozenset()


Expand = Callable[[PluginSet, PluginSet, Callable[[str], bool]], tuple[PluginRef, ...]]


def parse_plugin_set(node: ConfigNode, catalogue: PluginCatalogue) -> PluginSet:
    """The lists of one point; unknown, unsupported and duplicate names are reported."""
    entries = checked_fields(node, _POINT)
    enabled = _parse_enabled(entries["enabled"], catalogue) if "enabled" in entries else ()
    disabled = _parse_disabled(entries["disabled"], catalogue) if "disabled" in entries else frozenset()
    return PluginSet(enabled, disabled)


def _parse_enabled(node: ConfigNode, catalogue: PluginCatalogue) -> tuple[PluginRef, ...]:
    found: dict[str, PluginRef] = {}
    for item in node.items():
        entries = checked_fields(item, f"{_POINT}.enabled[]")
        name = _name(item, entries)
        weight = entries["weight"].integer(0, INT32) if "weight" in entries else 0
        if name is None or not is_usable(entries["name"], name, catalogue):
            continue
        if name in found:
            item.error(f"{name} is listed twice")
        if "weight" in entries and weight == 0:
            entries["weight"].note("counts as 1, as in kube-scheduler: disable the plugin to leave it out")
        found[name] = PluginRef(name, weight or 0, item)
    return tuple(found.values())


def _parse_disabled(node: ConfigNode, catalogue: PluginCatalogue) -> frozenset[str]:
    names = set()
    for item in node.items():
        entries = checked_fields(item, f"{_POINT}.disabled[]")
        name = _name(item, entries)
        if name is not None and name != ALL and name not in REMOVED:
            _is_known(entries["name"], name, catalogue)
        names.add(name)
    return frozenset(name for name in names if name is not None)


def _name(item: ConfigNode, entries: Mapping[str, ConfigNode]) -> str | None:
    if "name" in entries:
        return entries["name"].string()
    if isinstance(item.yaml, MappingNode):
        item.error("the plugin's name is missing")
    return None


def is_usable(node: ConfigNode, name: str, catalogue: PluginCatalogue) -> bool:
    """Whether a file may enable or configure this plugin; noted or reported if not."""
    if name in catalogue.plugins:
        return True
    if name in catalogue.version.replaced_plugins:
        node.note(f"ignored: {REMOVED[name]} replaces {name}")
    elif name in REMOVED:
        node.error(f"{name} was removed from Kubernetes: use {REMOVED[name]}")
    elif _is_known(node, name, catalogue):
        node.error(f"{name} is not supported yet: remove it here (as a default plugin it would only be noted)")
    return False


def _is_known(node: ConfigNode, name: str, catalogue: PluginCatalogue) -> bool:
    names = {*KUBERNETES_POINTS, *catalogue.plugins}
    if name not in names:
        node.error(f"unknown plugin {name[:100]!r}{did_you_mean(name, names)}")
    return name in names


def merge_plugin_set(custom: PluginSet, defaults: Mapping[str, int]) -> PluginSet:
    """`multiPoint` merged with the default plugins: a listed one replaces its default in place, a new one comes last."""
    named = {each.name: each for each in custom.enabled}
    kept: dict[str, PluginRef] = {}
    if ALL not in custom.disabled:
        kept = {
            name: named.get(name, PluginRef(name, weight))
            for name, weight in defaults.items()
            if name not in custom.disabled
        }
    return PluginSet((*kept.values(), *(each for each in custom.enabled if each.name not in kept)), custom.disabled)


def expand_multi_point(
    point: PluginSet, multi_point: PluginSet, serves: Callable[[str], bool]
) -> tuple[PluginRef, ...]:
    """The plugins of one point in their order, each with its weight there."""
    own = {each.name: each for each in point.enabled}
    if ALL in point.disabled:
        return tuple(own.values())
    spread = [each for each in multi_point.enabled if serves(each.name) and each.name not in point.disabled]
    overridden = {each.name for each in spread} & own.keys()
    return (
        *(each for name, each in own.items() if name in overridden),
        *(each for each in spread if each.name not in own),
        *(each for name, each in own.items() if name not in overridden),
    )


def merge_at_point(point: PluginSet, multi_point: PluginSet, serves: Callable[[str], bool]) -> tuple[PluginRef, ...]:
    """The same by the rule of v1beta2: the point's own lists merged with the defaults that implement it."""
    return merge_plugin_set(
        point, {each.name: each.weight for each in multi_point.enabled if serves(each.name)}
    ).enabled


def point_names() -> tuple[str, ...]:
    """The fields under which a file lists plugins."""
    return (*(point.value for point in ExtensionPoint), MULTI_POINT)
