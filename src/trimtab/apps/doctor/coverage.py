"""Decides which nodes have a value that the scheduler would believe, and why others have none; judges as `core.load` does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.apps.doctor.finding import Area, Finding, Severity, some, well
from trimtab.apps.doctor.looks import Look, answers
from trimtab.apps.doctor.sightings import UNTOLD, YOUNG, Loss, sighted
from trimtab.config.own.settings import PrometheusSettings
from trimtab.core.cluster.state import Cluster
from trimtab.core.load.aligned import Bools
from trimtab.core.load.intake import Sieve, believe_nodes, well_formed
from trimtab.core.load.pressure_rules import OF_A_RULE
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.node import Node
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Reading, Statistic, Subject, Unit
from trimtab.sources.prometheus.identity import Nobody

GIB = 1 << 30
SCRAPE = "see what exports and scrapes them"
WORDS: Mapping[str, tuple[str, str]] = {
    "stale": ("too old", "see whether they are still scraped, or raise load.staleAfter"),
    "future": ("measured in the future", "let NTP set the clocks of nodes, of the source and of this machine"),
    "implausible": ("more than the machine has", "check the unit of the query, and what exports it"),
    "negative": ("below zero", SCRAPE),
    "not a number": ("not a number", SCRAPE),
    "infinite": ("infinite", SCRAPE),
    "no time": ("without a time of its own", "see whether they are still scraped"),
    "ambiguous": (
        "ambiguous (two series of one node, or one of two)",
        "scrape each node once, or narrow it by matchLabels",
    ),
    "duplicate": ("there twice", "let the source name each node once"),
    UNTOLD: ("missing", "look again: the source did not answer a second time"),
    YOUNG: ("not known yet", "wait for a second scrape within rateWindow, or raise that"),
}
RELABEL = "set nodeLabel to a label that holds the node's name or address, or relabel the series"
UNSEEN = "let the source measure them: see its targets (Prometheus), or whether their kubelets answer (metrics-server)"


class Coverage(NamedTuple):
    """Of which nodes one measurement is known, why not of the others, and which series count for nobody."""

    resource: str
    known: frozenset[str]
    losses: Mapping[str, Loss]
    strangers: tuple[str, ...] = ()


class NamedSieve(Sieve):
    """Remembers which rows were refused, and why."""

    def __init__(self, reading: Reading, rows: Mapping[str, int], at: float) -> None:
        index = np.fromiter((rows.get(name, -1) for name in reading.names), dtype=np.intp, count=len(reading.names))
        super().__init__(reading, index, Counter())
        self._reading, self._at = reading, at
        self.losses: dict[int, Loss] = {}

    def refuse(self, bad: Bools, reason: str, *, nonsense: bool = False) -> None:
        for row, value, measured in zip(self.index[bad], self.values[bad], self.measured[bad], strict=True):
            detail = f"{self._at - measured:.0f} s" if reason == "stale" else _amount(self._reading, value)
            detail = f"{measured - self._at:.0f} s ahead" if reason == "future" else detail
            detail = "" if reason in ("earlier", "unknown") else detail
            self.losses.setdefault(int(row), Loss(reason, detail))
        super().refuse(bad, reason, nonsense=nonsense)


def _amount(reading: Reading, value: float) -> str:
    if reading.unit is Unit.SHARE:
        return f"{value:.0%}"
    if reading.unit is Unit.OWN and reading.resource == CPU:
        return f"{value / 1000:g} cores"
    return f"{value / GIB:.1f} GiB" if reading.unit is Unit.OWN and reading.resource == MEMORY else f"{value:g}"


def pictured(looks: Iterable[Look], nodes: Sequence[Node], load: LoadSettings, now: float) -> Cluster:
    """The cluster as whoever has seen nothing but these answers knows it."""
    cluster = Cluster()
    cluster.load.settings = load
    for node in nodes:
        cluster.see_node(node)
    readings = [reading for each in looks for reading in each.scrape.readings if reading.subject is Subject.NODES]
    cluster.read_load(tuple(readings), now)
    return cluster


async def covered(looks: Sequence[Look], nodes: Sequence[Node], load: LoadSettings, now: float) -> tuple[Coverage, ...]:
    """Of each measurement of nodes that some source has any answer to."""
    resources = dict.fromkeys(resource for each in looks for resource in _about(each))

    async def cover(resource: str) -> Coverage:
        mine = [each for each in looks if resource in _about(each)]
        known, losses = _believed(resource, mine, nodes, load, now)
        missing = [node for node in nodes if node.name not in known]
        traced, strangers = await _traced(resource, mine, nodes, missing, now) if missing else ({}, ())
        why = {each.name: losses.get(each.name) or traced.get(each.name) or _nowhere(each) for each in missing}
        return Coverage(resource, known, why, strangers)

    return tuple(await asyncio.gather(*map(cover, resources)))


def _nowhere(node: Node) -> Loss:
    return Loss(Nobody.UNMATCHED.value, ", ".join(dict.fromkeys((node.name, *node.addresses))))


def _about(each: Look) -> list[str]:
    """What of nodes this look was to measure, where there was any answer."""
    if each.error is not None and not each.matched_nobody:
        return []
    asked = answers(each.settings) or {(reading.resource, reading.subject) for reading in each.scrape.readings}
    failed = not each.scrape.readings and not each.matched_nobody
    return [] if failed else sorted(resource for resource, subject in asked if subject is Subject.NODES)


def _believed(
    resource: str, looks: Sequence[Look], nodes: Sequence[Node], load: LoadSettings, now: float
) -> tuple[frozenset[str], dict[str, Loss]]:
    rows = {node.name: row for row, node in enumerate(nodes)}
    has = np.array([dict(node.capacity or node.allocatable).get(resource, 0) for node in nodes], dtype=np.float64)
    known: set[str] = set()
    losses: dict[str, Loss] = {}
    for reading in (reading for each in looks for reading in each.scrape.readings):
        newest = (reading.resource, reading.subject) == (resource, Subject.NODES)
        if not newest or reading.statistic is not Statistic.LATEST or not well_formed(reading, Counter()):
            continue
        sieve = NamedSieve(reading, rows, now)
        sieve.sound(reading.unit)
        sieve.timely(now, load)
        believe_nodes(sieve, reading.unit, has, None)
        known |= {nodes[row].name for row in sieve.index}
        losses |= {nodes[row].name: loss for row, loss in sieve.losses.items() if row >= 0}
    return frozenset(known), losses


async def _traced(
    resource: str, looks: Sequence[Look], nodes: Sequence[Node], missing: Sequence[Node], now: float
) -> tuple[dict[str, Loss], tuple[str, ...]]:
    losses: dict[str, Loss] = {}
    strangers: list[str] = []
    for each in looks:
        if isinstance(each.settings, PrometheusSettings):
            sighting = await sighted(each.settings, resource, nodes, frozenset(node.name for node in missing), now)
            losses = {**sighting.losses, **losses}
            strangers += sighting.strangers
    return losses, tuple(dict.fromkeys(strangers))


# --- in words


def told(coverages: Iterable[Coverage], nodes: Sequence[Node], load: LoadSettings) -> Iterator[Finding]:
    """One finding for each reason and set of nodes, whichever measurements share it; and one for those without a gap.

    What rules ask for themselves is told with the rule.
    """
    alike: dict[tuple[str, tuple[str, ...]], list[Coverage]] = {}
    whole = []
    for each in (each for each in coverages if not each.resource.startswith(OF_A_RULE)):
        if nodes and not each.losses:
            whole.append(each.resource)
        for reason in sorted({loss.reason for loss in each.losses.values()}):
            mine = tuple(name for name, loss in each.losses.items() if loss.reason == reason)
            alike.setdefault((reason, mine), []).append(each)
    for (reason, names), those in alike.items():
        yield _lost(reason, names, those, nodes, load)
    if whole:
        yield well(Area.NODES, " and ".join(whole), f"known of all {len(nodes)} nodes")


def _lost(
    reason: str, names: tuple[str, ...], those: Sequence[Coverage], nodes: Sequence[Node], load: LoadSettings
) -> Finding:
    says, remedy = phrased(reason, names, those[0], nodes)
    known = max(len(each.known) for each in those)
    enough = known and 1 - known / len(nodes) <= load.most_missing
    severity = Severity.WARNING if enough else Severity.PROBLEM
    return Finding(severity, Area.NODES, " and ".join(each.resource for each in those), says, remedy, names)


def phrased(reason: str, names: Sequence[str], coverage: Coverage, nodes: Sequence[Node]) -> tuple[str, str]:
    """Why these nodes have no value, with a few examples, and what mends it."""
    words, remedy = WORDS.get(reason, (reason, SCRAPE))
    unready = {node.name for node in nodes if not node.ready}
    examples = [_example(name, coverage.losses[name], name in unready) for name in names]
    if reason != Nobody.UNMATCHED.value:
        return f"{words} for {len(names)} of {len(nodes)} nodes: {some(examples)}", remedy
    says = f"not by any name or address of {len(names)} of {len(nodes)} nodes: {some(examples)}"
    if coverage.strangers:
        return f"{says}; series that match no node have {some(coverage.strangers)}", RELABEL
    return says, UNSEEN


def _example(name: str, loss: Loss, unready: bool) -> str:
    about = "; ".join(part for part in (loss.detail, "the node is not ready" if unready else "") if part)
    return f"{name} ({about})" if about else name
