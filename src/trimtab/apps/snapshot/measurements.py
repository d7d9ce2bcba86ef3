"""Reads what nodes and pods use, and have used, from the configured sources, once.

Samples go through the same ingestion as the scheduler's: what it would not trust is not in a snapshot either.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.apps.snapshot.objects import SnapshotNote
from trimtab.config.configuration import Configuration
from trimtab.config.trimtab.settings import SourceSettings
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.pod_metrics import Capacity, PodMetric
from trimtab.core.load.pod_usage import PodUsage
from trimtab.core.model.duration import format_duration
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Subject, Unit
from trimtab.core.model.resources import CPU, MEMORY, Amounts
from trimtab.sim.snapshot_document import History, PastUsage, Sample, Usage
from trimtab.sources.interface import Get, HistoryRange, Source, SourceError
from trimtab.sources.registry import open_source

NO_SOURCE = "no metric source is configured, so usage is unknown: name one with --config FILE"
DECIMALS = {CPU: 1, MEMORY: 0}  # of millicores and bytes
CUSTOM_DECIMALS = 6


class HistoryOptions(NamedTuple):
    """How far back, and in which steps, in seconds."""

    since: float
    step: float


class Measured(NamedTuple):
    """What was measured; None where nothing was."""

    usage: Usage | None = None
    history: History | None = None
    interval: float | None = None
    notes: tuple[SnapshotNote, ...] = ()


@dataclass
class Meter:
    """Asks every source of a configuration about these nodes and pods."""

    configuration: Configuration
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    get: Get
    now: Callable[[], float]
    history: HistoryOptions | None = None
    notes: list[SnapshotNote] = field(default_factory=list)

    async def measure(self) -> Measured:
        sources = self.configuration.trimtab.sources
        if not sources:
            return Measured(notes=(SnapshotNote(NO_SOURCE, NO_SOURCE),))
        readings: list[Reading] = []
        grid = None if self.history is None else HistoryGrid(self.history, self.now(), self.nodes, self.pods)
        for settings in sources:
            readings += await self._read_source(settings, grid)
        usage = self._usage(readings)
        history = grid.history() if grid is not None else None
        if grid is not None and history is None:
            self._note(f"no source returned any history of the last {format_duration(grid.options.since)}")
        interval = min(each.interval for each in sources)
        return Measured(usage, history, interval, (*self.notes, *(grid.notes() if grid is not None else ())))

    def _note(self, text: str, nameless: str = "") -> None:
        self.notes.append(SnapshotNote(text, nameless or text))

    async def _read_source(self, settings: SourceSettings, grid: HistoryGrid | None) -> tuple[Reading, ...]:
        """The readings of one source; a failure is noted, and the others are asked all the same."""
        nameless = "a metric source failed"
        try:
            async with self._opened(settings) as source:
                scrape = await source.read()
                for query, error in scrape.failures:
                    self._note(f"query {query} failed: {error}", nameless)
                if grid is not None and scrape.readings:
                    async for readings in source.read_history(grid.ranges()):
                        grid.add(readings)
                return scrape.readings
        except SourceError as error:
            self._note(f"source {settings.name} failed: {error}", nameless)
        except Exception as error:  # of a source of another package
            self._note(f"source {settings.name} failed: internal error ({type(error).__name__})", nameless)
        return ()

    @asynccontextmanager
    async def _opened(self, settings: SourceSettings) -> AsyncIterator[Source]:
        source = open_source(settings, lambda: self.nodes, self.get, self.now)
        try:
            yield source
        finally:
            await source.close()

    def _usage(self, readings: Sequence[Reading]) -> Usage | None:
        """None if not a single sample can be trusted."""
        cluster = Cluster()
        cluster.load_store.apply_settings(self.configuration.settings.load)
        of_nodes, of_pods = (_custom_metrics(readings, subject) for subject in Subject)
        cluster.load_store.keep_snapshots(False, dict.fromkeys(of_pods, Capacity()))
        for node in self.nodes:
            cluster.upsert_node(node)
        for pod in self.pods:
            cluster.upsert_pod(pod)
        cluster.ingest_samples(tuple(readings), self.now())
        cluster.age_load(self.now())
        found = Usage(dict(_node_samples(cluster, of_nodes)), dict(_pod_samples(cluster)))
        if found.nodes or found.pods:
            return found
        self._note("no source returned a sample that can be trusted, so usage is unknown: see `trimtab doctor`")
        return None


# --- the newest samples


def _custom_metrics(readings: Iterable[Reading], subject: Subject) -> list[str]:
    found = (each.resource for each in readings if each.unit is Unit.RAW and each.subject is subject)
    return [*dict.fromkeys(found)]


def _node_samples(cluster: Cluster, custom: Iterable[str]) -> Iterable[tuple[str, Sample]]:
    load = cluster.view.load
    for row, node in enumerate(cluster.node_table.nodes):
        values = {name: _rounded(name, float(load.latest(name)[row])) for name in (CPU, MEMORY)}
        others = {name: float(load.custom(name)[row]) for name in custom}
        others = {name: value for name, value in others.items() if value == value}
        times = [float(load.sampled_at(name)[row]) for name, value in values.items() if value is not None]
        times += [_custom_time(cluster, name, row) for name in others]
        if times:
            yield node.name, Sample(min(times), values[CPU], values[MEMORY], others)


def _custom_time(cluster: Cluster, name: str, row: int) -> float:
    samples = cluster.load_store.latest_samples(name, custom=True)
    assert samples is not None
    return float(samples.sampled_at[row])


def _pod_samples(cluster: Cluster) -> Iterable[tuple[str, Sample]]:
    usage = {name: cluster.view.load.pod_usage(name) for name in (CPU, MEMORY)}
    tables: Mapping[str, PodUsage | PodMetric] = {**usage, **cluster.load_store.pod_metrics}
    for uid, slot in cluster.pod_table.slot.items():
        times = {name: float(each.sampled_at[slot]) for name, each in tables.items()}
        times = {name: at for name, at in times.items() if at == at}  # without one, the sample is of an earlier pod
        values = {name: float(tables[name].sample[slot]) for name in times}
        if times:
            cpu, memory = (_rounded(name, values.pop(name, math.nan)) for name in (CPU, MEMORY))
            yield cluster.pods[uid].key, Sample(min(times.values()), cpu, memory, values)


def _rounded(resource: str, value: float) -> float | None:
    return round(value, DECIMALS.get(resource, CUSTOM_DECIMALS)) if math.isfinite(value) else None


# --- history


class HistoryGrid:
    """The values of the past by name and step; NaN until one is known."""

    def __init__(self, options: HistoryOptions, now: float, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        self.options = options
        self._first = math.floor((now - options.since) / options.step)
        self._size = math.ceil(options.since / options.step) + 2
        self._capacity = {node.name: _capacity(node) for node in nodes}
        names = {Subject.NODES: [*self._capacity], Subject.PODS: [pod.key for pod in pods]}
        self._known = {subject: frozenset(each) for subject, each in names.items()}
        self._values: dict[tuple[Subject, str], dict[str, array[float]]] = {
            (subject, resource): {} for subject in Subject for resource in (CPU, MEMORY)
        }
        self._unknown: set[str] = set()

    def ranges(self) -> list[HistoryRange]:
        return [HistoryRange(subject, self.options.since, 0.0, self.options.step) for subject in Subject]

    def add(self, readings: Iterable[Reading]) -> None:
        """Take in what a source returned; pods and nodes that are gone have no object, and are counted."""
        for reading in readings:
            key = reading.subject, reading.resource
            if reading.unit is Unit.RAW and reading.subject is Subject.PODS:
                self._values.setdefault(key, {})
            series = self._values.get(key)
            if series is None:
                continue
            for name, value, at in zip(reading.names, reading.values, reading.measured, strict=True):
                step = round(at / self.options.step) - self._first
                if name not in self._known[reading.subject]:
                    self._unknown.add(name)
                elif 0 <= step < self._size:
                    amount = self._amount(reading, name, value)
                    series.setdefault(name, array("d", [math.nan]) * self._size)[step] = amount

    def _amount(self, reading: Reading, name: str, value: float) -> float:
        if reading.unit is not Unit.FRACTION:
            return value if value >= 0 else math.nan
        return value * self._capacity.get(name, {}).get(reading.resource, math.nan)

    def history(self) -> History | None:
        """From the first step that has a value to the last one; None without any."""
        every = [each for series in self._values.values() for each in series.values()]
        known = [step for step in range(self._size) if any(each[step] == each[step] for each in every)]
        if not known:
            return None
        first, last = known[0], known[-1]
        nodes, pods = (self._series(subject, first, last + 1) for subject in Subject)
        return History((self._first + first) * self.options.step, self.options.step, nodes, pods)

    def _series(self, subject: Subject, first: int, end: int) -> dict[str, PastUsage]:
        values = {resource: found for (of, resource), found in self._values.items() if of is subject}
        return {
            name: _past_usage({resource: found[name][first:end] for resource, found in values.items() if name in found})
            for name in dict.fromkeys(name for found in values.values() for name in found)
        }

    def notes(self) -> Iterable[SnapshotNote]:
        if self._unknown:
            text = f"the history of {len(self._unknown)} pods and nodes that no longer exist is left out"
            yield SnapshotNote(text, text)


def _past_usage(values: Mapping[str, Iterable[float]]) -> PastUsage:
    series = {resource: tuple(_rounded(resource, each) for each in found) for resource, found in values.items()}
    return PastUsage(series.pop(CPU, ()), series.pop(MEMORY, ()), series)


def _capacity(node: Node) -> Mapping[str, int]:
    amounts: Amounts = node.capacity or node.allocatable
    return dict(amounts)
