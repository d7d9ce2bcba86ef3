"""Gauges and counters that are read when /metrics is scraped: queue lengths, cache sizes, and counts kept by the process.

`Gauges.families` walks the engine's tables, so it must run on the engine's event loop. Metrics that are incremented as
things happen are in `metrics.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from trimtab.core.cluster.utilization import utilization
from trimtab.core.engine import Engine
from trimtab.core.framework.interface import PreEnqueue
from trimtab.core.framework.profile import plugin_name
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState
from trimtab.kube.bind_refusals import BindRefusals
from trimtab.serve.move_gauges import move_gauges
from trimtab.serve.node_gauges import cluster_gauges, node_gauges

Values = Iterable[tuple[tuple[str, ...], float]]
QUEUES = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE, QueueState.GATED)


def _zero() -> int:
    return 0


def _no_counts() -> Mapping[str, int]:
    return {}


def _no_informers() -> Mapping[str, Mapping[str, int]]:
    return {}


def _no_seconds() -> Mapping[str, float]:
    return {}


def _no_requests() -> Mapping[tuple[str, str, str], int]:
    return {}


@dataclass(frozen=True)
class ProcessStats:
    """Values that the process keeps beside the engine, as functions to call at each scrape."""

    version: str = ""
    lease: str = ""  # its name; empty without leader election
    events: Callable[[], Mapping[str, int]] = _no_counts  # by outcome: {"written": 9, "dropped": 0}
    conditions_failed: Callable[[], int] = _zero
    informers: Callable[[], Mapping[str, Mapping[str, int]]] = _no_informers  # {"pods": {"lists": 1, "malformed": 0}}
    silences: Callable[[], Mapping[str, float]] = _no_seconds  # by kind: how long its informer has received nothing
    requests: Callable[[], Mapping[tuple[str, str, str], int]] = _no_requests  # by code, host and method
    wall: Callable[[], float] | None = None  # the time, to compute ages; None: no ages are served
    node_usage: bool = False  # several gauges per node, hence optional
    sources: Callable[[], Mapping[str, int]] = _no_counts  # by query: 1 while it fails
    reloads: Callable[[], Mapping[str, int]] = _no_counts  # by outcome
    recorded: Callable[[], Mapping[str, int]] = _no_counts  # records and bytes of the recording
    log_lines_dropped: Callable[[], int] = _zero
    config_in_force: Callable[[], bool] | None = None  # None without a configuration file
    bind_refusals: BindRefusals | None = None  # None in a process that binds no pods


class Gauges:
    """Reads the engine's state and the process' statistics."""

    def __init__(self, engine: Engine, stats: ProcessStats | None = None) -> None:
        self._engine = engine
        self._stats = stats if stats is not None else ProcessStats()

    @property
    def _scheduling(self) -> Scheduling:
        return self._engine.controller(Scheduling)

    def families(self) -> Iterator[Metric]:
        """The current values."""
        yield from self._queue_gauges()
        yield from self._cache_gauges()
        yield from self._process_metrics()
        yield from self._node_metrics()
        yield from move_gauges(self._engine.controller(Rescheduling))

    def _node_metrics(self) -> Iterator[Metric]:
        view, pods = self._engine.cluster.view, "pods" in self._engine.state.settings.kinds
        columns = utilization(view, measured=bool(self._stats.sources()), pods=pods)
        yield from cluster_gauges(view, columns)
        if self._stats.node_usage:
            yield from node_gauges(view, columns)

    def _queue_gauges(self) -> Iterator[Metric]:
        states = Counter(pod.state for pod in self._scheduling.queue.pods.values())
        yield _gauge(
            "scheduler_pending_pods",
            "Pending pods by queue: gated ones were never tried, unschedulable ones wait for a cluster event.",
            ("queue",),
            [((state.value,), states[state]) for state in QUEUES],
        )
        yield _gauge(
            "scheduler_unschedulable_pods",
            "Unschedulable pods by plugin; a pod counts for each plugin that rejected a node.",
            ("plugin", "profile"),
            self._unschedulable_by_plugin().items(),
        )
        if self._stats.wall is not None:
            documentation = (
                "Time since the creation of the oldest pending pod, by queue; a queue without pods has none."
            )
            ages = self._oldest_ages(self._stats.wall()).items()
            yield _gauge("trimtab_oldest_pending_pod_age_seconds", documentation, ("queue",), ages)

    def _oldest_ages(self, now: float) -> dict[tuple[str, ...], float]:
        """By queue, as far as creation times are known; they survive a restart, which the time in our queue does not."""
        ages: dict[tuple[str, ...], float] = {}
        for each in self._scheduling.queue.pods.values():
            created = self._engine.cluster.pods[each.uid].created
            if created and each.state in QUEUES:
                ages[each.state.value,] = max(now - created, ages.get((each.state.value,), 0.0))
        return ages

    def _unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """The number of unschedulable and gated pods by plugin and profile."""
        queue, pods = self._scheduling.queue, self._engine.cluster.pods
        kinds = Counter((each.plugins, pods[each.uid].scheduler_name) for each in queue.unschedulable())
        gated = (pods[each.uid] for each in queue.pods.values() if each.state is QueueState.GATED)
        kinds.update((self._closed_gates(pod), pod.scheduler_name) for pod in gated)
        by_plugin: Counter[tuple[str, str]] = Counter()
        for (plugins, profile), number in kinds.items():
            by_plugin.update({(plugin, profile): number for plugin in plugins})
        return by_plugin

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
        documentation = "Nodes and pods in the cache; assumed pods have a node that the API server has not shown yet."
        yield _gauge("scheduler_cache_size", documentation, ("type",), sizes)
        yield _counter(
            "trimtab_template_lookups_total",
            "Decisions by whether an evaluation of such a pod was cached.",
            ("result",),
            [(("hit",), cache.hits), (("miss",), cache.misses)],
        )

    def _process_metrics(self) -> Iterator[Metric]:
        stats = self._stats
        yield _gauge("trimtab_build_info", "The running version.", ("version",), [((stats.version,), 1)])
        if stats.lease:
            leads = [((stats.lease,), int(self._engine.state.term is not None))]
            yield _gauge(
                "leader_election_master_status", "1 while this process is the leader, else 0.", ("name",), leads
            )
        events = [((outcome,), n) for outcome, n in stats.events().items()]
        yield _counter("trimtab_events_total", "Kubernetes Events by outcome.", ("outcome",), events)
        failed = [((), stats.conditions_failed())]
        yield _counter("trimtab_conditions_failed_total", "Pod status patches that failed.", (), failed)
        documentation = "Log lines that nobody read in time, or that could not be written."
        yield _counter("trimtab_log_lines_dropped_total", documentation, (), [((), stats.log_lines_dropped())])
        yield from self._bind_metrics()
        failing = [((source,), fails) for source, fails in stats.sources().items()]
        yield _gauge(
            "trimtab_source_failing", "1 while a query to a metric source fails, else 0.", ("source",), failing
        )
        yield from self._config_metrics()
        for name, number in stats.recorded().items():
            yield _counter(f"trimtab_recorded_{name}_total", f"Size of the recording in {name}.", (), [((), number)])
        yield from self._api_server_metrics()

    def _bind_metrics(self) -> Iterator[Metric]:
        binds = self._stats.bind_refusals
        if binds is None:
            return
        refusals = [((reason,), n) for reason, n in binds.counts.items()]
        documentation = "Binds that the API server refused or did not answer, by reason."
        yield _counter("trimtab_bind_refusals_total", documentation, ("reason",), refusals)
        documentation = "Binds refused since one last succeeded."
        yield _gauge("trimtab_binds_refused_in_a_row", documentation, (), [((), binds.in_a_row)])

    def _api_server_metrics(self) -> Iterator[Metric]:
        stats = self._stats
        yield _counter(
            "trimtab_watch_incidents_total",
            "Lists, watches, expirations, stalls, lost events and malformed objects of each informer.",
            ("kind", "incident"),
            [((kind, what), n) for kind, counts in stats.informers().items() for what, n in counts.items()],
        )
        documentation = "Time since an informer last received anything; bookmarks and new watches count."
        silences = [((kind,), seconds) for kind, seconds in stats.silences().items()]
        yield _gauge("trimtab_watch_silence_seconds", documentation, ("kind",), silences)
        documentation = "Requests to the API server by status; <error> had no response."
        labels = ("code", "host", "method")
        yield _counter("rest_client_requests_total", documentation, labels, stats.requests().items())

    def _config_metrics(self) -> Iterator[Metric]:
        stats = self._stats
        if stats.config_in_force is None:
            return
        documentation = "1 while the configuration file is in force, 0 after a reload was rejected."
        yield _gauge("trimtab_config_last_reload_successful", documentation, (), [((), int(stats.config_in_force()))])
        counts = [((outcome,), n) for outcome, n in stats.reloads().items()]
        yield _counter(
            "trimtab_config_reloads_total", "Reloads of the configuration file by outcome.", ("outcome",), counts
        )


def _is_closed(gate: PreEnqueue, pod: Pod) -> bool:
    """Whether a PreEnqueue plugin holds the pod back; one that raises does."""
    try:
        return bool(gate.pre_enqueue(pod))
    except Exception:  # counted when the pod was added; the scrape must not fail
        return True


def _gauge(name: str, documentation: str, labels: tuple[str, ...], values: Values) -> Metric:
    return _with_values(GaugeMetricFamily(name, documentation, labels=labels), values)


def _counter(name: str, documentation: str, labels: tuple[str, ...], values: Values) -> Metric:
    return _with_values(CounterMetricFamily(name, documentation, labels=labels), values)


def _with_values(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family
