"""The metrics that kube-scheduler 1.35.8 guarantees, as a table; a live test compares it with the real one.

Taken from its source: every metric under `scheduler_` that is STABLE or BETA, and the plugins' histogram, which is ALPHA.
"""

from typing import NamedTuple


class ExpectedMetric(NamedTuple):
    """One metric: its type, its label names, and for a histogram the first limit, the factor and the number of buckets."""

    type: str
    labels: frozenset[str]
    buckets: tuple[float, float, int] | None = None

    def limits(self) -> list[float]:
        """The histogram's bucket limits, without the infinite one."""
        start, factor, count = self.buckets or (0, 0, 0)
        return [start * factor**power for power in range(count)]


def expected(kind: str, labels: str = "", buckets: tuple[float, float, int] | None = None) -> ExpectedMetric:
    """A row of the table, with labels in one string."""
    return ExpectedMetric(kind, frozenset(labels.split()), buckets)


KUBE_SCHEDULER_METRICS = {
    "scheduler_schedule_attempts_total": expected("counter", "result profile"),
    "scheduler_scheduling_attempt_duration_seconds": expected("histogram", "result profile", (0.001, 2, 15)),
    "scheduler_preemption_victims": expected("histogram", "", (1, 2, 7)),
    "scheduler_preemption_attempts_total": expected("counter"),
    "scheduler_pending_pods": expected("gauge", "queue"),
    "scheduler_pod_scheduling_sli_duration_seconds": expected("histogram", "attempts", (0.01, 2, 20)),
    "scheduler_pod_scheduling_attempts": expected("histogram", "", (1, 2, 5)),
    "scheduler_framework_extension_point_duration_seconds": expected(
        "histogram", "extension_point status profile", (0.0001, 2, 12)
    ),
    "scheduler_plugin_execution_duration_seconds": expected(
        "histogram", "plugin extension_point status", (0.00001, 1.5, 20)
    ),
    "scheduler_queue_incoming_pods_total": expected("counter", "queue event"),
}
