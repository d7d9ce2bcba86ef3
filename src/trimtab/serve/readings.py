"""Decides what is looked at only when somebody asks: queues, caches, counts kept by others; leaves counting to the tally.

`refresh` must be called where the engine lives, for it walks the engine's own tables; `collect` then only hands out what
was read, so the page can be written in another thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trimtab.core.engine.engine import Engine
from trimtab.core.engine.queue import Part, Waiting
from trimtab.core.placing.profile import plugin_name

Values = Iterable[tuple[tuple[str, ...], int]]
QUEUES = (Part.READY, Part.BACKING_OFF, Part.PARKED, Part.GATED)


def nothing() -> int:
    """For a count that nobody keeps."""
    return 0


def no_watches() -> Mapping[str, Mapping[str, int]]:
    """For an engine that follows no cluster."""
    return {}


@dataclass(frozen=True)
class Outside:
    """Counts that the shell keeps for itself, as questions; `lease` is empty where nobody competes to lead.

    `watches` answers by kind and then by what happened, as {"pods": {"lists": 1, "malformed": 0}}.
    """

    version: str = ""
    lease: str = ""
    events_dropped: Callable[[], int] = nothing
    watches: Callable[[], Mapping[str, Mapping[str, int]]] = no_watches


class Readings(Collector):
    """The engine's state and the shell's counts as they were at the last refresh."""

    def __init__(self, engine: Engine, outside: Outside | None = None) -> None:
        self._engine = engine
        self._outside = outside if outside is not None else Outside()
        self._read: tuple[Metric, ...] = ()

    def refresh(self) -> None:
        """Look at everything now."""
        self._read = (*self._of_the_queue(), *self._of_the_engine(), *self._of_the_shell())

    def collect(self) -> Iterable[Metric]:
        """What was read."""
        return self._read

    def _of_the_queue(self) -> Iterator[Metric]:
        parts: Counter[Part] = Counter()
        blamed: Counter[tuple[str, str]] = Counter()
        for waiting in self._engine.placing.queue.waiting.values():
            parts[waiting.part] += 1
            if waiting.part in (Part.PARKED, Part.GATED):
                blamed.update(self._blamed(waiting))
        yield _gauge(
            "scheduler_pending_pods",
            "Pods that wait, by queue: gated ones were never tried, unschedulable ones wait for a change.",
            ("queue",),
            [((part.value,), parts[part]) for part in QUEUES],
        )
        yield _gauge(
            "scheduler_unschedulable_pods",
            "Pods that wait because of this plugin; a pod counts for each plugin that refused nodes.",
            ("plugin", "profile"),
            blamed.items(),
        )

    def _blamed(self, waiting: Waiting) -> Iterator[tuple[str, str]]:
        pod = self._engine.placing.cluster.pods[waiting.uid]
        if waiting.part is Part.PARKED:
            return ((plugin, pod.scheduler) for plugin in waiting.plugins)
        profile = self._engine.placing.settings.profile_of(pod.scheduler)
        gates = profile.gates if profile is not None else ()
        return ((plugin_name(gate), pod.scheduler) for gate in gates if gate.gate(pod))

    def _of_the_engine(self) -> Iterator[Metric]:
        placing = self._engine.placing
        sizes = (
            (("nodes",), len(placing.cluster.columns)),
            (("pods",), len(placing.cluster.places)),
            (("assumed_pods",), len(placing.flights)),
        )
        words = "Nodes and placed pods that are known; assumed pods are placed by us and not seen there yet."
        yield _gauge("scheduler_cache_size", words, ("type",), sizes)
        yield _counter(
            "trimtab_template_lookups_total",
            "Decisions by whether answers for such a pod were at hand.",
            ("result",),
            [(("hit",), placing.templates.hits), (("miss",), placing.templates.misses)],
        )

    def _of_the_shell(self) -> Iterator[Metric]:
        outside = self._outside
        yield _gauge("trimtab_build_info", "The running version.", ("version",), [((outside.version,), 1)])
        if outside.lease:
            leads = [((outside.lease,), int(self._engine.term is not None))]
            yield _gauge("leader_election_master_status", "1 in the process that leads, else 0.", ("name",), leads)
        dropped = [((), outside.events_dropped())]
        yield _counter("trimtab_events_dropped_total", "Events for people that were not written.", (), dropped)
        yield _counter(
            "trimtab_watch_incidents_total",
            "What happened to the watch of a kind: lists, watches, refusals, silences, malformed objects.",
            ("kind", "incident"),
            [((kind, what), n) for kind, counts in outside.watches().items() for what, n in counts.items()],
        )


def _gauge(name: str, words: str, labels: tuple[str, ...], values: Values) -> Metric:
    return _filled(GaugeMetricFamily(name, words, labels=labels), values)


def _counter(name: str, words: str, labels: tuple[str, ...], values: Values) -> Metric:
    return _filled(CounterMetricFamily(name, words, labels=labels), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family
