"""Decides which counters and histograms there are: their names, labels and buckets; leaves when they move to the tally.

Names, labels and buckets under `scheduler_` are kube-scheduler's, so that its dashboards and alerts work unchanged.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bucket limits by repeated multiplication: powers would round otherwise than kube-scheduler's."""
    limits = [start]
    for _ in range(count - 1):
        limits.append(limits[-1] * factor)
    return tuple(limits)


MILLISECONDS = exponential(0.001, 2, 15)


class Attempts:
    """How scheduling goes, pod by pod."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.total = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod by what they came to; error means a fault of the scheduler or of a bind.",
            ("result", "profile"),
            registry=registry,
        )
        self.seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of an attempt: the decision, and for a scheduled pod also its bind.",
            ("result", "profile"),
            buckets=MILLISECONDS,
            registry=registry,
        )
        self.per_pod = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that it took until a pod was bound.",
            buckets=exponential(1, 2, 5),
            registry=registry,
        )
        self.sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's first attempt until it was bound, by number of attempts.",
            ("attempts",),
            buckets=exponential(0.01, 2, 20),
            registry=registry,
        )
        self.incoming = Counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by queue and by what sent them there.",
            ("queue", "event"),
            registry=registry,
        )


class Preemption:
    """There for dashboards: nothing is preempted yet, so both stay at zero."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.attempts = Counter(
            "scheduler_preemption_attempts_total", "Attempts to make room by preemption.", registry=registry
        )
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Pods chosen to make room, for each preemption.",
            buckets=exponential(1, 2, 7),
            registry=registry,
        )


class Timings:
    """Where a decision's time goes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decision = Histogram(
            "trimtab_decision_duration_seconds",
            "Time of one decision over all nodes, without its bind.",
            buckets=exponential(0.00001, 2, 15),
            registry=registry,
        )
        self.point = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of all plugins at an extension point, in every tenth decision.",
            ("extension_point", "status", "profile"),
            buckets=exponential(0.0001, 2, 12),
            registry=registry,
        )
        self.plugin = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Time of one plugin at an extension point over all nodes it was asked about, in every tenth decision.",
            ("plugin", "extension_point", "status"),
            buckets=exponential(0.00001, 1.5, 20),
            registry=registry,
        )


class Mishaps:
    """What went wrong or was left out."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.bind_failures = Counter(
            "trimtab_bind_failures_total",
            "Binds that were not accepted, or of which nobody knows whether they were.",
            ("fault",),
            registry=registry,
        )
        self.orphans = Counter(
            "trimtab_orphaned_pods_total", "Pods bound to a node that had gone meanwhile.", registry=registry
        )
        self.faults = Counter(
            "trimtab_plugin_faults_total", "Decisions given up because a plugin raised.", registry=registry
        )
        self.skipped = Counter(
            "trimtab_wishes_skipped_total",
            "Soft wishes of pods that no plugin of their profile knows.",
            ("wish",),
            registry=registry,
        )
        self.refused_samples = Counter(
            "trimtab_samples_refused_total", "Measurements that made no sense.", registry=registry
        )


class Instruments:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        # Otherwise every counter and histogram brings a second series with its birthday, which kube-scheduler has not.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.decisions = Counter(
            "trimtab_decisions_total",
            "Decisions by what they came to, before any bind.",
            ("result", "profile"),
            registry=self.registry,
        )
        self.attempts = Attempts(self.registry)
        self.preemption = Preemption(self.registry)
        self.timings = Timings(self.registry)
        self.mishaps = Mishaps(self.registry)
