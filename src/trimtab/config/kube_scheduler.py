"""Decides what a file asks for, or all that is wrong with it; touches no file itself.

A file holds a `KubeSchedulerConfiguration`, which is read here, a `TrimtabConfiguration`, which is left to `own`, or both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from trimtab.config.config_node import INT32, INT64, ConfigNode, Report, missing
from trimtab.config.configuration import ClientConnection, Configuration, LeaderElection
from trimtab.config.fields import checked_fields
from trimtab.config.profiles import DEFAULT_SCHEDULER, DefaultBinder, parse_profiles
from trimtab.config.registry import DEFAULT_BINDER, IN_TREE, default_profile
from trimtab.config.tree import MappingNode, ScalarNode, YamlNode
from trimtab.config.trimtab.document import check_rule_sources, parse_document
from trimtab.config.trimtab.fields import GROUP as OWN_GROUP
from trimtab.config.trimtab.fields import KIND as OWN_KIND
from trimtab.config.trimtab.plugin_sources import add_plugin_sources
from trimtab.config.trimtab.settings import TrimtabConfiguration
from trimtab.config.versions import VERSION, PluginCatalogue, Version, parse_version
from trimtab.config.yaml import parse_documents
from trimtab.core.settings import Settings

KIND = "KubeSchedulerConfiguration"
DEFAULT_PROFILE_NAME = "trimtab"
_ALLOWED_DOCUMENTS = f"a file holds one {KIND}, one {OWN_KIND}, or both"
JITTER_FACTOR = 1.2  # the share by which a retry may come late, as in client-go
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

Entries = Mapping[str, ConfigNode]


def default_configuration() -> Configuration:
    """What holds without any file: one profile called trimtab with the default plugins."""
    return Configuration(Settings((default_profile(DEFAULT_PROFILE_NAME),)))


def parse(
    content: str | bytes,
    file: str,
    extra_plugins: Mapping[str, type] | None = None,
    source_kinds: Mapping[str, type] | None = None,
    read_file: Callable[[str], tuple[str, bytes]] | None = None,
) -> Configuration:
    """The configuration in a file's content; raises ConfigError with all its problems.

    `beside` reads files that this one names: it answers where each stands and what it holds, or raises OSError.
    """
    report = Report(file, read_file=read_file)
    theirs, ours = _split_documents(parse_documents(content, file), report)
    own = parse_document(ours, source_kinds or {}) if ours is not None else TrimtabConfiguration()
    found = _parse_kube_scheduler(theirs, own, extra_plugins or {}) if theirs is not None else _defaults_with(own)
    if ours is not None:
        check_rule_sources(ours, found.trimtab)
    notes = report.finish()
    return replace(found, settings=replace(found.settings, load=own.load, labels=own.labels), notes=notes)


def _defaults_with(own: TrimtabConfiguration) -> Configuration:
    return replace(default_configuration(), trimtab=own)


def _split_documents(trees: Iterable[YamlNode], report: Report) -> tuple[ConfigNode | None, ConfigNode | None]:
    """The document for the scheduler and the one of our own; a file holds each at most once, in any order."""
    held: dict[bool, ConfigNode] = {}
    for tree in trees:
        spot, kind = ConfigNode(tree, report), _string_field(tree, "kind")
        ours = kind == OWN_KIND or _string_field(tree, "apiVersion").startswith(f"{OWN_GROUP}/")
        if held and not ours and kind not in ("", KIND):
            spot.error(f"a document of the kind {kind[:100]!r} is not read: {_ALLOWED_DOCUMENTS}")
        elif ours in held:
            spot.error(f"a second {kind[:100] or 'document without a kind'}: {_ALLOWED_DOCUMENTS}")
        else:
            held[ours] = spot
    return held.get(False), held.get(True)


def _string_field(tree: YamlNode, name: str) -> str:
    leaf = tree.entries.get(name) if isinstance(tree, MappingNode) else None
    return leaf.value if isinstance(leaf, ScalarNode) and isinstance(leaf.value, str) else ""


def _parse_kube_scheduler(root: ConfigNode, own: TrimtabConfiguration, extra: Mapping[str, type]) -> Configuration:
    report = root.report
    version = _version_of(root)
    if version is None:
        report.finish()
    assert version is not None
    entries = checked_fields(root, "", version.extra_fields)
    _check_ignored(entries)
    placed = parse_profiles(_profile_nodes(entries, root), PluginCatalogue(_available_plugins(report, extra), version))
    profiles = tuple(each.profile for each in placed)
    leader = _parse_leader_election(_section(entries, "leaderElection", report), {profile.name for profile in profiles})
    connection = _parse_client_connection(_section(entries, "clientConnection", report))
    initial, longest = _parse_backoff(entries)
    own = add_plugin_sources(own, placed)
    return Configuration(Settings(profiles, float(initial), float(longest)), leader, connection, trimtab=own)


def _available_plugins(report: Report, extra: Mapping[str, type]) -> dict[str, type]:
    for name in {*extra} & {*IN_TREE, DEFAULT_BINDER}:
        missing(report).error(f"an installed package offers a plugin {name}, but that name is taken")
    return {**extra, **IN_TREE, DEFAULT_BINDER: DefaultBinder}


def _version_of(root: ConfigNode) -> Version | None:
    """The version of a document of the kind that is read here; None after a problem, and no other field is looked at."""
    entries = root.entries()
    if entries is None:
        return None
    before = len(root.report.problems)
    for name in ("apiVersion", "kind"):
        if name not in entries:
            root.error(f"{name} is missing: the file must start with apiVersion: {VERSION} and kind: {KIND}")
    version = parse_version(entries["apiVersion"]) if "apiVersion" in entries else None
    if "kind" in entries:
        entries["kind"].choice([KIND, OWN_KIND])
    return version if len(root.report.problems) == before else None


def _section(entries: Entries, name: str, report: Report) -> Entries:
    return checked_fields(entries[name] if name in entries else missing(report, name), name)


def _check_ignored(entries: Entries) -> None:
    """Fields that change nothing must still be of their type: a slip there is a slip."""
    if "parallelism" in entries:
        entries["parallelism"].integer(1, INT32)
    if "percentageOfNodesToScore" in entries:
        entries["percentageOfNodesToScore"].integer(0, 100)
    for name in ("healthzBindAddress", "metricsBindAddress"):
        if name in entries:
            entries[name].string()
    for name in ("enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"):
        if name in entries:
            entries[name].boolean()
    if "extenders" in entries:
        entries["extenders"].items()


def _profile_nodes(entries: Entries, root: ConfigNode) -> list[ConfigNode]:
    listed = entries["profiles"].items() if "profiles" in entries else []
    return listed or [ConfigNode(missing(root.report).yaml, root.report, "profiles[0]")]


def _parse_backoff(entries: Entries) -> tuple[int, int]:
    first, last = entries.get("podInitialBackoffSeconds"), entries.get("podMaxBackoffSeconds")
    initial = first.integer(1, INT64) if first else 1
    longest = last.integer(0, INT64) if last else 10
    if initial is not None and longest is not None and longest < initial:
        spot = last or first
        assert spot is not None
        spot.error(f"podMaxBackoffSeconds ({longest}) is less than podInitialBackoffSeconds ({initial})")
    return initial or 1, longest or 10


def _parse_client_connection(entries: Entries) -> ClientConnection:
    for name in ("acceptContentTypes", "contentType"):
        if name in entries:
            entries[name].string()
    kubeconfig = entries["kubeconfig"].string() if "kubeconfig" in entries else ""
    qps = entries["qps"].number() if "qps" in entries else None
    burst = entries["burst"].integer(0, INT32) if "burst" in entries else 0
    return ClientConnection(kubeconfig or "", qps if qps and qps > 0 else None, burst or ClientConnection().burst)


def _parse_leader_election(entries: Entries, profiles: set[str]) -> LeaderElection:
    standard = _default_lease(profiles)
    lock = entries.get("resourceLock")
    if lock is not None and lock.string() != "":
        lock.choice(["leases"])
    elected = entries["leaderElect"].boolean() if "leaderElect" in entries else True
    leader = LeaderElection(
        elected is not False,
        _positive_duration(entries, "leaseDuration", standard.lease_duration),
        _positive_duration(entries, "renewDeadline", standard.renew_deadline),
        _positive_duration(entries, "retryPeriod", standard.retry_period),
        _object_name(entries, "resourceName", standard.name),
        _object_name(entries, "resourceNamespace", standard.namespace),
    )
    _check_times(entries, leader)
    if DEFAULT_SCHEDULER in profiles and (leader.name, leader.namespace) != (standard.name, standard.namespace):
        where = entries.get("resourceName") or entries["resourceNamespace"]
        where.note(f"a kube-scheduler for {DEFAULT_SCHEDULER} does not use this lease: never run the two together")
    return leader


def _default_lease(profiles: set[str]) -> LeaderElection:
    """Whoever serves default-scheduler takes kube-scheduler's own lease, so that the two never lead together."""
    if DEFAULT_SCHEDULER in profiles:
        return LeaderElection(name="kube-scheduler", namespace="kube-system")
    return LeaderElection()


def _positive_duration(entries: Entries, name: str, otherwise: float) -> float:
    seconds = entries[name].duration() if name in entries else None
    if seconds is not None and seconds < 0:
        entries[name].error("must be longer than nothing")
    return seconds or otherwise


def _object_name(entries: Entries, name: str, otherwise: str) -> str:
    value = entries[name].string() if name in entries else None
    if value and not _OBJECT_NAME.fullmatch(value):
        entries[name].error(f"{value[:100]!r} is no name of a Kubernetes object: use a-z, 0-9, '-' and '.'")
    return value or otherwise


def _check_times(entries: Entries, leader: LeaderElection) -> None:
    if not leader.enabled:
        return
    given = [entries[name] for name in ("leaseDuration", "renewDeadline", "retryPeriod") if name in entries]
    if leader.lease_duration <= leader.renew_deadline:
        given[0].error(
            f"leaseDuration ({leader.lease_duration:g}s) must exceed renewDeadline ({leader.renew_deadline:g}s)"
        )
    if leader.renew_deadline <= JITTER_FACTOR * leader.retry_period:
        given[-1].error(
            f"renewDeadline ({leader.renew_deadline:g}s) must exceed {JITTER_FACTOR} × retryPeriod ({leader.retry_period:g}s)"
        )
