"""Decides how counters and histograms are kept and which there are; leaves when they move to the tally.

Plain dictionaries without locks: they are moved and read on one event loop, and moving one costs a fraction of what it does
in a client library made for threads. Names, labels and buckets under `scheduler_` are kube-scheduler's, so that its
dashboards and alerts work unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bucket limits by repeated multiplication: powers would round otherwise than kube-scheduler's."""
    limits = [start]
    for _ in range(count - 1):
        limits.append(limits[-1] * factor)
    return tuple(limits)


class Counter:
    """Something that only grows, by label values; without labels it is there from the start."""

    def __init__(self, name: str, documentation: str, labels: Labels = ()) -> None:
        self._name, self._documentation, self._labels = name, documentation, labels
        self._values: dict[Labels, int] = {} if labels else {(): 0}

    def add(self, *labels: str, by: int = 1) -> None:
        """Grow for these label values, in the order of the labels' names."""
        self._values[labels] = self._values.get(labels, 0) + by

    def family(self) -> Metric:
        """How it stands now."""
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        return family


class Histogram:
    """How often a value was at most each limit, by label values; without labels it is there from the start."""

    def __init__(self, name: str, documentation: str, buckets: tuple[float, ...], labels: Labels = ()) -> None:
        self._name, self._documentation, self._buckets, self._labels = name, documentation, buckets, labels
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        if not labels:
            self._create(())

    def observe(self, value: float, *labels: str) -> None:
        """Count one value for these label values, in the order of the labels' names."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._create(labels)
        counts[bisect_left(self._buckets, value)] += 1
        self._sums[labels] += value

    def _create(self, labels: Labels) -> list[int]:
        counts = self._counts[labels] = [0] * (len(self._buckets) + 1)
        self._sums[labels] = 0.0
        return counts

    def family(self) -> Metric:
        """How it stands now."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [*map(floatToGoString, self._buckets), "+Inf"]
        for labels, counts in self._counts.items():
            family.add_metric(labels, list(zip(names, accumulate(counts), strict=True)), self._sums[labels])
        return family


class Metrics:
    """All that the tally moves."""

    def __init__(self) -> None:
        self.attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod by what they came to; error means a fault of the scheduler or of a bind.",
            ("result", "profile"),
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of an attempt: the decision, and for a placed pod also its bind.",
            exponential_buckets(0.001, 2, 15),
            ("result", "profile"),
        )
        self.attempts_per_pod = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that it took until a pod was bound.",
            exponential_buckets(1, 2, 5),
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's first attempt until it was bound, by number of attempts.",
            exponential_buckets(0.01, 2, 20),
            ("attempts",),
        )
        self.incoming = Counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by queue and by what sent them there.",
            ("queue", "event"),
        )
        self.preemptions = Counter("scheduler_preemption_attempts_total", "Attempts to make room by preemption.")
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Pods chosen to make room, for each preemption.",
            exponential_buckets(1, 2, 7),
        )
        self._define_timings()
        self._define_failures()

    def _define_timings(self) -> None:
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of all plugins at an extension point, in every tenth decision.",
            exponential_buckets(0.0001, 2, 12),
            ("extension_point", "status", "profile"),
        )
        self.plugin_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Time of one plugin at an extension point over all nodes it was asked about, in every tenth decision.",
            exponential_buckets(0.00001, 1.5, 20),
            ("plugin", "extension_point", "status"),
        )
        self.decisions = Counter(
            "trimtab_decisions_total", "Decisions by what they came to, before any bind.", ("result", "profile")
        )
        self.decision_seconds = Histogram(
            "trimtab_decision_duration_seconds",
            "Time of one decision over all nodes, without its bind.",
            exponential_buckets(0.00001, 2, 15),
        )

    def _define_failures(self) -> None:
        self.bind_failures = Counter(
            "trimtab_bind_failures_total",
            "Binds that were not accepted, or of which nobody knows whether they were.",
            ("fault",),
        )
        self.orphaned_pods = Counter("trimtab_orphaned_pods_total", "Pods bound to a node that had gone meanwhile.")
        self.plugin_failures = Counter("trimtab_plugin_faults_total", "Decisions given up because a plugin raised.")
        self.rejected_samples = Counter(
            "trimtab_samples_refused_total", "Measurements that were not believed, by reason.", ("reason",)
        )
        self.source_failures = Counter(
            "trimtab_source_failures_total",
            "How often a question to a source of measurements began to fail.",
            ("source",),
        )

        self.label_patches = Counter(
            "trimtab_node_marks_total", "Patches of pressure labels and taints, by result.", ("result",)
        )
        self.all_under_pressure = Counter("trimtab_all_marked_total", "Times when every node that may be marked was.")

    def families(self) -> Iterator[Metric]:
        """How all of them stand now."""
        return (each.family() for each in vars(self).values() if isinstance(each, Counter | Histogram))
