"""Decides which sources stand in the arguments of plugins, where their origins have them; the core never sees an address.

MemRealUsage and CpuRealUsage name a Prometheus (`prometheusApiAddr`), the Trimaran plugins a `metricProvider`. The same
address twice is one source, and one that the document of our own describes is taken from there. Arguments of plugins
that are not enabled are no source, but what may not stand in the others may not stand there either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from trimtab.config.own.address import same_place
from trimtab.config.own.document import pace_fault
from trimtab.config.own.settings import (
    MetricsServerSettings,
    PrometheusSettings,
    SourceSettings,
    Tls,
    TrimtabConfiguration,
)
from trimtab.config.own.sources import checked_url
from trimtab.config.profiles import Placed
from trimtab.config.spot import Spot
from trimtab.config.tree import Leaf, Table
from trimtab.core.load.provider import METRICS_SERVER
from trimtab.core.model.change import Change

S2_SECONDS = 10.0
SERVER = "metrics-server"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A Prometheus as a plugin's arguments ask for it."""

    where: Spot
    url: str
    interval: float = PrometheusSettings("", "").interval
    timeout: float = PrometheusSettings("", "").timeout
    believe_anybody: bool = False


def with_addresses(own: TrimtabConfiguration, profiles: Iterable[Placed]) -> TrimtabConfiguration:
    """The document together with what plugins ask for; says so where one asks for measurements that nobody takes."""
    placed = tuple(profiles)
    sources = (*own.sources, *_derived(own, placed))
    if not sources and any(_asks_server(plugin) for one in placed for plugin in one.plugins.values()):
        sources = (MetricsServerSettings(SERVER),)
    for one in placed if not sources else ():
        _note_blind(one)
    return replace(own, sources=sources)


def _asks_server(plugin: object) -> bool:
    """As Trimaran's plugins do unless told otherwise, so it counts only where nothing else is measured by."""
    return getattr(getattr(plugin, "metric_provider", None), "type", "") == METRICS_SERVER.type


def _derived(own: TrimtabConfiguration, placed: Iterable[Placed]) -> Iterable[SourceSettings]:
    """By place, so that each is asked once; of two that ask alike the more impatient one counts."""
    known = {same_place(each.url) for each in own.sources if isinstance(each, PrometheusSettings)}
    made: dict[str, PrometheusSettings] = {}
    for each in (each for one in placed for args in one.arguments.values() for each in _wanted(args)):
        place = same_place(each.url)
        if place not in known and checked_url(each.where) is not None:
            made[place] = _made(each, made.get(place), (*own.sources, *made.values()))
            if (fault := pace_fault(made[place], own.load)) is not None:
                each.where.refuse(fault)
    for each in (each for one in placed for args in one.unused.values() for each in _wanted(args)):
        if same_place(each.url) not in known:
            checked_url(each.where)
    return made.values()


def _made(wanted: _Wanted, before: PrometheusSettings | None, others: Collection[SourceSettings]) -> PrometheusSettings:
    if before is not None:
        interval = min(before.interval, wanted.interval)
        return replace(before, interval=interval, timeout=min(before.timeout, interval))
    tls = Tls(insecure_skip_verify=wanted.believe_anybody)
    timeout = min(wanted.timeout, wanted.interval)
    return PrometheusSettings(_free("prometheus", others), wanted.url, wanted.interval, timeout, tls=tls)


def _note_blind(placed: Placed) -> None:
    blind = [name for name, reads in placed.profile.reads.items() if reads & int(Change.LOAD)]
    if blind:
        placed.spot.note(
            f"{', '.join(blind)} would look at measured load, but there is no source of it and requests stand in: "
            "add a TrimtabConfiguration with sources"
        )


def _free(name: str, sources: Collection[SourceSettings]) -> str:
    taken = {each.name for each in sources}
    numbered = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if each not in taken)


def _wanted(args: Spot) -> Iterator[_Wanted]:
    """What has the wrong type has been reported by whoever read the arguments, and is passed over here."""
    entries = _entries(args)
    if url := _address(entries.get("prometheusApiAddr")):
        interval, timeout = (
            _seconds(entries.get(name)) for name in ("queryMetricIntervalSeconds", "queryMetricTimeSeconds")
        )
        yield _Wanted(entries["prometheusApiAddr"], url, interval, timeout)
    if "metricProvider" in entries:
        yield from _provided(entries["metricProvider"])


def _provided(spot: Spot) -> Iterator[_Wanted]:
    entries = _entries(spot)
    if _value(entries.get("token")):
        entries["token"].refuse(
            "a token may not stand here, where everybody reads it: put it in a file, and name that in a "
            "TrimtabConfiguration as bearerTokenFile of a source with this address"
        )
    kind = _value(entries.get("type"))
    if kind != "Prometheus" and "@" in _address(entries.get("address")):
        checked_url(entries["address"])
    if kind == "Prometheus" and (url := _address(entries.get("address"))):
        yield _Wanted(entries["address"], url, believe_anybody=_value(entries.get("insecureSkipVerify")) is True)
    elif kind == "Prometheus":
        spot.refuse("address is missing: write where that Prometheus is")
    elif kind is not None and kind != METRICS_SERVER.type:
        entries["type"].note(f"ignored: only Prometheus and {METRICS_SERVER.type} are asked")


def _entries(spot: Spot) -> Mapping[str, Spot]:
    return spot.entries() or {} if isinstance(spot.tree, Table) else {}


def _value(spot: Spot | None) -> object:
    return spot.tree.value if spot is not None and isinstance(spot.tree, Leaf) else None


def _address(spot: Spot | None) -> str:
    value = _value(spot)
    return value if isinstance(value, str) else ""


def _seconds(spot: Spot | None) -> float:
    value = _value(spot)
    return max(float(value), 1.0) if isinstance(value, int) and value > 0 else S2_SECONDS
