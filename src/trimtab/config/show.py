"""Writes what a configuration comes to, as a file that means the same; what it ought to be is left to the reader."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from trimtab.config.arguments import written_arguments
from trimtab.config.configuration import Configuration, Connection, LeaderElection
from trimtab.config.fields import is_ignored, names
from trimtab.config.own.show import written_own
from trimtab.config.own.values import told
from trimtab.config.plugin_sets import EVERYTHING, MULTI
from trimtab.config.registry import BINDER
from trimtab.config.scheduler import KIND
from trimtab.config.versions import VERSION
from trimtab.core.placing.profile import Point, Profile, plugin_name


def shown(configuration: Configuration) -> str:
    """The effective configuration as YAML, our own document second, with the notes as comments above them."""
    theirs = {
        "apiVersion": VERSION,
        "kind": KIND,
        "leaderElection": _leader(configuration.leader),
        "clientConnection": _connection(configuration.connection),
        "podInitialBackoffSeconds": int(configuration.settings.initial_backoff),
        "podMaxBackoffSeconds": int(configuration.settings.max_backoff),
        "profiles": [_profile(each) for each in configuration.settings.profiles],
    }
    notes = "".join(f"# {note}\n" for note in configuration.notes)
    return f"{notes}{_yaml(theirs)}---\n{_yaml(written_own(configuration.own))}"


def _yaml(plain: object) -> str:
    return yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100)


def _leader(leader: LeaderElection) -> dict[str, object]:
    return {
        "leaderElect": leader.enabled,
        "leaseDuration": told(leader.lease_duration),
        "renewDeadline": told(leader.renew_deadline),
        "retryPeriod": told(leader.retry_period),
        "resourceName": leader.name,
        "resourceNamespace": leader.namespace,
    }


def _connection(connection: Connection) -> dict[str, object]:
    plain: dict[str, object] = {"kubeconfig": connection.kubeconfig, "burst": connection.burst}
    return plain if connection.qps is None else {**plain, "qps": connection.qps}


def _profile(profile: Profile) -> dict[str, object]:
    """Each point by itself, with nothing left to defaults; preScore goes along with score."""
    weights = {each.name: each.weight for each in profile.scores}
    plugins: dict[str, object] = {MULTI: {"disabled": [{"name": EVERYTHING}]}}
    for point, listed in profile.enabled.items():
        if point is Point.PRE_SCORE:
            continue
        if listed and point is Point.SCORE:
            plugins[point.value] = {"enabled": [{"name": name, "weight": weights[name]} for name in listed]}
        elif listed:
            plugins[point.value] = {"enabled": [{"name": name} for name in listed]}
    plugins[Point.BIND.value] = {"enabled": [{"name": BINDER}]}
    return {"schedulerName": profile.name, "plugins": plugins, "pluginConfig": _arguments(profile)}


def _arguments(profile: Profile) -> list[object]:
    groups: Iterable[Iterable[object]] = (
        profile.gates,
        (profile.order,) if profile.order else (),
        profile.prefilters,
        profile.filters,
        (each.plugin for each in profile.scores),
        profile.reserves,
        profile.permits,
        profile.pre_binds,
        profile.observers,
    )
    every = {plugin_name(plugin): plugin for group in groups for plugin in group}
    written = {name: _heeded(name, written_arguments(plugin)) for name, plugin in every.items()}
    return [{"name": name, "args": args} for name, args in written.items() if args]


def _heeded(name: str, arguments: dict[str, object]) -> dict[str, object]:
    """Without those that change nothing."""
    listed = names(f"{name}Args")
    return {key: value for key, value in arguments.items() if not is_ignored(listed.get(key))}
