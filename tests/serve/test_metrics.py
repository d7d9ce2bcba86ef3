"""/metrics shows what happened in the engine."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import pytest
from prometheus_client import REGISTRY, generate_latest

from tests.serve.exposition import Exposition
from tests.serve.kube_scheduler_metrics import KUBE_SCHEDULER_METRICS
from tests.serve.small_cluster import PROFILE, SmallCluster, run_every_outcome
from trimtab.core.framework.evaluation import NO_TIMER
from trimtab.core.framework.profile import multipoint
from trimtab.core.model.change import Change
from trimtab.core.model.events import BindFailure, SettingsRead
from trimtab.core.model.pod import Pod
from trimtab.core.settings import Settings
from trimtab.serve.gauges import Gauges, ProcessStats
from trimtab.serve.http import MetricsEndpoint
from trimtab.serve.metrics import DecisionTimer, PrometheusRecorder, SplitTimer, TimerSampler

WATCHES = {"pods": {"lists": 3, "malformed": 1}, "nodes": {"lists": 1, "malformed": 0}}


async def page_of(recorder: PrometheusRecorder, cluster: SmallCluster, stats: ProcessStats | None = None) -> Exposition:
    """The page as a reader sees it."""
    return Exposition((await MetricsEndpoint(recorder, Gauges(cluster.engine, stats)).render()).decode())


@pytest.fixture
async def page() -> Exposition:
    """The page after every kind of attempt has happened."""
    recorder = PrometheusRecorder()
    stats = ProcessStats("1.2.3", "trimtab", lambda: {"written": 9, "dropped": 7}, lambda: 2, lambda: WATCHES)
    return await page_of(recorder, run_every_outcome(recorder), stats)


@pytest.mark.parametrize("name", KUBE_SCHEDULER_METRICS)
def test_what_kube_scheduler_promises_is_offered(page: Exposition, name: str) -> None:
    """Each STABLE and BETA metric of kube-scheduler is there with its type, its labels and its buckets."""
    offered = page.shape(name)
    assert offered is not None
    assert KUBE_SCHEDULER_METRICS[name].type == offered.type
    assert KUBE_SCHEDULER_METRICS[name].labels == offered.labels
    limits = [*KUBE_SCHEDULER_METRICS[name].limits(), math.inf] if KUBE_SCHEDULER_METRICS[name].buckets else []
    assert pytest.approx(limits) == sorted(offered.limits)


def test_attempts_count_by_their_end(page: Exposition) -> None:
    """A bound pod is scheduled, a rejected bind is an error, a pod too big is unschedulable, a gated one has no attempt."""
    for result, times in {"scheduled": 12, "error": 1, "unschedulable": 1}.items():
        assert times == page.value("scheduler_schedule_attempts_total", result=result, profile=PROFILE)
        name = "scheduler_scheduling_attempt_duration_seconds_count"
        assert times == page.value(name, result=result, profile=PROFILE)
    assert 13 == page.value("trimtab_decisions_total", result="scheduled", profile=PROFILE)


def test_a_scheduled_attempt_lasts_until_its_bind_is_answered(page: Exposition) -> None:
    """Twelve binds answered a quarter of a second after each other, all decided at once: 0.25 + 0.5 + … + 3 seconds."""
    name = "scheduler_scheduling_attempt_duration_seconds_sum"
    assert 19.5 == page.value(name, result="scheduled", profile=PROFILE)
    assert 19.5 == page.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="1")
    assert 12 == page.value("scheduler_pod_scheduling_attempts_sum")


def test_queues_and_caches_are_read_from_the_engine(page: Exposition) -> None:
    """Pending pods by queue, rejecting plugins, and cache sizes are the engine's at that moment."""
    pending = {queue: page.value("scheduler_pending_pods", queue=queue) for queue in ("active", "backoff")}
    assert {"active": 0, "backoff": 1} == pending
    assert 1 == page.value("scheduler_pending_pods", queue="unschedulable")
    assert 1 == page.value("scheduler_pending_pods", queue="gated")
    assert 1 == page.value("scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile=PROFILE)
    assert 1 == page.value("scheduler_unschedulable_pods", plugin="SchedulingGates", profile=PROFILE)
    assert 2 == page.value("scheduler_cache_size", type="nodes")
    assert 12 == page.value("scheduler_cache_size", type="pods")
    assert 12 == page.value("scheduler_cache_size", type="assumed_pods")


def test_pods_enter_queues_in_kube_scheduler_s_words(page: Exposition) -> None:
    """Events have kube-scheduler's names; a gated pod counts as unschedulable."""
    name = "scheduler_queue_incoming_pods_total"
    assert 14 == page.value(name, queue="active", event="UnschedulablePodAdd")
    assert 1 == page.value(name, queue="unschedulable", event="UnschedulablePodAdd")
    assert 1 == page.value(name, queue="unschedulable", event="ScheduleAttemptFailure")
    assert 1 == page.value(name, queue="backoff", event="ScheduleAttemptFailure")


async def test_a_configuration_file_that_does_not_hold() -> None:
    """With a file, the page shows whether it is in force and the outcome of reloads."""
    recorder = PrometheusRecorder()
    cluster = run_every_outcome(recorder)
    bad = ProcessStats(reloads=lambda: {"taken": 3, "refused": 1}, config_in_force=lambda: False)
    page = await page_of(recorder, cluster, bad)
    assert 0 == page.value("trimtab_config_last_reload_successful")
    assert 1 == page.value("trimtab_config_reloads_total", outcome="refused")
    assert (await page_of(recorder, cluster, ProcessStats())).shape("trimtab_config_last_reload_successful") is None


def test_attempts_without_a_node_count_for_each_plugin(page: Exposition) -> None:
    """The pod that is too big was rejected by NodeResourcesFit."""
    assert 1 == page.value("trimtab_unschedulable_attempts_total", plugin="NodeResourcesFit", profile=PROFILE)


def test_failures_start_at_zero(page: Exposition) -> None:
    """A series that starts at 1 shows no increase, so an alert would miss the first failure."""
    assert {1, 0} == {page.value("trimtab_bind_failures_total", fault=fault) for fault in BindFailure}
    assert 0 == page.value("trimtab_node_marks_total", result="forbidden")


async def test_the_age_of_pending_pods_is_from_their_creation() -> None:
    """The oldest of each queue; a pod whose creation is unknown, and an empty queue, have none."""
    recorder = PrometheusRecorder()
    cluster = SmallCluster(recorder)
    for name, created in {"old": 40.0, "new": 90.0, "unknown": 0.0}.items():
        cluster.pod(name, cpu=100_000, created=created)
    cluster.decide()
    page = await page_of(recorder, cluster, ProcessStats(wall=lambda: 100.0))
    assert 60 == page.value("trimtab_oldest_pending_pod_age_seconds", queue="unschedulable")
    assert page.value("trimtab_oldest_pending_pod_age_seconds", queue="active") is None


async def test_the_api_server_s_answers_and_its_silence() -> None:
    """Requests by code, host and method as client-go counts them, and how long each informer heard nothing."""
    recorder = PrometheusRecorder()
    stats = ProcessStats(requests=lambda: {("409", "api:6443", "POST"): 3}, silences=lambda: {"pods": 7.5})
    page = await page_of(recorder, SmallCluster(recorder), stats)
    assert 3 == page.value("rest_client_requests_total", code="409", host="api:6443", method="POST")
    assert 7.5 == page.value("trimtab_watch_silence_seconds", kind="pods")


async def test_a_source_that_fails_now() -> None:
    """A gauge, because a counter that starts at 1 shows no increase for an alert."""
    recorder = PrometheusRecorder()
    stats = ProcessStats(sources=lambda: {"main/nodeCPU": 1, "main/podCPU": 0})
    page = await page_of(recorder, run_every_outcome(recorder), stats)
    assert 1 == page.value("trimtab_source_failing", source="main/nodeCPU")
    assert 0 == page.value("trimtab_source_failing", source="main/podCPU")


def test_the_shell_s_own_counts_are_on_the_page(page: Exposition) -> None:
    """The process' own counts are under trimtab_, and the lease has Kubernetes' metric."""
    assert 7 == page.value("trimtab_events_total", outcome="dropped")
    assert 2 == page.value("trimtab_conditions_failed_total")
    assert 1 == page.value("trimtab_build_info", version="1.2.3")
    assert 1 == page.value("leader_election_master_status", name="trimtab")
    assert 3 == page.value("trimtab_watch_incidents_total", kind="pods", incident="lists")
    assert 1 == page.value("trimtab_watch_incidents_total", kind="pods", incident="malformed")
    assert 1 == page.value("trimtab_bind_failures_total", fault="refused")
    assert 2 == page.value("trimtab_template_lookups_total", result="miss")
    assert 12 == page.value("trimtab_template_lookups_total", result="hit")
    assert (page.value("process_resident_memory_bytes") or 0) > 0


def test_every_metric_is_explained_and_none_has_a_birthday(page: Exposition) -> None:
    """Each metric has help, and no counter has a _created series."""
    assert [] == [name for name, family in page.families.items() if not family.documentation]
    assert [] == [name for name in page.families if name.endswith("_created")]


async def test_without_a_lease_nobody_claims_to_lead() -> None:
    """Without leader election the leader's metric is absent, as in kube-scheduler."""
    recorder = PrometheusRecorder()
    page = await page_of(recorder, SmallCluster(recorder))
    assert page.shape("leader_election_master_status") is None


@dataclass(frozen=True)
class BrokenGate:
    """A PreEnqueue plugin that raises."""

    name: ClassVar[str] = "BrokenGate"
    requeue_on: ClassVar[Change] = Change.NOTHING

    def pre_enqueue(self, pod: Pod) -> str | None:
        """Fail on every pod."""
        raise ValueError(pod.name)


async def test_a_broken_gate_is_blamed_and_the_page_is_written() -> None:
    """A pod whose gate raises counts for that gate, and the scrape does not fail."""
    recorder = PrometheusRecorder()
    cluster = SmallCluster(recorder)
    profile = multipoint(PROFILE, [(BrokenGate(), 1)])
    cluster.engine.handle(SettingsRead(Settings(profiles=(profile,)), cluster.at))
    cluster.pod("held")
    page = await page_of(recorder, cluster)
    assert 1 == page.value("scheduler_unschedulable_pods", plugin="BrokenGate", profile=PROFILE)
    assert 1 == page.value("trimtab_plugin_faults_total")


async def test_rare_events_move_their_counters() -> None:
    """Orphaned pods, plugin failures, rejected samples and label patches have counters."""
    recorder = PrometheusRecorder()
    recorder.bound_to_missing_node()
    recorder.plugin_failed("ValueError('secret')")
    recorder.samples_rejected("not a number", 3)
    recorder.node_patched("done")
    recorder.all_under_pressure(7)
    page = await page_of(recorder, SmallCluster(recorder))
    assert 1 == page.value("trimtab_orphaned_pods_total")
    assert 1 == page.value("trimtab_plugin_faults_total")
    assert 3 == page.value("trimtab_samples_refused_total", reason="not a number")
    assert 1 == page.value("trimtab_node_marks_total", result="done")
    assert 1 == page.value("trimtab_all_marked_total")


async def test_gated_time_is_not_scheduling_time() -> None:
    """A pod that was gated for an hour and then bound in a second took a second."""
    recorder = PrometheusRecorder()
    cluster = SmallCluster(recorder)
    cluster.pod("late", gates=("example.com/later",))
    cluster.at += 3600
    cluster.pod("late", version=2)
    (bind,) = cluster.decide()
    cluster.at += 1
    cluster.accept(bind)
    page = await page_of(recorder, cluster)
    assert 1 == page.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="1")


