"""Decides what a file asks for, or all that is wrong with it; touches no file itself.

A file holds a `KubeSchedulerConfiguration`, which is read here, a `TrimtabConfiguration`, which is left to `own`, or both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from trimtab.config.configuration import Configuration, Connection, LeaderElection
from trimtab.config.fields import known
from trimtab.config.own.addresses import with_addresses
from trimtab.config.own.document import check_rules, read_own
from trimtab.config.own.fields import GROUP as OWN_GROUP
from trimtab.config.own.fields import KIND as OWN_KIND
from trimtab.config.own.settings import TrimtabConfiguration
from trimtab.config.profiles import DEFAULT_SCHEDULER, Binder, read_profiles
from trimtab.config.registry import BINDER, IN_TREE, default_profile
from trimtab.config.spot import INT32, INT64, Report, Spot, nothing
from trimtab.config.tree import Leaf, Table, Tree
from trimtab.config.versions import VERSION, Catalogue, Version, read_version
from trimtab.config.yaml import documents
from trimtab.core.settings import Settings

KIND = "KubeSchedulerConfiguration"
OWN_NAME = "trimtab"
_HOLDS = f"a file holds one {KIND}, one {OWN_KIND}, or both"
JITTER = 1.2  # the share by which a retry may come late, as in client-go
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

Entries = Mapping[str, Spot]


def default_configuration() -> Configuration:
    """What holds without any file: one profile called trimtab with the default plugins."""
    return Configuration(Settings((default_profile(OWN_NAME),)))


def read(
    content: str | bytes,
    file: str,
    extra_plugins: Mapping[str, type] | None = None,
    further_sources: Mapping[str, type] | None = None,
    beside: Callable[[str], tuple[str, bytes]] | None = None,
) -> Configuration:
    """The configuration in a file's content; raises ConfigError with all its problems.

    `beside` reads files that this one names: it answers where each stands and what it holds, or raises OSError.
    """
    report = Report(file, beside=beside)
    theirs, ours = _by_kind(documents(content, file), report)
    own = read_own(ours, further_sources or {}) if ours is not None else TrimtabConfiguration()
    found = _read_theirs(theirs, own, extra_plugins or {}) if theirs is not None else _alone(own)
    if ours is not None:
        check_rules(ours, found.own)
    notes = report.settle()
    return replace(found, settings=replace(found.settings, load=own.load, labels=own.labels), notes=notes)


def _alone(own: TrimtabConfiguration) -> Configuration:
    return replace(default_configuration(), own=own)


def _by_kind(trees: Iterable[Tree], report: Report) -> tuple[Spot | None, Spot | None]:
    """The document for the scheduler and the one of our own; a file holds each at most once, in any order."""
    held: dict[bool, Spot] = {}
    for tree in trees:
        spot, kind = Spot(tree, report), _word(tree, "kind")
        ours = kind == OWN_KIND or _word(tree, "apiVersion").startswith(f"{OWN_GROUP}/")
        if held and not ours and kind not in ("", KIND):
            spot.refuse(f"a document of the kind {kind[:100]!r} is not read: {_HOLDS}")
        elif ours in held:
            spot.refuse(f"a second {kind[:100] or 'document without a kind'}: {_HOLDS}")
        else:
            held[ours] = spot
    return held.get(False), held.get(True)


def _word(tree: Tree, name: str) -> str:
    leaf = tree.entries.get(name) if isinstance(tree, Table) else None
    return leaf.value if isinstance(leaf, Leaf) and isinstance(leaf.value, str) else ""


def _read_theirs(root: Spot, own: TrimtabConfiguration, extra: Mapping[str, type]) -> Configuration:
    report = root.report
    version = _ours(root)
    if version is None:
        report.settle()
    assert version is not None
    entries = known(root, "", version.more_fields)
    _check_ignored(entries)
    placed = read_profiles(_profile_spots(entries, root), Catalogue(_built(report, extra), version))
    profiles = tuple(each.profile for each in placed)
    leader = _read_leader(_at(entries, "leaderElection", report), {profile.name for profile in profiles})
    connection = _read_connection(_at(entries, "clientConnection", report))
    initial, longest = _read_backoff(entries)
    own = with_addresses(own, placed)
    return Configuration(Settings(profiles, float(initial), float(longest)), leader, connection, own=own)


def _built(report: Report, extra: Mapping[str, type]) -> dict[str, type]:
    for name in {*extra} & {*IN_TREE, BINDER}:
        nothing(report).refuse(f"an installed package offers a plugin {name}, but that name is taken")
    return {**extra, **IN_TREE, BINDER: Binder}


def _ours(root: Spot) -> Version | None:
    """The version of a document of the kind that is read here; None after a problem, and no other field is looked at."""
    entries = root.entries()
    if entries is None:
        return None
    before = len(root.report.problems)
    for name in ("apiVersion", "kind"):
        if name not in entries:
            root.refuse(f"{name} is missing: the file must start with apiVersion: {VERSION} and kind: {KIND}")
    version = read_version(entries["apiVersion"]) if "apiVersion" in entries else None
    if "kind" in entries:
        entries["kind"].choice([KIND, OWN_KIND])
    return version if len(root.report.problems) == before else None


def _at(entries: Entries, name: str, report: Report) -> Entries:
    return known(entries[name] if name in entries else nothing(report, name), name)


def _check_ignored(entries: Entries) -> None:
    """Fields that change nothing must still be of their type: a slip there is a slip."""
    if "parallelism" in entries:
        entries["parallelism"].whole(1, INT32)
    if "percentageOfNodesToScore" in entries:
        entries["percentageOfNodesToScore"].whole(0, 100)
    for name in ("healthzBindAddress", "metricsBindAddress"):
        if name in entries:
            entries[name].text()
    for name in ("enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"):
        if name in entries:
            entries[name].truth()
    if "extenders" in entries:
        entries["extenders"].items()


def _profile_spots(entries: Entries, root: Spot) -> list[Spot]:
    listed = entries["profiles"].items() if "profiles" in entries else []
    return listed or [Spot(nothing(root.report).tree, root.report, "profiles[0]")]


def _read_backoff(entries: Entries) -> tuple[int, int]:
    first, last = entries.get("podInitialBackoffSeconds"), entries.get("podMaxBackoffSeconds")
    initial = first.whole(1, INT64) if first else 1
    longest = last.whole(0, INT64) if last else 10
    if initial is not None and longest is not None and longest < initial:
        spot = last or first
        assert spot is not None
        spot.refuse(f"podMaxBackoffSeconds ({longest}) is less than podInitialBackoffSeconds ({initial})")
    return initial or 1, longest or 10


def _read_connection(entries: Entries) -> Connection:
    for name in ("acceptContentTypes", "contentType"):
        if name in entries:
            entries[name].text()
    kubeconfig = entries["kubeconfig"].text() if "kubeconfig" in entries else ""
    qps = entries["qps"].number() if "qps" in entries else None
    burst = entries["burst"].whole(0, INT32) if "burst" in entries else 0
    return Connection(kubeconfig or "", qps if qps and qps > 0 else None, burst or Connection().burst)


def _read_leader(entries: Entries, profiles: set[str]) -> LeaderElection:
    standard = _standard_lease(profiles)
    lock = entries.get("resourceLock")
    if lock is not None and lock.text() != "":
        lock.choice(["leases"])
    elected = entries["leaderElect"].truth() if "leaderElect" in entries else True
    leader = LeaderElection(
        elected is not False,
        _lasting(entries, "leaseDuration", standard.lease_duration),
        _lasting(entries, "renewDeadline", standard.renew_deadline),
        _lasting(entries, "retryPeriod", standard.retry_period),
        _object_name(entries, "resourceName", standard.name),
        _object_name(entries, "resourceNamespace", standard.namespace),
    )
    _check_times(entries, leader)
    if DEFAULT_SCHEDULER in profiles and (leader.name, leader.namespace) != (standard.name, standard.namespace):
        where = entries.get("resourceName") or entries["resourceNamespace"]
        where.note(f"a kube-scheduler for {DEFAULT_SCHEDULER} does not use this lease: never run the two together")
    return leader


def _standard_lease(profiles: set[str]) -> LeaderElection:
    """Whoever serves default-scheduler takes kube-scheduler's own lease, so that the two never lead together."""
    if DEFAULT_SCHEDULER in profiles:
        return LeaderElection(name="kube-scheduler", namespace="kube-system")
    return LeaderElection()


def _lasting(entries: Entries, name: str, otherwise: float) -> float:
    seconds = entries[name].seconds() if name in entries else None
    if seconds is not None and seconds < 0:
        entries[name].refuse("must be longer than nothing")
    return seconds or otherwise


def _object_name(entries: Entries, name: str, otherwise: str) -> str:
    value = entries[name].text() if name in entries else None
    if value and not _OBJECT_NAME.fullmatch(value):
        entries[name].refuse(f"{value[:100]!r} is no name of a Kubernetes object: use a-z, 0-9, '-' and '.'")
    return value or otherwise


def _check_times(entries: Entries, leader: LeaderElection) -> None:
    if not leader.enabled:
        return
    given = [entries[name] for name in ("leaseDuration", "renewDeadline", "retryPeriod") if name in entries]
    if leader.lease_duration <= leader.renew_deadline:
        given[0].refuse(
            f"leaseDuration ({leader.lease_duration:g}s) must exceed renewDeadline ({leader.renew_deadline:g}s)"
        )
    if leader.renew_deadline <= JITTER * leader.retry_period:
        given[-1].refuse(
            f"renewDeadline ({leader.renew_deadline:g}s) must exceed {JITTER} × retryPeriod ({leader.retry_period:g}s)"
        )
