"""Decides which instrument moves when the core counts something; leaves what is merely looked at to the readings.

An attempt counts when its end is known, as in kube-scheduler: an unschedulable pod at the decision, a placed one when the
API server has answered its bind. A bind of unknown outcome is an error first, and a success as well if it turns out so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from prometheus_client.core import Metric

from trimtab.core.placing.laps import Laps
from trimtab.core.recorder import MetricsRecorder
from trimtab.serve.instruments import Instruments
from trimtab.serve.laps import SplitLaps, Stopwatch, WholeLaps

MOST_ATTEMPTS = 15
SCHEDULED = "scheduled"
# A plugin that raises leaves no mark, so whatever is timed went well.
SUCCESS = "Success"
# kube-scheduler's words: it keeps gated pods among the unschedulable ones, and calls a pod that waits so, too.
QUEUES = {"gated": "unschedulable"}
EVENTS = {"PodAdd": "UnschedulablePodAdd", "PodUpdate": "UnschedulablePodUpdate"}


class PrometheusTally(MetricsRecorder):
    """A tally that everybody can read at /metrics. Labels take few values: results, profiles, plugins, faults."""

    def __init__(self, stopwatch: Stopwatch | None = None) -> None:
        self._stopwatch = stopwatch if stopwatch is not None else Stopwatch()
        self._on = Instruments()

    def families(self) -> Iterator[Metric]:
        """All that was counted so far."""
        return self._on.families()

    def timer(self) -> Laps:
        """Timed as a whole, and every tenth time split among the plugins."""
        return self._stopwatch.laps()

    def queued(self, queue: str, event: str) -> None:
        """A pod entered a queue."""
        self._on.incoming.add(QUEUES.get(queue, queue), EVENTS.get(event, event))

    def attempted(self, profile: str, result: str, timer: Laps) -> None:
        """A decision was made, well or not; a placed pod's attempt goes on until its bind is answered."""
        self._on.decisions.add(result, profile)
        if isinstance(timer, WholeLaps):
            seconds = timer.elapsed()
            self._on.decision_seconds.observe(seconds)
            if result != SCHEDULED:
                self._ended(profile, result, seconds)
        if isinstance(timer, SplitLaps):
            self._split(profile, timer)

    def preemption_attempted(self, victims: int) -> None:
        """Each plugin that is asked to make room counts; victims only where it could."""
        self._on.preemptions.add()
        if victims:
            self._on.victims.observe(victims)

    def bound(self, profile: str, attempts: int, since_first_attempt: float, bind_seconds: float) -> None:
        """A bind was accepted: the attempt ended well."""
        self._ended(profile, SCHEDULED, bind_seconds)
        self._on.attempts_per_pod.observe(attempts)
        label = str(attempts) if attempts < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
        self._on.sli_seconds.observe(since_first_attempt, label)

    def bind_failed(self, profile: str, failure: str, bind_seconds: float) -> None:
        """A bind was not accepted, or nobody knows: the attempt ended badly."""
        self._ended(profile, "error", bind_seconds)
        self._on.bind_failures.add(failure)

    def bound_to_missing_node(self) -> None:
        """A pod was bound to a node that had gone in the meantime."""
        self._on.orphans.add()

    def plugin_failed(self, error: str) -> None:
        """A plugin raised; its words may be anything, so they are no label."""
        self._on.faults.add()

    def samples_rejected(self, reason: str, count: int) -> None:
        """Measurements that were not believed."""
        self._on.refused_samples.add(reason, by=count)

    def source_failed(self, source: str) -> None:
        """A metric source did not answer, or nonsense."""
        self._on.failed_sources.add(source)

    def node_patched(self, result: str) -> None:
        """A node's marks were written, or not."""
        self._on.marks.add(result)

    def all_under_pressure(self, nodes: int) -> None:
        """Every node that may be marked is."""
        self._on.all_marked.add()

    def _ended(self, profile: str, result: str, seconds: float) -> None:
        self._on.attempts.add(result, profile)
        self._on.attempt_seconds.observe(seconds, result, profile)

    def _split(self, profile: str, laps: SplitLaps) -> None:
        points: dict[str, float] = defaultdict(float)
        for point, plugin, seconds in laps.marks:
            points[point] += seconds
            self._on.plugin_seconds.observe(seconds, plugin, point, SUCCESS)
        for point, seconds in points.items():
            self._on.point_seconds.observe(seconds, point, SUCCESS, profile)