async def test_many_attempts_share_one_label() -> None:
    """From the fifteenth attempt on the label stays the same, so that it takes few values."""
    recorder = PrometheusRecorder()
    for attempts in (14, 15, 400):
        recorder.bound(PROFILE, attempts, 1.0, 1.0)
    page = await page_of(recorder, SmallCluster(recorder))
    name = "scheduler_pod_scheduling_sli_duration_seconds_count"
    assert {"14": 1, "15+": 2} == {label: page.value(name, attempts=label) for label in ("14", "15+")}


async def test_an_unknown_outcome_is_an_error_until_it_is_known() -> None:
    """A bind without an answer counts as an error, by its failure."""
    recorder = PrometheusRecorder()
    cluster = SmallCluster(recorder)
    cluster.pod("lost")
    (bind,) = cluster.decide()
    cluster.fail(bind, BindFailure.UNKNOWN)
    page = await page_of(recorder, cluster)
    assert 1 == page.value("scheduler_schedule_attempts_total", result="error", profile=PROFILE)
    assert 1 == page.value("trimtab_bind_failures_total", fault="unknown")
    assert page.value("scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) is None


@pytest.mark.parametrize(
    ("seconds", "counts"), [(0.0, [1, 1, 1]), (0.001, [1, 1, 1]), (0.0011, [0, 1, 1]), (99.0, [0, 0, 1])]
)
async def test_a_limit_belongs_to_its_bucket(seconds: float, counts: list[int]) -> None:
    """A value counts in the bucket whose limit it equals and in all higher ones; beyond the last only the infinite one."""
    recorder = PrometheusRecorder()
    recorder.bound(PROFILE, 1, seconds, seconds)
    page = await page_of(recorder, SmallCluster(recorder))
    labels = {"result": "scheduled", "profile": PROFILE}
    name = "scheduler_scheduling_attempt_duration_seconds_bucket"
    assert counts == [page.value(name, **labels, le=limit) for limit in ("0.001", "0.002", "+Inf")]
    assert seconds == page.value("scheduler_scheduling_attempt_duration_seconds_sum", **labels)


def ticking() -> Iterator[float]:
    """A clock that advances by one second at each call."""
    return map(float, count())


async def test_marks_are_timed_by_plugin_and_by_point() -> None:
    """Each duration is the time since the previous one, and a point is the sum of its plugins."""
    clock = ticking()
    recorder = PrometheusRecorder(TimerSampler(lambda: next(clock)))
    laps = recorder.timer()
    for plugin in ("NodeName", "NodePorts"):
        laps.record("Filter", plugin)
    laps.record("Score", "ImageLocality")
    recorder.attempted(PROFILE, "unschedulable", laps)
    page = await page_of(recorder, SmallCluster(recorder))
    name = "scheduler_plugin_execution_duration_seconds_sum"
    assert 1 == page.value(name, plugin="NodePorts", extension_point="Filter", status="Success")
    name = "scheduler_framework_extension_point_duration_seconds_sum"
    assert 2 == page.value(name, extension_point="Filter", status="Success", profile=PROFILE)
    assert 4 == page.value("trimtab_decision_duration_seconds_sum")


def test_only_every_tenth_decision_is_split() -> None:
    """Of twenty decisions the first and the eleventh are split among plugins; all are timed."""
    stopwatch = TimerSampler()
    laps = [stopwatch.start() for _ in range(20)]
    assert [0, 10] == [number for number, each in enumerate(laps) if isinstance(each, SplitTimer)]
    assert all(isinstance(each, DecisionTimer) for each in laps)


async def test_foreign_laps_are_counted_and_not_timed() -> None:
    """A decision without a DecisionTimer is counted without a duration."""
    recorder = PrometheusRecorder()
    recorder.attempted(PROFILE, "scheduled", NO_TIMER)
    page = await page_of(recorder, SmallCluster(recorder))
    assert 1 == page.value("trimtab_decisions_total", result="scheduled", profile=PROFILE)
    assert 0 == page.value("trimtab_decision_duration_seconds_count")


async def test_two_tallies_never_mix() -> None:
    """One engine's metrics are on its own page only, not in the global registry."""
    one, other = PrometheusRecorder(), PrometheusRecorder()
    one.bound_to_missing_node()
    page = await page_of(other, SmallCluster(other))
    assert 0 == page.value("trimtab_orphaned_pods_total")
    assert b"trimtab_" not in generate_latest(REGISTRY)
