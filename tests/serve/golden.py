"""Decides what kube-scheduler 1.35.8 promises on /metrics, as a table; leaves looking at the real one to a live test.

Taken from its source: every metric under `scheduler_` that is STABLE or BETA, and the plugins' histogram, which is ALPHA.
"""

from typing import NamedTuple


class Promise(NamedTuple):
    """One metric: its type, its label names, and for a histogram the first limit, the factor and the number of buckets."""

    type: str
    labels: frozenset[str]
    buckets: tuple[float, float, int] | None = None

    def limits(self) -> list[float]:
        """The histogram's bucket limits, without the infinite one."""
        start, factor, count = self.buckets or (0, 0, 0)
        return [start * factor**power for power in range(count)]


def promise(kind: str, labels: str = "", buckets: tuple[float, float, int] | None = None) -> Promise:
    """A row of the table, with labels in one string."""
    return Promise(kind, frozenset(labels.split()), buckets)


PROMISED = {
    "scheduler_schedule_attempts_total": promise("counter", "result profile"),
    "scheduler_scheduling_attempt_duration_seconds": promise("histogram", "result profile", (0.001, 2, 15)),
    "scheduler_preemption_victims": promise("histogram", "", (1, 2, 7)),
    "scheduler_preemption_attempts_total": promise("counter"),
    "scheduler_pending_pods": promise("gauge", "queue"),
    "scheduler_pod_scheduling_sli_duration_seconds": promise("histogram", "attempts", (0.01, 2, 20)),
    "scheduler_pod_scheduling_attempts": promise("histogram", "", (1, 2, 5)),
    "scheduler_framework_extension_point_duration_seconds": promise(
        "histogram", "extension_point status profile", (0.0001, 2, 12)
    ),
    "scheduler_plugin_execution_duration_seconds": promise(
        "histogram", "plugin extension_point status", (0.00001, 1.5, 20)
    ),
    "scheduler_queue_incoming_pods_total": promise("counter", "queue event"),
}
