"""Dumps a configuration as a file that means the same, with every default filled in."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from trimtab.config.configuration import Configuration
from trimtab.config.fields import VERSION
from trimtab.config.kube_scheduler import KIND
from trimtab.config.plugin_args import dump_arguments
from trimtab.config.plugin_sets import ALL, MULTI_POINT
from trimtab.config.registry import DEFAULT_BINDER
from trimtab.config.schema import dump_fields
from trimtab.config.trimtab.document import dump_document
from trimtab.core.framework.profile import ExtensionPoint, Profile, plugin_name


def dump(configuration: Configuration) -> str:
    """The effective configuration as YAML, Trimtab's own document second, with the notes as comments above them."""
    scheduler = {
        "apiVersion": VERSION,
        "kind": KIND,
        "leaderElection": dump_fields(configuration.leader_election),
        "clientConnection": dump_fields(configuration.client_connection),
        "podInitialBackoffSeconds": int(configuration.settings.initial_backoff),
        "podMaxBackoffSeconds": int(configuration.settings.max_backoff),
        "profiles": [_profile(each) for each in configuration.settings.profiles],
    }
    document = dump_document(configuration.trimtab, configuration.settings.load)
    notes = "".join(f"# {note}\n" for note in configuration.notes)
    return f"{notes}{_yaml(scheduler)}---\n{_yaml(document)}"


def _yaml(plain: object) -> str:
    return yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100)


def _profile(profile: Profile) -> dict[str, object]:
    """Each point by itself, without defaults; preScore is enabled by score."""
    weights = {each.name: each.weight for each in profile.scores}
    plugins: dict[str, object] = {MULTI_POINT: {"disabled": [{"name": ALL}]}}
    for point, listed in profile.enabled.items():
        if point is ExtensionPoint.PRE_SCORE:
            continue
        if listed and point is ExtensionPoint.SCORE:
            plugins[point.value] = {"enabled": [{"name": name, "weight": weights[name]} for name in listed]}
        elif listed:
            plugins[point.value] = {"enabled": [{"name": name} for name in listed]}
    plugins[ExtensionPoint.BIND.value] = {"enabled": [{"name": DEFAULT_BINDER}]}
    return {"schedulerName": profile.name, "plugins": plugins, "pluginConfig": _arguments(profile)}


def _arguments(profile: Profile) -> list[object]:
    groups: Iterable[Iterable[object]] = (
        profile.pre_enqueues,
        (profile.queue_sort,) if profile.queue_sort else (),
        profile.pre_filters,
        profile.filters,
        (each.plugin for each in profile.scores),
        profile.reserves,
        profile.permits,
        profile.pre_binds,
        profile.observers,
    )
    every = {plugin_name(plugin): plugin for group in groups for plugin in group}
    dumped = {name: dump_arguments(plugin) for name, plugin in every.items()}
    return [{"name": name, "args": args} for name, args in dumped.items() if args]
