"""Adds the sources that plugins name in their arguments, as the projects they come from configure them.

A plugin says so itself (`NamesSource`): MemRealUsage and CpuRealUsage name a Prometheus, for instance. The same
URL twice is one source, and a source of the TrimtabConfiguration with that URL goes before it. Arguments of plugins that
are not enabled add no source, but are validated as the others are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

from trimtab.config.config_node import ConfigNode
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import Info
from trimtab.config.profiles import ParsedProfile
from trimtab.config.trimtab.document import validate_interval
from trimtab.config.trimtab.settings import (
    PROMETHEUS_INTERVAL,
    TIMEOUT,
    MetricsServerSettings,
    PrometheusSettings,
    SourceSettings,
    Tls,
    TrimtabConfiguration,
    parse_url,
)
from trimtab.config.trimtab.validation import normalise_url
from trimtab.core.framework.interface import NamesSource
from trimtab.core.framework.profile import Profile
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.change import Change

METRICS_SERVER_NAME = "metrics-server"


@dataclass(frozen=True, slots=True)
class _RequestedPrometheus:
    """A Prometheus as a plugin's arguments describe it."""

    node: ConfigNode
    url: str
    interval: float = PROMETHEUS_INTERVAL
    timeout: float = TIMEOUT
    insecure_skip_verify: bool = False


def add_plugin_sources(
    document: TrimtabConfiguration, load: LoadSettings, profiles: tuple[ParsedProfile, ...]
) -> TrimtabConfiguration:
    """The document with the sources of plugins; notes plugins that need measurements where nothing is measured."""
    sources = (*document.sources, *_plugin_sources(document, load, profiles))
    for profile in profiles if not sources else ():
        if names := [name for name in sorted(profile.enabled) if _uses_metrics_server(profile.plugins[name])]:
            sources = (MetricsServerSettings(METRICS_SERVER_NAME),)
            _note_metrics_server(profile, names)
    for profile in profiles if not sources else ():
        _note_no_source(profile)
    return replace(document, sources=sources)


def _note_metrics_server(parsed: ParsedProfile, names: list[str]) -> None:
    parsed.node.note(
        f"the file names no source, so {', '.join(names)} reads metrics-server, as `kubectl top nodes` does; "
        "nodes without data are compared by requests",
        Info,
    )


def _uses_metrics_server(plugin: object) -> bool:
    """A mere default of these plugins, so it counts only where there is no other source."""
    named = plugin.named_source() if isinstance(plugin, NamesSource) else None
    return named is not None and named.kind == "metrics-server"


def _plugin_sources(
    document: TrimtabConfiguration, load: LoadSettings, profiles: tuple[ParsedProfile, ...]
) -> Iterable[SourceSettings]:
    """One for each URL; of several requests for it the shortest interval counts."""
    known = {normalise_url(each.url) for each in document.sources if isinstance(each, PrometheusSettings)}
    sources: dict[str, PrometheusSettings] = {}
    for profile, name, args in ((one, name, args) for one in profiles for name, args in one.arguments.items()):
        for each in _requested(profile.plugins[name], args):
            url = normalise_url(each.url)
            if url in known or parse_url(each.node) is None or name not in profile.enabled:
                continue
            sources[url] = _merge(each, sources.get(url), (*document.sources, *sources.values()))
            if (error := validate_interval(sources[url], load)) is not None:
                each.node.error(error)
    return sources.values()


def _merge(
    requested: _RequestedPrometheus, earlier: PrometheusSettings | None, others: Collection[SourceSettings]
) -> PrometheusSettings:
    if earlier is not None:
        interval = min(earlier.interval, requested.interval)
        return replace(earlier, interval=interval, timeout=min(earlier.timeout, interval))
    tls = Tls(insecure_skip_verify=requested.insecure_skip_verify)
    timeout = min(requested.timeout, requested.interval)
    return PrometheusSettings(_unused_name("prometheus", others), requested.url, requested.interval, timeout, tls=tls)


def _note_no_source(parsed: ParsedProfile) -> None:
    plugins = _load_aware(parsed.profile)
    if plugins:
        instead = "nodes take turns" if _all_take_turns(parsed.profile) else "requests are used"
        parsed.node.note(
            f"{', '.join(plugins)} would use measured load, but there is no source, so {instead} instead: "
            "add a TrimtabConfiguration with sources"
        )


def describe_sources(configuration: Configuration) -> str:
    """The names of the sources, or what is done without any."""
    if configuration.trimtab.sources:
        return ", ".join(source.name for source in configuration.trimtab.sources)
    profiles = [each for each in configuration.settings.profiles if _load_aware(each)]
    return "none, nodes take turns" if profiles and all(map(_all_take_turns, profiles)) else "none, scores use requests"


def _load_aware(profile: Profile) -> list[str]:
    return [name for name, changes in profile.depends_on.items() if changes & int(Change.LOAD)]


def _all_take_turns(profile: Profile) -> bool:
    return {*_load_aware(profile)} <= {*take_turns(profile)}


def take_turns(profile: Profile) -> list[str]:
    """The scores that, without metrics of any node, let nodes take turns instead of using requests."""
    return [each.name for each in profile.scores if getattr(each.plugin, "takes_turns", False)]


def _unused_name(name: str, sources: Collection[SourceSettings]) -> str:
    taken = {each.name for each in sources}
    numbered = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if each not in taken)


def _requested(plugin: object, args: ConfigNode) -> Iterator[_RequestedPrometheus]:
    named = plugin.named_source() if isinstance(plugin, NamesSource) else None
    if named is None or not named.url:
        return
    node = reduce(ConfigNode.child, named.argument, args)
    if named.kind == "prometheus":
        interval, timeout = named.interval or PROMETHEUS_INTERVAL, named.timeout or TIMEOUT
        yield _RequestedPrometheus(node, named.url, interval, timeout, named.insecure_skip_verify)
    elif "@" in named.url:
        parse_url(node)  # not queried, but a password may not be written there either
