"""Parses a configuration file: a `KubeSchedulerConfiguration`, a `TrimtabConfiguration`, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trimtab.config.config_node import ConfigNode, Report, missing
from trimtab.config.configuration import ClientConnection, Configuration, LeaderElection
from trimtab.config.fields import VERSION, PluginCatalogue, Version, checked_fields, parse_version
from trimtab.config.manifests import locate
from trimtab.config.profiles import DefaultBinder, ParsedProfile, parse_profiles
from trimtab.config.registry import DEFAULT_BINDER, IN_TREE, default_profile
from trimtab.config.schema import Parsed, fields_of, parse_entries
from trimtab.config.trimtab.document import GROUP as TRIMTAB_GROUP
from trimtab.config.trimtab.document import KIND as TRIMTAB_KIND
from trimtab.config.trimtab.document import check_rule_sources, parse_document
from trimtab.config.trimtab.limits import check_limit_sources
from trimtab.config.trimtab.plugin_rescheduling import add_plugin_rescheduling
from trimtab.config.trimtab.plugin_sources import add_plugin_sources
from trimtab.config.trimtab.rescheduling import BUILTIN_ONLY, Installed
from trimtab.config.trimtab.settings import SourceSettings, TrimtabConfiguration
from trimtab.config.yaml import MappingNode, ScalarNode, YamlNode
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.duration import INT64
from trimtab.core.model.setting import INT32, setting
from trimtab.core.settings import INITIAL_BACKOFF, MAX_BACKOFF, Settings
from trimtab.wire.pod_template import DEFAULT_SCHEDULER

KIND = "KubeSchedulerConfiguration"
DEFAULT_PROFILE_NAME = "trimtab"
JITTER_FACTOR = 1.2  # by how much a retry may be late, as in client-go
_ALLOWED_DOCUMENTS = f"a file holds one {KIND}, one {TRIMTAB_KIND}, or both"
RULE_FILE_REMEDY = (
    "these are rules of dynamic-Scheduler: run `trimtab labeller -prom URL -r {file}`, or convert them with "
    "`trimtab config show {file} -prom URL`"
)

Entries = Mapping[str, ConfigNode]


def default_configuration() -> Configuration:
    """The configuration without a file: one profile called trimtab with the default plugins."""
    return Configuration(Settings((default_profile(DEFAULT_PROFILE_NAME),)))


def parse(
    content: str | bytes,
    file: str,
    extra_plugins: Mapping[str, type] | None = None,
    source_kinds: Mapping[str, type[SourceSettings]] | None = None,
    read_file: Callable[[str], tuple[str, bytes]] | None = None,
    key: str = "",
    installed: Installed = BUILTIN_ONLY,
) -> Configuration:
    """The configuration in a file's content; raises ConfigError with all its problems.

    source_kinds: the settings of further kinds of sources. read_file: reads a file that this one names, and returns its
    path and content; raises OSError. key: where a ConfigMap or Secret holds the configuration, if it has several.
    installed: what the rescheduler has from other packages and from extras.
    """
    located = locate(content, file, key)
    report = Report(located.file, read_file=read_file)
    if located.is_rule_file:
        ConfigNode(located.documents[0], report).error(RULE_FILE_REMEDY.format(file=file))
        report.finish()
    scheduler, trimtab = _split_documents(located.documents, report)
    document, load = TrimtabConfiguration(), LoadSettings()
    if trimtab is not None:
        document, load = parse_document(trimtab, source_kinds or {}, installed)
    configuration = default_configuration()
    if scheduler is not None:
        configuration, parsed_profiles = _parse_kube_scheduler(scheduler, extra_plugins or {})
        document = add_plugin_sources(document, load, parsed_profiles)
        document = add_plugin_rescheduling(document, parsed_profiles)
    if trimtab is not None:
        check_rule_sources(trimtab, document)
        check_limit_sources(trimtab, document)
    notes = report.finish()
    settings = replace(configuration.settings, load=load, labels=document.labels, rescheduling=document.rescheduling)
    return replace(configuration, settings=settings, notes=notes, trimtab=document)


def _split_documents(trees: Iterable[YamlNode], report: Report) -> tuple[ConfigNode | None, ConfigNode | None]:
    """The scheduler's document and Trimtab's own; a file holds each at most once, in any order."""
    found: dict[bool, ConfigNode] = {}
    for tree in trees:
        node, kind = ConfigNode(tree, report), _string_field(tree, "kind")
        is_trimtab = kind == TRIMTAB_KIND or _string_field(tree, "apiVersion").startswith(f"{TRIMTAB_GROUP}/")
        if found and not is_trimtab and kind not in ("", KIND):
            node.error(f"a document of kind {kind[:100]!r} is not supported: {_ALLOWED_DOCUMENTS}")
        elif is_trimtab in found:
            node.error(f"a second {kind[:100] or 'document without a kind'}: {_ALLOWED_DOCUMENTS}")
        else:
            found[is_trimtab] = node
    return found.get(False), found.get(True)


def _string_field(tree: YamlNode, name: str) -> str:
    field = tree.entries.get(name) if isinstance(tree, MappingNode) else None
    return field.value if isinstance(field, ScalarNode) and isinstance(field.value, str) else ""


@dataclass(frozen=True, slots=True)
class _TopLevel:
    """Plain fields of the document; a wrong type is an error even in those that are ignored."""

    parallelism: int = setting(16, between=(1, INT32))
    percentage_of_nodes_to_score: int = setting(0, between=(0, 100))
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    enable_profiling: bool = False
    enable_contention_profiling: bool = False
    delay_cache_until_active: bool = False
    pod_initial_backoff_seconds: int = setting(int(INITIAL_BACKOFF), between=(1, INT64))
    pod_max_backoff_seconds: int = setting(int(MAX_BACKOFF), between=(0, INT64))


def _parse_kube_scheduler(
    root: ConfigNode, extra: Mapping[str, type]
) -> tuple[Configuration, tuple[ParsedProfile, ...]]:
    version = _version_of(root)
    if version is None:
        root.report.finish()
    assert version is not None
    entries = checked_fields(root, "", version.extra_fields)
    top_level = parse_entries(root, entries, fields_of(_TopLevel))
    initial, longest = _parse_backoff(top_level)
    if "extenders" in entries:
        entries["extenders"].items()
    catalogue = PluginCatalogue(_available_plugins(root.report, extra), version)
    percentage = top_level.values.get("percentage_of_nodes_to_score", 0)
    parsed = parse_profiles(_profile_nodes(entries, root), catalogue, percentage)
    profiles = tuple(each.profile for each in parsed)
    leader = _parse_leader_election(_section(entries, "leaderElection", root), {each.name for each in profiles})
    connection = _parse_client_connection(_section(entries, "clientConnection", root))
    written = {each.profile.name: each.written for each in parsed}
    settings = Settings(profiles, float(initial), float(longest))
    return Configuration(settings, leader, connection, written=written), parsed


def _available_plugins(report: Report, extra: Mapping[str, type]) -> dict[str, type]:
    for name in {*extra} & {*IN_TREE, DEFAULT_BINDER}:
        missing(report).error(f"an installed package offers a plugin {name}, but that name is taken")
    return {**extra, **IN_TREE, DEFAULT_BINDER: DefaultBinder}


def _version_of(root: ConfigNode) -> Version | None:
    """The version of the document; None after a problem with version or kind, and then no other field is parsed."""
    entries = root.entries()
    if entries is None:
        return None
    before = len(root.report.problems)
    for name in ("apiVersion", "kind"):
        if name not in entries:
            root.error(f"{name} is missing: the file must start with apiVersion: {VERSION} and kind: {KIND}")
    version = parse_version(entries["apiVersion"]) if "apiVersion" in entries else None
    if "kind" in entries:
        entries["kind"].choice([KIND, TRIMTAB_KIND])
    return version if len(root.report.problems) == before else None


def _profile_nodes(entries: Entries, root: ConfigNode) -> list[ConfigNode]:
    listed = entries["profiles"].items() if "profiles" in entries else []
    return listed or [missing(root.report, "profiles[0]")]


def _section(entries: Entries, name: str, root: ConfigNode) -> tuple[ConfigNode, Entries]:
    node = entries[name] if name in entries else missing(root.report, name)
    return node, checked_fields(node, name)


def _parse_backoff(parsed: Parsed) -> tuple[int, int]:
    initial = parsed.values.get("pod_initial_backoff_seconds", int(INITIAL_BACKOFF))
    longest = parsed.values.get("pod_max_backoff_seconds", int(MAX_BACKOFF))
    if longest < initial:
        parsed.at("podMaxBackoffSeconds", "podInitialBackoffSeconds").error(
            f"podMaxBackoffSeconds ({longest}) is less than podInitialBackoffSeconds ({initial})"
        )
    return initial, longest


def _parse_client_connection(section: tuple[ConfigNode, Entries]) -> ClientConnection:
    node, entries = section
    for name in ("acceptContentTypes", "contentType"):
        if name in entries:
            entries[name].string()
    values = parse_entries(node, entries, fields_of(ClientConnection)).values
    qps = values.get("qps", 0.0)
    return ClientConnection(
        values.get("kubeconfig", ""), qps if qps > 0 else None, values.get("burst") or ClientConnection().burst
    )


def _parse_leader_election(section: tuple[ConfigNode, Entries], profiles: set[str]) -> LeaderElection:
    """A field that is empty or 0 has its default, as in kube-scheduler."""
    node, entries = section
    lock = entries.get("resourceLock")
    if lock is not None and lock.string() != "":
        lock.choice(["leases"])
    parsed = parse_entries(node, entries, fields_of(LeaderElection))
    default = _default_lease(profiles)
    given: dict[str, Any] = {name: value for name, value in parsed.values.items() if value or value is False}
    leader = replace(default, **given)
    _check_times(parsed, leader)
    if DEFAULT_SCHEDULER in profiles and (leader.name, leader.namespace) != (default.name, default.namespace):
        parsed.at("resourceName", "resourceNamespace").note(
            f"a kube-scheduler for {DEFAULT_SCHEDULER} does not use this lease: never run the two together"
        )
    return leader


def _default_lease(profiles: set[str]) -> LeaderElection:
    """A replica that serves default-scheduler uses kube-scheduler's own lease, so that the two never lead together."""
    if DEFAULT_SCHEDULER in profiles:
        return LeaderElection(name="kube-scheduler", namespace="kube-system")
    return LeaderElection()


def _check_times(parsed: Parsed, leader: LeaderElection) -> None:
    if not leader.enabled:
        return
    times = ("leaseDuration", "renewDeadline", "retryPeriod")
    lease, renew, retry = leader.lease_duration, leader.renew_deadline, leader.retry_period
    if lease <= renew:
        parsed.at(*times).error(f"leaseDuration ({lease:g}s) must exceed renewDeadline ({renew:g}s)")
    if renew <= JITTER_FACTOR * retry:
        parsed.at(*reversed(times)).error(
            f"renewDeadline ({renew:g}s) must exceed {JITTER_FACTOR} × retryPeriod ({retry:g}s)"
        )
