"""Parses and dumps `rescheduling.limits`: percentages, and for resources other than CPU and memory what nodes have of them.

    rescheduling:
      limits:
        cpu: 75                                                        # percent here, shares in memory
        network: {limit: 70, capacity: 1.25e9}                         # every node has as much
        disk: {limit: 80, capacity: {metric: disk_speed}}              # a query of nodes
        licences: {limit: 90, capacity: {allocatable: acme.com/seat}}  # a resource in the status of nodes

The names are those of queries of pods: `check_limit_sources` compares them with the sources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from trimtab.config.config_node import ConfigNode
from trimtab.config.diagnostics import did_you_mean
from trimtab.config.trimtab.settings import MetricsServerSettings, PrometheusSettings, TrimtabConfiguration
from trimtab.config.trimtab.validation import validate_name
from trimtab.config.yaml import MappingNode
from trimtab.core.load.pod_metrics import Capacity
from trimtab.core.load.validation import MAX_AMOUNT
from trimtab.core.model.readings import Statistic, Subject
from trimtab.core.model.setting import PERCENTAGE, Setting
from trimtab.core.rescheduling.settings import LIMITS, ReschedulingSettings

METRIC, ALLOCATABLE = "metric", "allocatable"
_PERCENT = Setting(**PERCENTAGE)
_FORMS = f"an amount, {{{METRIC}: NAME}} for a query of nodes, or {{{ALLOCATABLE}: NAME}} for a resource of nodes"


class Limits(NamedTuple):
    """Shares by resource, and the capacities of those that are neither CPU nor memory."""

    shares: Mapping[str, float]
    capacities: Mapping[str, Capacity]


def parse_limits(node: ConfigNode) -> Limits:
    """What is left out keeps its default."""
    shares, capacities = dict(LIMITS), dict[str, Capacity]()
    for name, entry in (node.entries() or {}).items():
        if name in LIMITS:
            share = _parse_percent(entry, f"a node's allocatable {name}, such as {LIMITS[name] * 100:g}")
            shares[name] = LIMITS[name] if share is None else share
        elif (error := validate_name(name)) is not None:
            entry.error(f"{error}; a limit is of cpu, memory, or a query of pods")
        elif (found := _parse_further(name, entry)) is not None:
            shares[name], capacities[name] = found
    return Limits(shares, capacities)


def _parse_percent(node: ConfigNode, of: str) -> float | None:
    percent = node.number()
    if percent is not None and (error := _PERCENT.range_error(percent)) is not None:
        node.error(f"{error}: write a percentage of {of}")
        return None
    return None if percent is None else percent / 100


def _parse_further(name: str, node: ConfigNode) -> tuple[float, Capacity] | None:
    if not isinstance(node.yaml, MappingNode):
        near = did_you_mean(name, LIMITS)
        node.error(
            f"{name} is neither cpu nor memory{near}: write {{limit: 70, capacity: …}}, where capacity is {_FORMS}"
        )
        return None
    entries = node.fields(("limit", "capacity")) or {}
    for field, meaning in (("limit", "the percentage"), ("capacity", _FORMS)):
        if field not in entries:
            node.error(f"{field} is missing: write {meaning}")
            return None
    share, capacity = _parse_percent(entries["limit"], "the capacity"), _parse_capacity(entries["capacity"])
    return None if share is None or capacity is None else (share, capacity)


def _parse_capacity(node: ConfigNode) -> Capacity | None:
    if isinstance(node.yaml, MappingNode):
        return _parse_reference(node)
    amount = node.number()
    if amount is not None and not 0 < amount <= MAX_AMOUNT:
        node.error(
            f"{amount:g} is not above 0 and at most {MAX_AMOUNT:g}: write what a node has, in the unit of the query"
        )
        return None
    return None if amount is None else Capacity(amount=amount)


def _parse_reference(node: ConfigNode) -> Capacity | None:
    entries = node.fields((METRIC, ALLOCATABLE)) or {}
    if len(entries) != 1:
        node.error(f"has {len(entries)} fields, and needs one: write {_FORMS}")
        return None
    ((form, entry),) = entries.items()
    name = entry.string()
    if name is None:
        return None
    if not name:
        entry.error("must not be empty")
        return None
    return Capacity(metric=name) if form == METRIC else Capacity(allocatable=name)


def dump_limits(settings: ReschedulingSettings) -> dict[str, object]:
    """Plain data that `parse_limits` turns into the same value."""
    return {name: _dump_limit(share, settings.capacities.get(name)) for name, share in settings.limits.items()}


def _dump_limit(share: float, capacity: Capacity | None) -> object:
    percent = _plain(round(share * 100, 9))
    if capacity is None:
        return percent
    forms = {METRIC: capacity.metric, ALLOCATABLE: capacity.allocatable}
    given = {form: name for form, name in forms.items() if name}
    return {"limit": percent, "capacity": given or _plain(capacity.amount)}


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number


def check_limit_sources(root: ConfigNode, configuration: TrimtabConfiguration) -> None:
    """A limit needs a source that measures its resource. What sources of other kinds measure is not known."""
    settings, known_kinds = configuration.rescheduling, PrometheusSettings | MetricsServerSettings
    is_known = all(isinstance(each, known_kinds) for each in configuration.sources)
    if settings is None or not is_known or root.report.problems:
        return
    measured = {subject: [*_queries(configuration, subject)] for subject in Subject}
    for name, capacity in settings.capacities.items():
        limit = root.child("rescheduling").child("limits").child(name)
        if name not in measured[Subject.PODS]:
            limit.error(_unmeasured(name, Subject.PODS, measured[Subject.PODS]))
        if capacity.metric and capacity.metric not in measured[Subject.NODES]:
            field = limit.child("capacity").child(METRIC)
            field.error(_unmeasured(capacity.metric, Subject.NODES, measured[Subject.NODES]))


def _queries(configuration: TrimtabConfiguration, of: Subject) -> Iterator[str]:
    """The names of the custom metrics that sources have of nodes or pods."""
    for source in configuration.sources:
        for query in source.queries if isinstance(source, PrometheusSettings) else ():
            if query.of is of and query.statistic is Statistic.LATEST and query.name not in LIMITS:
                yield query.name


def _unmeasured(name: str, of: Subject, measured: Collection[str]) -> str:
    return (
        f"no source measures {name} of {of}{did_you_mean(name, measured)}: add a query with name: {name} and of: {of} "
        "to a Prometheus in sources"
    )
