"""Adds the sources that plugins name in their arguments, as the projects they come from configure them.

MemRealUsage and CpuRealUsage name a Prometheus (`prometheusApiAddr`), the Trimaran plugins a `metricProvider`. The same
URL twice is one source, and a source of the TrimtabConfiguration with that URL goes before it. Arguments of plugins that
are not enabled add no source, but are validated as the others are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from trimtab.config.config_node import ConfigNode
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
from trimtab.config.yaml import MappingNode, ScalarNode
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.change import Change
from trimtab.core.plugins.trimaran import METRICS_SERVER

REAL_USAGE_INTERVAL = 10.0
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
    if not sources and any(_uses_metrics_server(plugin) for one in profiles for plugin in one.plugins.values()):
        sources = (MetricsServerSettings(METRICS_SERVER_NAME),)
    for profile in profiles if not sources else ():
        _note_no_source(profile)
    return replace(document, sources=sources)


def _uses_metrics_server(plugin: object) -> bool:
    """The default of Trimaran's plugins, so it counts only where there is no other source."""
    return getattr(getattr(plugin, "metric_provider", None), "type", "") == METRICS_SERVER.type


def _plugin_sources(
    document: TrimtabConfiguration, load: LoadSettings, profiles: tuple[ParsedProfile, ...]
) -> Iterable[SourceSettings]:
    """One for each URL; of several requests for it the shortest interval counts."""
    known = {normalise_url(each.url) for each in document.sources if isinstance(each, PrometheusSettings)}
    sources: dict[str, PrometheusSettings] = {}
    for each in (each for one in profiles for args in one.arguments.values() for each in _requested(args)):
        url = normalise_url(each.url)
        if url not in known and parse_url(each.node) is not None:
            sources[url] = _merge(each, sources.get(url), (*document.sources, *sources.values()))
            if (error := validate_interval(sources[url], load)) is not None:
                each.node.error(error)
    for each in (each for one in profiles for args in one.unused.values() for each in _requested(args)):
        if normalise_url(each.url) not in known:
            parse_url(each.node)
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
    plugins = [name for name, changes in parsed.profile.depends_on.items() if changes & int(Change.LOAD)]
    if plugins:
        parsed.node.note(
            f"{', '.join(plugins)} would use measured load, but there is no source, so requests are used instead: "
            "add a TrimtabConfiguration with sources"
        )


def _unused_name(name: str, sources: Collection[SourceSettings]) -> str:
    taken = {each.name for each in sources}
    numbered = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if each not in taken)


def _requested(args: ConfigNode) -> Iterator[_RequestedPrometheus]:
    """Values of a wrong type have been reported when the arguments were parsed, and are skipped here."""
    entries = _entries(args)
    if url := _address(entries.get("prometheusApiAddr")):
        interval, timeout = (
            _seconds(entries.get(name)) for name in ("queryMetricIntervalSeconds", "queryMetricTimeSeconds")
        )
        yield _RequestedPrometheus(entries["prometheusApiAddr"], url, interval, timeout)
    if "metricProvider" in entries:
        yield from _from_metric_provider(entries["metricProvider"])


def _from_metric_provider(node: ConfigNode) -> Iterator[_RequestedPrometheus]:
    entries = _entries(node)
    if _value(entries.get("token")):
        entries["token"].error(
            "a token may not be written here, where everybody can read it: put it in a file, and name that in a "
            "TrimtabConfiguration as bearerTokenFile of a source with this URL"
        )
    kind = _value(entries.get("type"))
    if kind != "Prometheus" and "@" in _address(entries.get("address")):
        parse_url(entries["address"])
    if kind == "Prometheus" and (url := _address(entries.get("address"))):
        yield _RequestedPrometheus(
            entries["address"], url, insecure_skip_verify=_value(entries.get("insecureSkipVerify")) is True
        )
    elif kind == "Prometheus":
        node.error("address is missing: write the URL of that Prometheus")
    elif kind is not None and kind != METRICS_SERVER.type:
        entries["type"].note(f"ignored: only Prometheus and {METRICS_SERVER.type} are supported")


def _entries(node: ConfigNode) -> Mapping[str, ConfigNode]:
    return node.entries() or {} if isinstance(node.yaml, MappingNode) else {}


def _value(node: ConfigNode | None) -> object:
    return node.yaml.value if node is not None and isinstance(node.yaml, ScalarNode) else None


def _address(node: ConfigNode | None) -> str:
    value = _value(node)
    return value if isinstance(value, str) else ""


def _seconds(node: ConfigNode | None) -> float:
    value = _value(node)
    return max(float(value), 1.0) if isinstance(value, int) and value > 0 else REAL_USAGE_INTERVAL
