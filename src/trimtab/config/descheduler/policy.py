"""Reads a DeschedulerPolicy v1alpha2, or Koordinator's DeschedulerConfiguration, with the position of every field.

    top-level fields      ┐
    profiles              │   enabled strategies by name,
      plugins.*.enabled   ├─▶ the evictor's arguments,        ─▶ rivals.py: what it evicts by its own rules
      pluginConfig        │   and the limits of the whole       ─▶ equivalent.py: settings of Trimtab with the same intent
                          ┘

A file may also be the ConfigMap that holds the policy. Several profiles are read as one: the first that enables a strategy,
and the first evictor, count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from trimtab.config.config_node import ConfigNode, Report
from trimtab.config.descheduler.evictor_shapes import DEFAULT_EVICTOR, EVICTORS, MIGRATION_CONTROLLER
from trimtab.config.descheduler.shapes import (
    OPERATIONAL,
    STRATEGY_ARGS,
    WITHOUT_COUNTERPART,
    DeschedulerConfiguration,
    DeschedulerPolicy,
)
from trimtab.config.diagnostics import Info, did_you_mean
from trimtab.config.manifests import locate
from trimtab.config.schema import construct, fields_of, parse_fields
from trimtab.config.yaml import MappingNode, SequenceNode

VERSION, OLD_VERSION = "descheduler/v1alpha2", "descheduler/v1alpha1"
POLICY, CONFIGURATION = "DeschedulerPolicy", "DeschedulerConfiguration"
KINDS: Mapping[str, type] = {POLICY: DeschedulerPolicy, CONFIGURATION: DeschedulerConfiguration}
POINTS = {
    POLICY: ("presort", "sort", "deschedule", "balance", "filter", "preevictionfilter"),
    CONFIGURATION: ("deschedule", "balance", "evict", "filter"),
}
STRATEGY_POINTS = ("deschedule", "balance")
_GUIDE = "https://github.com/kubernetes-sigs/descheduler/blob/master/README.md"


class Fields(NamedTuple):
    """A mapping of the file: its value, its node, and the nodes of the fields that are set, by key."""

    value: Any
    node: ConfigNode
    entries: Mapping[str, ConfigNode]

    def at(self, *path: str) -> ConfigNode:
        """The node of this field, or of the last part of its path that is set."""
        node = self.node
        for key in path:
            if not isinstance(node.yaml, MappingNode) or key not in node.yaml.entries:
                break
            node = node.child(key)
        return node


@dataclass(frozen=True, slots=True)
class Policy:
    """What a file says. `strategies` are those that are enabled, by name, and have arguments here."""

    kind: str
    top: Fields
    strategies: Mapping[str, Fields]
    evictor: Fields | None
    report: Report


def read_policy(content: str | bytes, file: str, key: str = "") -> Policy:
    """Raises ConfigError with all problems of the file; notes are in its report."""
    located = locate(content, file, key, tuple(KINDS))
    report = Report(located.file)
    root, *rest = (ConfigNode(each, report) for each in located.documents)
    for each in rest:
        each.error(f"a second document is not supported: a file holds one {POLICY} or {CONFIGURATION}")
    kind = _kind(root)
    report.finish()
    profiles: dict[str, list[Fields]] = {name: [] for name in (*STRATEGY_ARGS, *EVICTORS)}
    top = _top_level(root, kind)
    for profile in top.entries["profiles"].items() if "profiles" in top.entries else ():
        _parse_profile(profile, kind, profiles)
    if "profiles" not in top.entries:
        root.error("profiles is missing: there is nothing to convert")
    for fields in profiles.values():
        for second in fields[1:]:
            second.node.note("not supported: a second profile has it, too, and the first one's arguments count")
    report.finish()
    strategies = {name: found[0] for name, found in profiles.items() if found and name in STRATEGY_ARGS}
    evictor = next((found[0] for name, found in profiles.items() if found and name in EVICTORS), None)
    return Policy(kind, top, strategies, evictor, report)


def _kind(root: ConfigNode) -> str:
    entries = root.entries() or {}
    for name in ("apiVersion", "kind"):
        if name not in entries:
            root.error(f"{name} is missing: the file must have apiVersion: {VERSION} and kind: {POLICY}")
    version = entries["apiVersion"].string() if "apiVersion" in entries else VERSION
    if version == OLD_VERSION:
        entries["apiVersion"].error(
            f"{OLD_VERSION} is not supported: convert the file to {VERSION} as the descheduler's documentation shows "
            f"({_GUIDE})"
        )
    elif version is not None and version != VERSION:
        entries["apiVersion"].error(f"{version[:100]!r} is not supported: write {VERSION}")
    return (entries["kind"].choice(KINDS) if "kind" in entries else None) or POLICY


def _top_level(root: ConfigNode, kind: str) -> Fields:
    operational = OPERATIONAL if kind == CONFIGURATION else ()
    top = _parse(root, KINDS[kind], ("apiVersion", "kind", "profiles", *operational))
    for name in operational:
        if name in top.entries:
            top.entries[name].note("not needed: it says how Koordinator's own process runs", Info)
    return top


def _parse(node: ConfigNode, kind: type, extra: tuple[str, ...] = ()) -> Fields:
    parsed = parse_fields(node, fields_of(kind), extra)
    values = parsed.values if parsed is not None else {}
    return Fields(construct(kind, values, node, quiet=False), node, parsed.entries if parsed is not None else {})


# --- profiles


def _parse_profile(node: ConfigNode, kind: str, found: dict[str, list[Fields]]) -> None:
    names = ("name", "pluginConfig", "plugins", *(("nodeSelector",) if kind == CONFIGURATION else ()))
    entries = node.fields(names) or {}
    if "name" in entries:
        entries["name"].string()
    if "nodeSelector" in entries:
        entries["nodeSelector"].note("not supported: all nodes are looked at")
    configured = dict(_plugin_configs(entries.get("pluginConfig")))
    enabled = dict(_enabled(entries.get("plugins"), kind))
    for name, reference in enabled.items():
        if name in WITHOUT_COUNTERPART:
            reference.note(f"not supported: {name} is left out, because {WITHOUT_COUNTERPART[name]}")
        elif name in STRATEGY_ARGS:
            found[name].append(_arguments(name, configured.get(name), reference))
    evictor = MIGRATION_CONTROLLER if kind == CONFIGURATION else DEFAULT_EVICTOR
    for name, config in configured.items():
        if name in EVICTORS:
            found[name].append(_arguments(name, config, config))
        elif name not in enabled:
            config.note(f"{name} is not enabled in this profile, so its arguments do nothing", Info)
    if evictor not in configured and enabled:
        found[evictor].append(_arguments(evictor, None, node))


def _arguments(name: str, config: ConfigNode | None, otherwise: ConfigNode) -> Fields:
    """Of a plugin; `otherwise` is where a plugin without arguments is named."""
    kind = {**STRATEGY_ARGS, **EVICTORS}[name]
    given = config.entries() or {} if config is not None else {}
    if "args" in given:
        return _parse(given["args"], kind, ("apiVersion", "kind"))
    for field in fields_of(kind):
        if field.setting.required:
            otherwise.error(
                f"{field.key} of {name} is missing: {field.setting.required} in its args under pluginConfig"
            )
    return Fields(kind(), config or otherwise, {})


def _plugin_configs(node: ConfigNode | None) -> Iterator[tuple[str, ConfigNode]]:
    seen = set[str]()
    for item in node.items() if node is not None else ():
        entries = item.fields(("name", "args")) or {}
        name = _known_plugin(entries["name"]) if "name" in entries else None
        if "name" not in entries:
            item.error("name is missing: write the plugin whose arguments these are")
        elif name in seen:
            entries["name"].error(f"{name} is configured twice: remove one of the two")
        elif name is not None:
            seen.add(name)
            yield name, item


def _enabled(node: ConfigNode | None, kind: str) -> Iterator[tuple[str, ConfigNode]]:
    """The plugins that the profile runs, and where it says so."""
    points = node.fields(POINTS[kind]) or {} if node is not None else {}
    for point, plugins in points.items():
        sets = plugins.fields(("enabled", "disabled")) or {}
        if "disabled" in sets and not _is_empty(sets["disabled"]):
            sets["disabled"].note("not needed: only what is enabled is read", Info)
        for item in sets["enabled"].items() if "enabled" in sets else ():
            reference = _reference(item, kind)
            name = _known_plugin(reference) if reference is not None else None
            if name is not None and (point in STRATEGY_POINTS) != (name in EVICTORS):
                yield name, item
            elif name is not None:
                item.error(
                    f"{name} has nothing to do at {point}: enable it where the documentation of its project does"
                )


def _reference(item: ConfigNode, kind: str) -> ConfigNode | None:
    """The name of a plugin; Koordinator's lists have mappings."""
    if kind == POLICY:
        return item
    entries = item.fields(("name",)) or {}
    if "name" not in entries:
        item.error("name is missing: write the name of a plugin")
    return entries.get("name")


def _known_plugin(node: ConfigNode) -> str | None:
    name, known = node.string(), (*STRATEGY_ARGS, *EVICTORS, *WITHOUT_COUNTERPART)
    if name is None or name in known:
        return name
    node.error(
        f"unknown plugin {name[:100]!r}{did_you_mean(name, known)}: remove it, or write one of {', '.join(known)}"
    )
    return None


def _is_empty(node: ConfigNode) -> bool:
    return isinstance(node.yaml, SequenceNode) and not node.yaml.items
