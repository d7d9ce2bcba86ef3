"""Decides what is looked at only when somebody asks: queues, caches, counts kept by others; leaves counting to the tally.

The engine's own tables are walked, so it must be asked on the event loop where the engine lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.samples import Sample

from trimtab.core.engine import Engine
from trimtab.core.framework.interface import PreEnqueue
from trimtab.core.framework.profile import plugin_name
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queue import QueueState

Values = Iterable[tuple[tuple[str, ...], int]]
NODE_USAGE = {CPU: "node_cpu_usage_percent", MEMORY: "node_memory_usage_percent"}
QUEUES = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE, QueueState.GATED)


def zero() -> int:
    """For a count that nobody keeps."""
    return 0


def no_counts() -> Mapping[str, int]:
    """For counts that nobody keeps."""
    return {}


def no_informers() -> Mapping[str, Mapping[str, int]]:
    """For an engine that follows no cluster."""
    return {}


@dataclass(frozen=True)
class ProcessStats:
    """Counts that the shell keeps for itself, as questions; `lease` is empty where nobody competes to lead.

    `events` answers by what became of them, as {"written": 9, "dropped": 0}; `watches` by kind and then by what
    happened, as {"pods": {"lists": 1, "malformed": 0}}.
    """

    version: str = ""
    lease: str = ""
    events: Callable[[], Mapping[str, int]] = no_counts
    conditions_failed: Callable[[], int] = zero
    informers: Callable[[], Mapping[str, Mapping[str, int]]] = no_informers
    node_usage: bool = False  # two gauges a node: only where they are wanted
    sources: Callable[[], Mapping[str, int]] = no_counts  # by question: 1 while it fails
    reloads: Callable[[], Mapping[str, int]] = no_counts
    config_in_force: Callable[[], bool] | None = (
        None  # whether the configuration file is in force as it is now; None without one
    )


class Gauges:
    """The engine's state and the shell's counts, whenever they are asked for."""

    def __init__(self, engine: Engine, stats: ProcessStats | None = None) -> None:
        self._engine = engine
        self._stats = stats if stats is not None else ProcessStats()

    @property
    def _scheduling(self) -> Scheduling:
        return self._engine.controller(Scheduling)

    def families(self) -> Iterator[Metric]:
        """Look at everything now."""
        yield from self._queue_gauges()
        yield from self._cache_gauges()
        yield from self._process_metrics()
        if self._stats.node_usage:
            yield from self._node_gauges()

    def _queue_gauges(self) -> Iterator[Metric]:
        parts = Counter(waiting.state for waiting in self._scheduling.queue.pods.values())
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
            self._unschedulable_by_plugin().items(),
        )

    def _unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """How many parked and gated pods wait because of each plugin, by profile."""
        queue, pods = self._scheduling.queue, self._engine.cluster.pods
        kinds = Counter((each.plugins, pods[each.uid].scheduler_name) for each in queue.unschedulable())
        gated = (pods[each.uid] for each in queue.pods.values() if each.state is QueueState.GATED)
        kinds.update((self._closed_gates(pod), pod.scheduler_name) for pod in gated)
        blamed: Counter[tuple[str, str]] = Counter()
        for (plugins, profile), number in kinds.items():
            blamed.update({(plugin, profile): number for plugin in plugins})
        return blamed

    def _closed_gates(self, pod: Pod) -> tuple[str, ...]:
        profile = self._engine.state.settings.profile_of(pod.scheduler_name)
        return (
            tuple(plugin_name(gate) for gate in profile.pre_enqueues if _is_closed(gate, pod))
            if profile is not None
            else ()
        )

    def _cache_gauges(self) -> Iterator[Metric]:
        cluster, cache = self._engine.cluster, self._scheduling.evaluator.cache
        sizes = (
            (("nodes",), len(cluster.node_table)),
            (("pods",), len(cluster.placements)),
            (("assumed_pods",), len(self._scheduling.bindings)),
        )
        words = "Nodes and placed pods that are known; assumed pods are placed by us and not seen there yet."
        yield _gauge("scheduler_cache_size", words, ("type",), sizes)
        yield _counter(
            "trimtab_template_lookups_total",
            "Decisions by whether answers for such a pod were at hand.",
            ("result",),
            [(("hit",), cache.hits), (("miss",), cache.misses)],
        )

    def _node_gauges(self) -> Iterator[Metric]:
        """Columns are copied here, on the event loop; cell by cell they are gone through where the page is written."""
        view = self._engine.cluster.view
        names = [node.name for node in view.nodes]
        for resource, name in NODE_USAGE.items():
            shares = (view.used_share(resource) * 100).tolist()
            yield NodeUsage(name, f"Measured {resource} of a node in percent of its allocatable.", names, shares)

    def _process_metrics(self) -> Iterator[Metric]:
        outside = self._stats
        yield _gauge("trimtab_build_info", "The running version.", ("version",), [((outside.version,), 1)])
        if outside.lease:
            leads = [((outside.lease,), int(self._engine.state.term is not None))]
            yield _gauge("leader_election_master_status", "1 in the process that leads, else 0.", ("name",), leads)
        events = [((outcome,), n) for outcome, n in outside.events().items()]
        yield _counter("trimtab_events_total", "Events for people, by what became of them.", ("outcome",), events)
        failed = [((), outside.conditions_failed())]
        yield _counter("trimtab_conditions_failed_total", "Conditions and nominations that were not set.", (), failed)
        failing = [((source,), fails) for source, fails in outside.sources().items()]
        yield _gauge("trimtab_source_failing", "1 while a question to a source fails, else 0.", ("source",), failing)
        yield from self._config_metrics()
        yield _counter(
            "trimtab_watch_incidents_total",
            "What happened to the watch of a kind: lists, watches, refusals, silences, malformed objects.",
            ("kind", "incident"),
            [((kind, what), n) for kind, counts in outside.informers().items() for what, n in counts.items()],
        )

    def _config_metrics(self) -> Iterator[Metric]:
        outside = self._stats
        if outside.config_in_force is None:
            return
        words = "1 while the configuration file is in force, 0 while an older one is because this one is bad."
        yield _gauge("trimtab_config_last_reload_successful", words, (), [((), int(outside.config_in_force()))])
        counts = [((outcome,), n) for outcome, n in outside.reloads().items()]
        yield _counter("trimtab_config_reloads_total", "Changed files by what became of them.", ("outcome",), counts)


class NodeUsage(Metric):
    """A gauge per node that becomes samples only when it is written; a node without trusted data has none."""

    def __init__(self, name: str, words: str, nodes: list[str], values: list[float]) -> None:
        self._nodes, self._values = nodes, values
        super().__init__(name, words, "gauge")

    @property
    def samples(self) -> list[Sample]:
        pairs = zip(self._nodes, self._values, strict=True)
        return [Sample(self.name, {"node": node}, value) for node, value in pairs if isfinite(value)]

    @samples.setter
    def samples(self, samples: list[Sample]) -> None:
        """The base class begins with an empty list."""


def _is_closed(gate: PreEnqueue, pod: Pod) -> bool:
    """Whether the gate holds the pod; one that raises does."""
    try:
        return bool(gate.pre_enqueue(pod))
    except Exception:  # counted when the pod came; a page must not fail for it
        return True


def _gauge(name: str, words: str, labels: tuple[str, ...], values: Values) -> Metric:
    return _with_values(GaugeMetricFamily(name, words, labels=labels), values)


def _counter(name: str, words: str, labels: tuple[str, ...], values: Values) -> Metric:
    return _with_values(CounterMetricFamily(name, words, labels=labels), values)


def _with_values(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family
