"""Counters and histograms served at /metrics: their definitions, and the recorder that the engine reports to.

To add one, define it in `Metrics`, increment it in `PrometheusRecorder` (a new hook also goes into `MetricsRecorder`) and
list it in docs/metrics.md. Those of moves are in `move_metrics.py`. A value that can be read when the page is scraped, such
as a queue length, belongs in `gauges.py`.

Names, labels and buckets under `scheduler_` are kube-scheduler's, so that its dashboards and alerts work unchanged. As there,
an attempt is counted when its result is known: an unschedulable pod at the decision, a scheduled one when the API server has
answered its bind. A bind of unknown outcome counts as an error, and also as scheduled if it turns out to have succeeded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

from prometheus_client.core import Metric

from trimtab.core.framework.evaluation import PluginTimer
from trimtab.core.model.events import BindFailure
from trimtab.core.model.ledger import Grade, MoveRecord
from trimtab.core.model.plan import Plan
from trimtab.core.recorder import MetricsRecorder, StageReport
from trimtab.serve.counters import Counter, Histogram, exponential_buckets
from trimtab.serve.move_metrics import MoveMetrics

MAX_ATTEMPTS_LABEL = 15
SCHEDULED = "scheduled"
SUCCESS = "Success"  # a plugin that raises is not timed
QUEUES = {"gated": "unschedulable"}  # as kube-scheduler counts them
PATCH_RESULTS = ("done", "failed", "forbidden")
SPLIT_EVERY = 10  # decisions of which one is timed plugin by plugin


class Metrics:
    """All counters and histograms, by attribute."""

    def __init__(self) -> None:
        self.attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod by result; error is a plugin that raised or a bind that failed.",
            ("result", "profile"),
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt: the decision, and for a scheduled pod also its bind.",
            exponential_buckets(0.001, 2, 15),
            ("result", "profile"),
        )
        self.attempts_per_pod = Histogram(
            "scheduler_pod_scheduling_attempts", "Attempts until a pod was bound.", exponential_buckets(1, 2, 5)
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's first attempt until it was bound, by number of attempts.",
            exponential_buckets(0.01, 2, 20),
            ("attempts",),
        )
        self.incoming = Counter(
            "scheduler_queue_incoming_pods_total", "Pods added to a queue, by queue and event.", ("queue", "event")
        )
        self.preemptions = Counter("scheduler_preemption_attempts_total", "Preemption attempts.")
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of each preemption, but those that were leaving already.",
            exponential_buckets(1, 2, 7),
        )
        self._define_timings()
        self._define_failures()
        self._define_labelling()

    def _define_timings(self) -> None:
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of all plugins at an extension point, in every tenth decision.",
            exponential_buckets(0.0001, 2, 12),
            ("extension_point", "status", "profile"),
        )
        self.plugin_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of one plugin at an extension point over all nodes it evaluated, in every tenth decision.",
            exponential_buckets(0.00001, 1.5, 20),
            ("plugin", "extension_point", "status"),
        )
        self.decisions = Counter(
            "trimtab_decisions_total", "Decisions by result, before any bind.", ("result", "profile")
        )
        self.unschedulable = Counter(
            "trimtab_unschedulable_attempts_total",
            "Attempts that found no node, once for each plugin that rejected one.",
            ("plugin", "profile"),
        )
        self.decision_seconds = Histogram(
            "trimtab_decision_duration_seconds",
            "Duration of one decision over all nodes, without its bind.",
            exponential_buckets(0.00001, 2, 15),
        )

    def _define_failures(self) -> None:
        self.bind_failures = Counter(
            "trimtab_bind_failures_total", "Binds that failed or whose outcome is unknown.", ("fault",), BindFailure
        )
        self.stage_results = Counter(
            "trimtab_stage_results_total",
            "Rejections and warnings by Reserve, Permit and PreBind plugins.",
            ("extension_point", "plugin", "result"),
        )
        self.orphaned_pods = Counter("trimtab_orphaned_pods_total", "Pods bound to a node that no longer exists.")
        self.plugin_failures = Counter("trimtab_plugin_faults_total", "Decisions abandoned because a plugin raised.")
        self.rejected_samples = Counter("trimtab_samples_refused_total", "Samples rejected, by reason.", ("reason",))
        self.source_failures = Counter(
            "trimtab_source_failures_total", "Times a query to a metric source began to fail.", ("source",)
        )

        self.invariant_violations = Counter(
            "trimtab_invariant_violations_total", "Violations found by --check-invariants; the log names them."
        )

    def _define_labelling(self) -> None:
        self.label_patches = Counter(
            "trimtab_node_marks_total", "Patches of pressure labels and taints, by result.", ("result",), PATCH_RESULTS
        )
        self.all_under_pressure = Counter(
            "trimtab_all_marked_total", "Times when every eligible node was labelled as under pressure."
        )

    def families(self) -> Iterator[Metric]:
        """The current values of all of them."""
        return (each.family() for each in vars(self).values() if isinstance(each, Counter | Histogram))


class PrometheusRecorder(MetricsRecorder):
    """Records what the engine reports. Label values are few: results, profiles, plugins, kinds of failure."""

    def __init__(self, timers: TimerSampler | None = None) -> None:
        self._timers = timers if timers is not None else TimerSampler()
        self._metrics, self._moves = Metrics(), MoveMetrics()

    def families(self) -> Iterator[Metric]:
        """Everything recorded so far."""
        yield from self._metrics.families()
        yield from self._moves.families()

    def timer(self) -> PluginTimer:
        """A timer for the decision that starts now; every tenth one times plugins separately."""
        return self._timers.start()

    def queued(self, queue: str, event: str) -> None:
        """A pod was added to a queue."""
        self._metrics.incoming.add(QUEUES.get(queue, queue), event)

    def attempted(self, profile: str, result: str, timer: PluginTimer) -> None:
        """A decision was made; a scheduled pod's attempt goes on until its bind is answered."""
        self._metrics.decisions.add(result, profile)
        if isinstance(timer, DecisionTimer):
            seconds = timer.elapsed()
            self._metrics.decision_seconds.observe(seconds)
            if result != SCHEDULED:
                self._attempt_finished(profile, result, seconds)
        if isinstance(timer, SplitTimer):
            self._observe_plugins(profile, timer)

    def unschedulable(self, profile: str, plugins: Sequence[str]) -> None:
        """An attempt found no node because of these plugins."""
        for plugin in plugins:
            self._metrics.unschedulable.add(plugin, profile)

    def preemption_attempted(self) -> None:
        """A PostFilter plugin was asked to preempt."""
        self._metrics.preemptions.add()

    def preempted(self, victims: int) -> None:
        """Pods have to leave for another one."""
        self._metrics.victims.observe(victims)

    def bound(self, profile: str, attempts: int, since_first_attempt: float, bind_seconds: float) -> None:
        """A bind succeeded."""
        self._attempt_finished(profile, SCHEDULED, bind_seconds)
        self._metrics.attempts_per_pod.observe(attempts)
        label = str(attempts) if attempts < MAX_ATTEMPTS_LABEL else f"{MAX_ATTEMPTS_LABEL}+"
        self._metrics.sli_seconds.observe(since_first_attempt, label)

    def bind_failed(self, profile: str, failure: str, bind_seconds: float) -> None:
        """A bind failed, or its outcome is unknown."""
        self._attempt_finished(profile, "error", bind_seconds)
        self._metrics.bind_failures.add(failure)

    def bound_to_missing_node(self) -> None:
        """A pod was bound to a node that was deleted meanwhile."""
        self._metrics.orphaned_pods.add()

    def stage_reported(self, report: StageReport) -> None:
        """A plugin rejected a pod on its node, or warned of it."""
        if report.result != "noted":
            self._metrics.stage_results.add(report.stage, report.plugin, report.result)

    def plugin_failed(self, error: str) -> None:
        """A plugin raised."""
        self._metrics.plugin_failures.add()

    def samples_rejected(self, reason: str, count: int) -> None:
        """Samples were rejected."""
        self._metrics.rejected_samples.add(reason, by=count)

    def source_failed(self, source: str) -> None:
        """A query to a metric source failed."""
        self._metrics.source_failures.add(source)

    def node_patched(self, result: str) -> None:
        """A node patch was answered."""
        self._metrics.label_patches.add(result)

    def invariants_violated(self, count: int) -> None:
        """A check of the engine's state found so many violations."""
        self._metrics.invariant_violations.add(by=count)

    def all_under_pressure(self, nodes: int) -> None:
        """Every eligible node is under pressure."""
        self._metrics.all_under_pressure.add()

    def planned(self, plan: Plan) -> None:
        """The rescheduler made a plan."""
        self._moves.planned(plan)

    def remedy_used(self, rung: str, count: int) -> None:
        """A hot node got a remedy."""
        self._moves.remedy_used(rung, count)

    def move_changed(self, record: MoveRecord) -> None:
        """A move has come further."""
        self._moves.changed(record)

    def move_graded(self, record: MoveRecord, grade: Grade) -> None:
        """A move was measured some time later."""
        self._moves.graded(record, grade)

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


class DecisionTimer(PluginTimer):
    """Times one decision as a whole; recording a plugin is an empty call."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()

    def elapsed(self) -> float:
        """Seconds since the decision started."""
        return self._clock() - self._started


class SplitTimer(DecisionTimer):
    """Also times each plugin: the time since the previous call of `record`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._last = self._started
        self.durations: list[tuple[str, str, float]] = []

    def record(self, point: str, plugin: str) -> None:
        """Attribute the time since the last call to this plugin at this extension point."""
        now = self._clock()
        self.durations.append((point, plugin, now - self._last))
        self._last = now


class TimerSampler:
    """Creates a timer for each decision; the first and every tenth after it is a `SplitTimer`."""

    def __init__(self, clock: Callable[[], float] = perf_counter, every: int = SPLIT_EVERY) -> None:
        self._clock, self._every = clock, every
        self._decisions = 0

    def start(self) -> DecisionTimer:
        """The timer for the decision that starts now."""
        split = self._decisions % self._every == 0
        self._decisions += 1
        return SplitTimer(self._clock) if split else DecisionTimer(self._clock)
