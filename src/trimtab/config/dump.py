"""Writes what a configuration comes to, as a file that means the same; what it ought to be is left to the reader."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from trimtab.config.configuration import ClientConnection, Configuration, LeaderElection
from trimtab.config.fields import children, is_ignored
from trimtab.config.kube_scheduler import KIND
from trimtab.config.plugin_args import dump_fields
from trimtab.config.plugin_sets import ALL, MULTI_POINT
from trimtab.config.registry import DEFAULT_BINDER
from trimtab.config.trimtab.dump import dump_document
from trimtab.config.trimtab.values import format_duration
from trimtab.config.versions import VERSION
from trimtab.core.framework.profile import ExtensionPoint, Profile, plugin_name


def dump(configuration: Configuration) -> str:
    """The effective configuration as YAML, our own document second, with the notes as comments above them."""
    theirs = {
        "apiVersion": VERSION,
        "kind": KIND,
        "leaderElection": _leader_election(configuration.leader_election),
        "clientConnection": _client_connection(configuration.client_connection),
        "podInitialBackoffSeconds": int(configuration.settings.initial_backoff),
        "podMaxBackoffSeconds": int(configuration.settings.max_backoff),
        "profiles": [_profile(each) for each in configuration.settings.profiles],
    }
    notes = "".join(f"# {note}\n" for note in configuration.notes)
    return f"{notes}{_yaml(theirs)}---\n{_yaml(dump_document(configuration.trimtab))}"


def _yaml(plain: object) -> str:
    return yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100)


def _leader_election(leader: LeaderElection) -> dict[str, object]:
    return {
        "leaderElect": leader.enabled,
        "leaseDuration": format_duration(leader.lease_duration),
        "renewDeadline": format_duration(leader.renew_deadline),
        "retryPeriod": format_duration(leader.retry_period),
        "resourceName": leader.name,
        "resourceNamespace": leader.namespace,
    }


def _client_connection(connection: ClientConnection) -> dict[str, object]:
    plain: dict[str, object] = {"kubeconfig": connection.kubeconfig, "burst": connection.burst}
    return plain if connection.qps is None else {**plain, "qps": connection.qps}


def _profile(profile: Profile) -> dict[str, object]:
    """Each point by itself, with nothing left to defaults; preScore goes along with score."""
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
    written = {name: _without_ignored(name, dump_fields(plugin)) for name, plugin in every.items()}
    return [{"name": name, "args": args} for name, args in written.items() if args]


def _without_ignored(name: str, arguments: dict[str, object]) -> dict[str, object]:
    """Without those that change nothing."""
    listed = children(f"{name}Args")
    return {key: value for key, value in arguments.items() if not is_ignored(listed.get(key))}
