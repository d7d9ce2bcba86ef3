"""Which plugins run at which extension point, in which order and with which weight.

The rules are kube-scheduler's. A plugin under `multiPoint` runs at every point that it implements, unless that point
disables it by name or disables `*`. What a point itself enables runs there, whatever is disabled. The order at each point:
first those in both lists, in the point's order; then the rest of `multiPoint`; then the rest of the point. In v1beta2,
which has no `multiPoint`, a point's own lists are merged with the defaults of that point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trimtab.config.config_node import INT32, ConfigNode
from trimtab.config.diagnostics import did_you_mean
from trimtab.config.fields import PluginCatalogue, checked_fields
from trimtab.config.registry import KUBERNETES_POINTS, REMOVED
from trimtab.config.yaml import MappingNode
from trimtab.core.framework.profile import ExtensionPoint

ALL = "*"
MULTI_POINT = "multiPoint"
_SCHEMA = "profiles[].plugins.POINT"


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
    entries = checked_fields(node, _SCHEMA)
    enabled = _parse_enabled(entries["enabled"], catalogue) if "enabled" in entries else ()
    disabled = _parse_disabled(entries["disabled"], catalogue) if "disabled" in entries else frozenset()
    return PluginSet(enabled, disabled)


def _parse_enabled(node: ConfigNode, catalogue: PluginCatalogue) -> tuple[PluginRef, ...]:
    found: dict[str, PluginRef] = {}
    for item in node.items():
        entries = checked_fields(item, f"{_SCHEMA}.enabled[]")
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
        entries = checked_fields(item, f"{_SCHEMA}.disabled[]")
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
