"""Decides which sources stand in the arguments of plugins, where their origins have them; the core never sees an address.

MemRealUsage and CpuRealUsage name a Prometheus (`prometheusApiAddr`), the Trimaran plugins a `metricProvider`. The same
address twice is one source, and one that the document of our own describes is taken from there. Arguments of plugins
that are not enabled are no source, but what may not stand in the others may not stand there either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from trimtab.config.config_node import ConfigNode
from trimtab.config.profiles import ParsedProfile
from trimtab.config.tree import MappingNode, ScalarNode
from trimtab.config.trimtab.document import validate_interval
from trimtab.config.trimtab.settings import (
    MetricsServerSettings,
    PrometheusSettings,
    SourceSettings,
    Tls,
    TrimtabConfiguration,
)
from trimtab.config.trimtab.sources import parse_url
from trimtab.config.trimtab.url import normalise_url
from trimtab.core.load.provider import METRICS_SERVER
from trimtab.core.model.change import Change

REAL_USAGE_INTERVAL = 10.0
METRICS_SERVER_NAME = "metrics-server"


@dataclass(frozen=True, slots=True)
class _RequestedPrometheus:
    """A Prometheus as a plugin's arguments ask for it."""

    node: ConfigNode
    url: str
    interval: float = PrometheusSettings("", "").interval
    timeout: float = PrometheusSettings("", "").timeout
    insecure_skip_verify: bool = False


def add_plugin_sources(own: TrimtabConfiguration, profiles: Iterable[ParsedProfile]) -> TrimtabConfiguration:
    """The document together with what plugins ask for; says so where one asks for measurements that nobody takes."""
    placed = tuple(profiles)
    sources = (*own.sources, *_derived(own, placed))
    if not sources and any(_uses_metrics_server(plugin) for one in placed for plugin in one.plugins.values()):
        sources = (MetricsServerSettings(METRICS_SERVER_NAME),)
    for one in placed if not sources else ():
        _note_no_source(one)
    return replace(own, sources=sources)


def _uses_metrics_server(plugin: object) -> bool:
    """As Trimaran's plugins do unless told otherwise, so it counts only where nothing else is measured by."""
    return getattr(getattr(plugin, "metric_provider", None), "type", "") == METRICS_SERVER.type


def _derived(own: TrimtabConfiguration, placed: Iterable[ParsedProfile]) -> Iterable[SourceSettings]:
    """By place, so that each is asked once; of two that ask alike the more impatient one counts."""
    known = {normalise_url(each.url) for each in own.sources if isinstance(each, PrometheusSettings)}
    made: dict[str, PrometheusSettings] = {}
    for each in (each for one in placed for args in one.arguments.values() for each in _requested(args)):
        place = normalise_url(each.url)
        if place not in known and parse_url(each.node) is not None:
            made[place] = _merge(each, made.get(place), (*own.sources, *made.values()))
            if (fault := validate_interval(made[place], own.load)) is not None:
                each.node.error(fault)
    for each in (each for one in placed for args in one.unused.values() for each in _requested(args)):
        if normalise_url(each.url) not in known:
            parse_url(each.node)
    return made.values()


def _merge(
    wanted: _RequestedPrometheus, before: PrometheusSettings | None, others: Collection[SourceSettings]
) -> PrometheusSettings:
    if before is not None:
        interval = min(before.interval, wanted.interval)
        return replace(before, interval=interval, timeout=min(before.timeout, interval))
    tls = Tls(insecure_skip_verify=wanted.insecure_skip_verify)
    timeout = min(wanted.timeout, wanted.interval)
    return PrometheusSettings(_unused_name("prometheus", others), wanted.url, wanted.interval, timeout, tls=tls)


def _note_no_source(placed: ParsedProfile) -> None:
    blind = [name for name, reads in placed.profile.depends_on.items() if reads & int(Change.LOAD)]
    if blind:
        placed.node.note(
            f"{', '.join(blind)} would look at measured load, but there is no source of it and requests stand in: "
            "add a TrimtabConfiguration with sources"
        )


def _unused_name(name: str, sources: Collection[SourceSettings]) -> str:
    taken = {each.name for each in sources}
    numbered = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if each not in taken)


def _requested(args: ConfigNode) -> Iterator[_RequestedPrometheus]:
    """What has the wrong type has been reported by whoever read the arguments, and is passed over here."""
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
            "a token may not stand here, where everybody reads it: put it in a file, and name that in a "
            "TrimtabConfiguration as bearerTokenFile of a source with this address"
        )
    kind = _value(entries.get("type"))
    if kind != "Prometheus" and "@" in _address(entries.get("address")):
        parse_url(entries["address"])
    if kind == "Prometheus" and (url := _address(entries.get("address"))):
        yield _RequestedPrometheus(
            entries["address"], url, insecure_skip_verify=_value(entries.get("insecureSkipVerify")) is True
        )
    elif kind == "Prometheus":
        node.error("address is missing: write where that Prometheus is")
    elif kind is not None and kind != METRICS_SERVER.type:
        entries["type"].note(f"ignored: only Prometheus and {METRICS_SERVER.type} are asked")


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
