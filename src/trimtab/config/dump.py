"""Dumps a configuration as a file that means the same, with every default filled in and every argument kept."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from trimtab.config.configuration import Configuration, WrittenProfile
from trimtab.config.fields import VERSION
from trimtab.config.plugin_args import dump_arguments
from trimtab.config.profiles import ALL, MULTI_POINT
from trimtab.config.registry import DEFAULT_BINDER, KUBERNETES_POINTS, POINTS
from trimtab.config.schema import dump_fields
from trimtab.config.trimtab.document import dump_document
from trimtab.core.framework.profile import ExtensionPoint, Profile, plugin_name

KIND = "KubeSchedulerConfiguration"


def dump(configuration: Configuration) -> str:
    """The effective configuration as YAML, Trimtab's own document second, with the notes as comments above them.

    The first document lists plugins at kube-scheduler's own points, so that kube-scheduler can run it, too; a comment
    names the plugins that it does not have.
    """
    profiles = [
        (each, configuration.written.get(each.name) or _written(each)) for each in configuration.settings.profiles
    ]
    scheduler = {
        "apiVersion": VERSION,
        "kind": KIND,
        "leaderElection": dump_fields(configuration.leader_election),
        "clientConnection": dump_fields(configuration.client_connection),
        "podInitialBackoffSeconds": int(configuration.settings.initial_backoff),
        "podMaxBackoffSeconds": int(configuration.settings.max_backoff),
        "profiles": [_dump_profile(profile, written) for profile, written in profiles],
    }
    document = dump_document(configuration.trimtab, configuration.settings.load)
    notes = "".join(f"# {note}\n" for note in configuration.notes)
    readers = _readers(written for _, written in profiles)
    return f"{notes}# {readers}\n{to_yaml(scheduler)}---\n{to_yaml(document)}"


def to_yaml(plain: object) -> str:
    return yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100)


def _readers(profiles: Iterable[WrittenProfile]) -> str:
    """Whether kube-scheduler can run the file."""
    unknown = dict.fromkeys(name for each in profiles for name in each.plugins if name not in KUBERNETES_POINTS)
    if unknown:
        return f"For Trimtab: kube-scheduler itself has no {', '.join(unknown)}."
    return "For Trimtab and kube-scheduler, which reads the first document only."


def _written(profile: Profile) -> WrittenProfile:
    """The default profile, which no file wrote: each plugin at all its points."""
    groups: Iterable[Iterable[object]] = (
        profile.pre_enqueues,
        (profile.queue_sort,) if profile.queue_sort else (),
        profile.filters,
        profile.post_filters,
        (each.plugin for each in profile.scores),
    )
    plugins = {plugin_name(plugin): plugin for group in groups for plugin in group}
    weights = {each.name: each.weight for each in profile.scores}
    enabled = {
        point: tuple((name, weights.get(name, 0)) for name in plugins if point in POINTS.get(name, ()))
        for point in ExtensionPoint
    }
    return WrittenProfile(plugins, {**enabled, ExtensionPoint.BIND: ((DEFAULT_BINDER, 0),)})


def _dump_profile(profile: Profile, written: WrittenProfile) -> dict[str, object]:
    """Each point by itself, without defaults."""
    plugins: dict[str, object] = {MULTI_POINT: {"disabled": [{"name": ALL}]}}
    for point in ExtensionPoint:
        listed = [_dump_reference(point, *each) for each in written.enabled.get(point, ())]
        if listed:
            plugins[point.value] = {"enabled": listed}
    return {"schedulerName": profile.name, "plugins": plugins, "pluginConfig": _dump_plugin_config(written)}


def _dump_reference(point: ExtensionPoint, name: str, weight: int) -> dict[str, object]:
    return {"name": name, "weight": weight or 1} if point is ExtensionPoint.SCORE else {"name": name}


def _dump_plugin_config(written: WrittenProfile) -> list[object]:
    dumped = {name: dump_arguments(plugin, written.given.get(name, ())) for name, plugin in written.plugins.items()}
    return [{"name": name, "args": args} for name, args in dumped.items() if args]
