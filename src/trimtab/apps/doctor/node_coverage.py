"""Decides which nodes have a value that the scheduler would believe, and why others have none; judges as `core.load` does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.apps.doctor.finding import Area, Finding, Severity, ok, shorten
from trimtab.apps.doctor.missing_series import NO_ANSWER, TOO_FEW_SAMPLES, MissingReason, diagnose
from trimtab.apps.doctor.source_checks import Probe, expected_metrics
from trimtab.config.trimtab.settings import PrometheusSettings
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.pressure_rules import RULE_QUERY_PREFIX
from trimtab.core.load.settings import LoadSettings
from trimtab.core.load.validation import SampleValidator, check_node_amounts, well_formed
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.tables import Bools
from trimtab.sources.prometheus.node_matching import MatchFailure

GIB = 1 << 30
SCRAPE_REMEDY = "see what exports and scrapes them"
REASONS: Mapping[str, tuple[str, str]] = {
    "stale": ("too old", "see whether they are still scraped, or raise load.staleAfter"),
    "future": ("measured in the future", "let NTP set the clocks of nodes, of the source and of this machine"),
    "implausible": ("more than the machine has", "check the unit of the query, and what exports it"),
    "negative": ("below zero", SCRAPE_REMEDY),
    "not a number": ("not a number", SCRAPE_REMEDY),
    "infinite": ("infinite", SCRAPE_REMEDY),
    "no time": ("without a time of its own", "see whether they are still scraped"),
    "ambiguous": (
        "ambiguous (two series of one node, or one of two)",
        "scrape each node once, or narrow it by matchLabels",
    ),
    "duplicate": ("there twice", "let the source name each node once"),
    NO_ANSWER: ("missing", "look again: the source did not answer a second time"),
    TOO_FEW_SAMPLES: ("not known yet", "wait for a second scrape within rateWindow, or raise that"),
}
RELABEL_REMEDY = "set nodeLabel to a label that holds the node's name or address, or relabel the series"
NO_SERIES_REMEDY = (
    "let the source measure them: see its targets (Prometheus), or whether their kubelets answer (metrics-server)"
)


class NodeCoverage(NamedTuple):
    """Of which nodes one measurement is known, why not of the others, and which series count for nobody."""

    resource: str
    known: frozenset[str]
    missing: Mapping[str, MissingReason]
    unmatched: tuple[str, ...] = ()


class RecordingValidator(SampleValidator):
    """Remembers which rows were refused, and why."""

    def __init__(self, reading: Reading, rows: Mapping[str, int], at: float) -> None:
        index = np.fromiter((rows.get(name, -1) for name in reading.names), dtype=np.intp, count=len(reading.names))
        super().__init__(reading, index, Counter())
        self._reading, self._at = reading, at
        self.missing: dict[int, MissingReason] = {}

    def reject(self, bad: Bools, reason: str, *, invalid: bool = False) -> None:
        for row, value, measured in zip(self.index[bad], self.values[bad], self.measured[bad], strict=True):
            detail = f"{self._at - measured:.0f} s" if reason == "stale" else _amount(self._reading, value)
            detail = f"{measured - self._at:.0f} s ahead" if reason == "future" else detail
            detail = "" if reason in ("earlier", "unknown") else detail
            self.missing.setdefault(int(row), MissingReason(reason, detail))
        super().reject(bad, reason, invalid=invalid)


def _amount(reading: Reading, value: float) -> str:
    if reading.unit is Unit.FRACTION:
        return f"{value:.0%}"
    if reading.unit is Unit.ABSOLUTE and reading.resource == CPU:
        return f"{value / 1000:g} cores"
    return f"{value / GIB:.1f} GiB" if reading.unit is Unit.ABSOLUTE and reading.resource == MEMORY else f"{value:g}"


def cluster_from_readings(probes: Iterable[Probe], nodes: Sequence[Node], load: LoadSettings, now: float) -> Cluster:
    """The cluster as whoever has seen nothing but these answers knows it."""
    cluster = Cluster()
    cluster.load_store.apply_settings(load)
    for node in nodes:
        cluster.upsert_node(node)
    readings = [reading for each in probes for reading in each.scrape.readings if reading.subject is Subject.NODES]
    cluster.ingest_samples(tuple(readings), now)
    return cluster


async def measure_coverage(
    probes: Sequence[Probe], nodes: Sequence[Node], load: LoadSettings, now: float
) -> tuple[NodeCoverage, ...]:
    """Of each measurement of nodes that some source has any answer to."""
    resources = dict.fromkeys(resource for each in probes for resource in _node_metrics(each))

    async def cover(resource: str) -> NodeCoverage:
        mine = [each for each in probes if resource in _node_metrics(each)]
        known, losses = _trusted_nodes(resource, mine, nodes, load, now)
        missing = [node for node in nodes if node.name not in known]
        traced, strangers = await _diagnose_missing(resource, mine, nodes, missing, now) if missing else ({}, ())
        why = {each.name: losses.get(each.name) or traced.get(each.name) or _no_match(each) for each in missing}
        return NodeCoverage(resource, known, why, strangers)

    return tuple(await asyncio.gather(*map(cover, resources)))


def _no_match(node: Node) -> MissingReason:
    return MissingReason(MatchFailure.UNMATCHED.value, ", ".join(dict.fromkeys((node.name, *node.addresses))))


def _node_metrics(each: Probe) -> list[str]:
    """What of nodes this look was to measure, where there was any answer."""
    if each.error is not None and not each.matched_no_node:
        return []
    asked = expected_metrics(each.settings) or {(reading.resource, reading.subject) for reading in each.scrape.readings}
    failed = not each.scrape.readings and not each.matched_no_node
    return [] if failed else sorted(resource for resource, subject in asked if subject is Subject.NODES)


def _trusted_nodes(
    resource: str, probes: Sequence[Probe], nodes: Sequence[Node], load: LoadSettings, now: float
) -> tuple[frozenset[str], dict[str, MissingReason]]:
    rows = {node.name: row for row, node in enumerate(nodes)}
    has = np.array([dict(node.capacity or node.allocatable).get(resource, 0) for node in nodes], dtype=np.float64)
    known: set[str] = set()
    losses: dict[str, MissingReason] = {}
    for reading in (reading for each in probes for reading in each.scrape.readings):
        newest = (reading.resource, reading.subject) == (resource, Subject.NODES)
        if not newest or reading.statistic is not Statistic.LATEST or not well_formed(reading, Counter()):
            continue
        sieve = RecordingValidator(reading, rows, now)
        sieve.drop_invalid(reading.unit)
        sieve.drop_untimely(now, load)
        check_node_amounts(sieve, reading.unit, has, None)
        known |= {nodes[row].name for row in sieve.index}
        losses |= {nodes[row].name: loss for row, loss in sieve.missing.items() if row >= 0}
    return frozenset(known), losses


async def _diagnose_missing(
    resource: str, probes: Sequence[Probe], nodes: Sequence[Node], missing: Sequence[Node], now: float
) -> tuple[dict[str, MissingReason], tuple[str, ...]]:
    losses: dict[str, MissingReason] = {}
    strangers: list[str] = []
    for each in probes:
        if isinstance(each.settings, PrometheusSettings):
            sighting = await diagnose(each.settings, resource, nodes, frozenset(node.name for node in missing), now)
            losses = {**sighting.missing, **losses}
            strangers += sighting.unmatched
    return losses, tuple(dict.fromkeys(strangers))


# --- in words


def check_nodes(coverages: Iterable[NodeCoverage], nodes: Sequence[Node], load: LoadSettings) -> Iterator[Finding]:
    """One finding for each reason and set of nodes, whichever measurements share it; and one for those without a gap.

    What rules ask for themselves is told with the rule.
    """
    alike: dict[tuple[str, tuple[str, ...]], list[NodeCoverage]] = {}
    whole = []
    for each in (each for each in coverages if not each.resource.startswith(RULE_QUERY_PREFIX)):
        if nodes and not each.missing:
            whole.append(each.resource)
        for reason in sorted({loss.reason for loss in each.missing.values()}):
            mine = tuple(name for name, loss in each.missing.items() if loss.reason == reason)
            alike.setdefault((reason, mine), []).append(each)
    for (reason, names), those in alike.items():
        yield _gap_finding(reason, names, those, nodes, load)
    if whole:
        yield ok(Area.NODES, " and ".join(whole), f"known of all {len(nodes)} nodes")


def _gap_finding(
    reason: str, names: tuple[str, ...], those: Sequence[NodeCoverage], nodes: Sequence[Node], load: LoadSettings
) -> Finding:
    says, remedy = describe_gap(reason, names, those[0], nodes)
    known = max(len(each.known) for each in those)
    enough = known and 1 - known / len(nodes) <= load.most_missing
    severity = Severity.WARNING if enough else Severity.PROBLEM
    return Finding(severity, Area.NODES, " and ".join(each.resource for each in those), says, remedy, names)


def describe_gap(reason: str, names: Sequence[str], coverage: NodeCoverage, nodes: Sequence[Node]) -> tuple[str, str]:
    """Why these nodes have no value, with a few examples, and what mends it."""
    words, remedy = REASONS.get(reason, (reason, SCRAPE_REMEDY))
    unready = {node.name for node in nodes if not node.ready}
    examples = [_example(name, coverage.missing[name], name in unready) for name in names]
    if reason != MatchFailure.UNMATCHED.value:
        return f"{words} for {len(names)} of {len(nodes)} nodes: {shorten(examples)}", remedy
    says = f"not by any name or address of {len(names)} of {len(nodes)} nodes: {shorten(examples)}"
    if coverage.unmatched:
        return f"{says}; series that match no node have {shorten(coverage.unmatched)}", RELABEL_REMEDY
    return says, NO_SERIES_REMEDY


def _example(name: str, loss: MissingReason, unready: bool) -> str:
    about = "; ".join(part for part in (loss.detail, "the node is not ready" if unready else "") if part)
    return f"{name} ({about})" if about else name
