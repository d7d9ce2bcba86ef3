"""Decides which instrument moves when the core counts something; leaves what is merely looked at to the readings.

An attempt counts when its end is known, as in kube-scheduler: an unschedulable pod at the decision, a placed one when the
API server has answered its bind. A bind of unknown outcome is an error first, and a success as well if it turns out so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from prometheus_client.core import Metric

from trimtab.core.framework.timing import PluginTimer
from trimtab.core.recorder import MetricsRecorder
from trimtab.serve.metric_definitions import Metrics
from trimtab.serve.plugin_timing import DecisionTimer, SplitTimer, TimerSampler

MAX_ATTEMPTS_LABEL = 15
SCHEDULED = "scheduled"
# A plugin that raises leaves no mark, so whatever is timed went well.
SUCCESS = "Success"
# kube-scheduler's words: it keeps gated pods among the unschedulable ones, and calls a pod that waits so, too.
QUEUES = {"gated": "unschedulable"}
EVENTS = {"PodAdd": "UnschedulablePodAdd", "PodUpdate": "UnschedulablePodUpdate"}


class PrometheusRecorder(MetricsRecorder):
    """A tally that everybody can read at /metrics. Labels take few values: results, profiles, plugins, faults."""

    def __init__(self, timers: TimerSampler | None = None) -> None:
        self._timers = timers if timers is not None else TimerSampler()
        self._metrics = Metrics()

    def families(self) -> Iterator[Metric]:
        """All that was counted so far."""
        return self._metrics.families()

    def timer(self) -> PluginTimer:
        """Timed as a whole, and every tenth time split among the plugins."""
        return self._timers.start()

    def queued(self, queue: str, event: str) -> None:
        """A pod entered a queue."""
        self._metrics.incoming.add(QUEUES.get(queue, queue), EVENTS.get(event, event))

    def attempted(self, profile: str, result: str, timer: PluginTimer) -> None:
        """A decision was made, well or not; a placed pod's attempt goes on until its bind is answered."""
        self._metrics.decisions.add(result, profile)
        if isinstance(timer, DecisionTimer):
            seconds = timer.elapsed()
            self._metrics.decision_seconds.observe(seconds)
            if result != SCHEDULED:
                self._attempt_finished(profile, result, seconds)
        if isinstance(timer, SplitTimer):
            self._observe_plugins(profile, timer)

    def preemption_attempted(self, victims: int) -> None:
        """Each plugin that is asked to make room counts; victims only where it could."""
        self._metrics.preemptions.add()
        if victims:
            self._metrics.victims.observe(victims)

    def bound(self, profile: str, attempts: int, since_first_attempt: float, bind_seconds: float) -> None:
        """A bind was accepted: the attempt ended well."""
        self._attempt_finished(profile, SCHEDULED, bind_seconds)
        self._metrics.attempts_per_pod.observe(attempts)
        label = str(attempts) if attempts < MAX_ATTEMPTS_LABEL else f"{MAX_ATTEMPTS_LABEL}+"
        self._metrics.sli_seconds.observe(since_first_attempt, label)

    def bind_failed(self, profile: str, failure: str, bind_seconds: float) -> None:
        """A bind was not accepted, or nobody knows: the attempt ended badly."""
        self._attempt_finished(profile, "error", bind_seconds)
        self._metrics.bind_failures.add(failure)

    def bound_to_missing_node(self) -> None:
        """A pod was bound to a node that had gone in the meantime."""
        self._metrics.orphaned_pods.add()

    def plugin_failed(self, error: str) -> None:
        """A plugin raised; its words may be anything, so they are no label."""
        self._metrics.plugin_failures.add()

    def samples_rejected(self, reason: str, count: int) -> None:
        """Measurements that were not believed."""
        self._metrics.rejected_samples.add(reason, by=count)

    def source_failed(self, source: str) -> None:
        """A metric source did not answer, or nonsense."""
        self._metrics.source_failures.add(source)

    def node_patched(self, result: str) -> None:
        """A node's marks were written, or not."""
        self._metrics.label_patches.add(result)

    def all_under_pressure(self, nodes: int) -> None:
        """Every node that may be marked is."""
        self._metrics.all_under_pressure.add()

    def _attempt_finished(self, profile: str, result: str, seconds: float) -> None:
        self._metrics.attempts.add(result, profile)
        self._metrics.attempt_seconds.observe(seconds, result, profile)

    def _observe_plugins(self, profile: str, timer: SplitTimer) -> None:
        points: dict[str, float] = defaultdict(float)
        for point, plugin, seconds in timer.durations:
            points[point] += seconds
            self._metrics.plugin_seconds.observe(seconds, plugin, point, SUCCESS)
        for point, seconds in points.items():
            self._metrics.point_seconds.observe(seconds, point, SUCCESS, profile)
