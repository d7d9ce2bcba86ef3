"""For every alert a past in which it fires, with its text, and one in which it stays silent.

Series are in promtool's notation, a sample per minute: `0x9` is ten zeros, `0+5x9` rises by five each minute, `_x3` are gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

A, B = 'job="trimtab", instance="a"', 'job="trimtab", instance="b"'
MOVER = 'job="trimtab-rescheduler", instance="a"'
PODS = 'namespace="trimtab", pod="trimtab-1"'
STATUS = "leader_election_master_status"
ATTEMPTS = "scheduler_schedule_attempts_total"
LATENCY = "scheduler_scheduling_attempt_duration_seconds_bucket"
REQUESTS = "rest_client_requests_total"
INCIDENTS = "trimtab_watch_incidents_total"
USAGE = "trimtab_cluster_usage_percent"
Series = Mapping[str, str]


@dataclass(frozen=True)
class AlertCase:
    """`says` is the description of each alert that fires at `at`; `labels` are those besides severity; neither: silent."""

    alert: str
    at: str
    series: Series
    says: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def latency(fast: str, slow: str) -> Series:
    """Buckets of two replicas, one fast and one slow: only a quantile over both is right."""
    limits = {"0.512": (fast, "0x20"), "4.096": (fast, slow), "+Inf": (fast, slow)}
    return {
        f'{LATENCY}{{{who}, profile="trimtab", result="scheduled", le="{le}"}}': counts[index]
        for index, who in enumerate((A, B))
        for le, counts in limits.items()
    }


def samples(missing: int, who: str = A) -> Series:
    """Ten nodes, of which some have no sample."""
    counts = {"fresh": 9 - missing, "aging": 1, "stale": 0, "missing": missing}
    return {f'trimtab_node_samples{{{who}, resource="cpu", state="{state}"}}': f"{n}x20" for state, n in counts.items()}


def availability() -> Iterator[AlertCase]:
    down = "No target of the job trimtab is up, or there is none at all."
    yield AlertCase("TrimtabDown", "3m", {f"up{{{A}}}": "0x5", f"up{{{B}}}": "0x5"}, down)
    yield AlertCase("TrimtabDown", "3m", {'up{job="other"}': "1x5"}, down)
    yield AlertCase("TrimtabDown", "9m", {f"up{{{A}}}": "0x10", f"up{{{B}}}": "1x10"})
    yield AlertCase("TrimtabDown", "9m", {'up{job="release-trimtab", instance="a"}': "1x10"})
    yield AlertCase("TrimtabDown", "5m", {f"up{{{A}}}": "1x3 0x1 1x5"})

    labeller = 'up{job="trimtab-labeller", namespace="trimtab", instance="a"}'
    where = {"job": "trimtab-labeller", "namespace": "trimtab"}
    text = "All targets of the job trimtab-labeller are down."
    yield AlertCase("TrimtabLabellerDown", "11m", {labeller: "0x12"}, text, where)
    yield AlertCase("TrimtabLabellerDown", "11m", {labeller: "1x12"})
    yield AlertCase("TrimtabLabellerDown", "11m", {f"up{{{A}}}": "0x12"})

    up = f"up{{{A}, {PODS}}}"
    ready = f'kube_pod_status_ready{{job="kube-state-metrics", {PODS}, condition="true"}}'
    where = {"job": "trimtab", "instance": "a", "namespace": "trimtab", "pod": "trimtab-1"}
    text = "a of the job trimtab does not answer scrapes, and its pod is not ready."
    yield AlertCase("TrimtabReplicaDown", "11m", {up: "0x12", ready: "0x12"}, text, where)
    yield AlertCase("TrimtabReplicaDown", "11m", {f"up{{{A}}}": "0x12"}, text, {"job": "trimtab", "instance": "a"})
    yield AlertCase("TrimtabReplicaDown", "11m", {up: "0x12", ready: "1x12"})
    yield AlertCase("TrimtabReplicaDown", "11m", {up: "1x12", ready: "0x12"})
    text = "The pod trimtab-1 is ready, but scrapes of a fail."
    yield AlertCase("TrimtabScrapeRefused", "11m", {up: "0x12", ready: "1x12"}, text, where)
    yield AlertCase("TrimtabScrapeRefused", "11m", {up: "0x12", ready: "0x12"})
    yield AlertCase("TrimtabScrapeRefused", "11m", {up: "1x12", ready: "1x12"})


def leadership() -> Iterator[AlertCase]:
    one, other = (f'{STATUS}{{{who}, name="trimtab"}}' for who in (A, B))
    where = {"job": "trimtab", "name": "trimtab"}
    text = "No replica of trimtab holds the lease trimtab."
    yield AlertCase("TrimtabNoLeader", "3m", {one: "0x5", other: "0x5"}, text, where)
    yield AlertCase("TrimtabNoLeader", "5m", {one: "1x2 0x5", other: "0x3 1x5"})
    yield AlertCase("TrimtabNoLeader", "5m", {f'{STATUS}{{job="kube-scheduler", name="kube-scheduler"}}': "0x5"})
    text = "2 replicas of trimtab say that they hold the lease trimtab."
    yield AlertCase("TrimtabTwoLeaders", "3m", {one: "1x5", other: "1x5"}, text, where)
    yield AlertCase("TrimtabTwoLeaders", "5m", {one: "1x5", other: "0x5"})
    yield AlertCase("TrimtabTwoLeaders", "5m", {one: "1x3 0x5", other: "0x2 1x5"})

    start = f"process_start_time_seconds{{{A}}}"
    text = "a of the job trimtab started 4 times within an hour."
    yield AlertCase(
        "TrimtabRestarts", "55m", {start: "1x9 2x9 3x9 4x9 5x19"}, text, {"job": "trimtab", "instance": "a"}
    )
    yield AlertCase("TrimtabRestarts", "55m", {start: "1x19 2x39"})

    old, new = (f'trimtab_build_info{{{who}, version="{version}"}}' for who, version in ((A, "0.1.0"), (B, "0.2.0")))
    text = "Replicas of trimtab run 2 different versions: an upgrade is not complete."
    yield AlertCase("TrimtabVersionSkew", "65m", {old: "1x70", new: "1x70"}, text, {"job": "trimtab"})
    yield AlertCase("TrimtabVersionSkew", "65m", {old: "1x10 _x60", new: "1x70"})

    reload = f"trimtab_config_last_reload_successful{{{A}}}"
    text = "a of the job trimtab rejected its changed configuration file."
    where = {"job": "trimtab", "instance": "a"}
    yield AlertCase("TrimtabConfigReloadFailed", "15m", {reload: "1x2 0x20"}, text, where)
    yield AlertCase("TrimtabConfigReloadFailed", "15m", {reload: "1x2 0x5 1x20"})


def scheduling() -> Iterator[AlertCase]:
    pending = f'scheduler_pending_pods{{{A}, queue="active"}}'
    scheduled = f'{ATTEMPTS}{{{A}, profile="trimtab", result="scheduled"}}'
    failed = f'{ATTEMPTS}{{{A}, profile="trimtab", result="error"}}'
    text = "7 pods are ready to be scheduled, and there was no attempt for five minutes."
    yield AlertCase("TrimtabNotScheduling", "15m", {pending: "7x20", scheduled: "90x20"}, text)
    yield AlertCase("TrimtabNotScheduling", "15m", {pending: "7x20"}, text)
    leads = {f'{STATUS}{{{A}, name="trimtab"}}': "1x60"}
    waits = {f'{STATUS}{{{A}, name="trimtab"}}': "0x60"}
    yield AlertCase("TrimtabNotScheduling", "15m", {pending: "7x20", **leads}, text)
    yield AlertCase("TrimtabNotScheduling", "15m", {pending: "7x20", **waits})
    yield AlertCase("TrimtabNotScheduling", "15m", {pending: "7x20", scheduled: "0+5x20"})
    yield AlertCase("TrimtabNotScheduling", "15m", {pending: "0x20", scheduled: "90x20"})

    text = "One in twenty pods needs more than 3.738s from decision to bind."
    yield AlertCase("TrimtabSchedulingLatencyHigh", "15m", latency("0+10x20", "0+10x20"), text)
    yield AlertCase("TrimtabSchedulingLatencyHigh", "15m", latency("0+1000x20", "0+10x20"))
    yield AlertCase("TrimtabSchedulingLatencyHigh", "15m", latency("5x20", "5x20"))

    yield AlertCase(
        "TrimtabSchedulingErrorRateHigh",
        "10m",
        {scheduled: "0+80x20", failed: "0+20x20"},
        "20% of attempts failed within five minutes.",
    )
    yield AlertCase("TrimtabSchedulingErrorRateHigh", "10m", {scheduled: "0+95x20", failed: "0+5x20"})
    yield AlertCase("TrimtabSchedulingErrorRateHigh", "10m", {scheduled: "0+5x20"})
    yield AlertCase("TrimtabSchedulingErrorRateHigh", "10m", {scheduled: "5x20", failed: "5x20"})

    age = f'trimtab_oldest_pending_pod_age_seconds{{{A}, queue="unschedulable"}}'
    text = "The oldest pod of the unschedulable queue was created 36m 0s ago."
    yield AlertCase("TrimtabPodsPendingLong", "36m", {age: "0+60x40"}, text, {"queue": "unschedulable"})
    yield AlertCase("TrimtabPodsPendingLong", "29m", {age: "0+60x40"})
    yield AlertCase("TrimtabPodsPendingLong", "39m", {age.replace("unschedulable", "active"): "0+60x40", **waits})
    yield AlertCase("TrimtabPodsPendingLong", "39m", {age.replace("unschedulable", "gated"): "0+60x40"})

    text = "450 pods wait to be tried, and their number grows."
    yield AlertCase("TrimtabQueueGrowing", "45m", {pending: "0+10x60"}, text)
    yield AlertCase("TrimtabQueueGrowing", "45m", {pending: "0+10x60", **waits})
    yield AlertCase("TrimtabQueueGrowing", "45m", {pending: "600-10x60"})
    yield AlertCase("TrimtabQueueGrowing", "45m", {pending: "0+1x60"})


def bugs() -> Iterator[AlertCase]:
    faults = f"trimtab_plugin_faults_total{{{A}}}"
    text = "11 decisions were abandoned within ten minutes because a plugin raised."
    yield AlertCase("TrimtabPluginFaults", "15m", {faults: "0x9 11x20"}, text, {"job": "trimtab"})
    yield AlertCase("TrimtabPluginFaults", "30m", {faults: "0x9 11x30"})

    violations = f"trimtab_invariant_violations_total{{{A}}}"
    text = "a found 3 inconsistencies in its state within an hour."
    where = {"job": "trimtab", "instance": "a"}
    yield AlertCase("TrimtabInvariantViolated", "70m", {violations: "0x30 3x60"}, text, where)
    yield AlertCase("TrimtabInvariantViolated", "70m", {violations: "3x90"})


def load() -> Iterator[AlertCase]:
    most, least = (f'{USAGE}{{{A}, resource="cpu", statistic="{name}"}}' for name in ("max", "min"))
    text = "The hottest and the coldest node differ by 60 percent points of cpu."
    yield AlertCase("TrimtabNodeLoadImbalance", "35m", {most: "75x40", least: "15x40"}, text, {"resource": "cpu"})
    yield AlertCase("TrimtabNodeLoadImbalance", "35m", {most: "45x40", least: "25x40"})
    yield AlertCase("TrimtabNodeLoadImbalance", "35m", {most: "75x20 40x40", least: "15x60"})

    memory = most.replace("cpu", "memory")
    text = "The fullest node uses 96.5 percent of its allocatable memory."
    yield AlertCase("TrimtabNodeMemoryHigh", "15m", {memory: "96.5x20"}, text)
    yield AlertCase("TrimtabNodeMemoryHigh", "15m", {memory: "89x20", most: "99x20"})

    where = {"job": "trimtab", "instance": "a", "resource": "cpu"}
    text = "40% of the nodes have no trusted sample of cpu in a."
    yield AlertCase("TrimtabLoadDataUntrusted", "15m", {**samples(4), **samples(1, B)}, text, where)
    yield AlertCase("TrimtabLoadDataUntrusted", "15m", samples(2))

    failing = f'trimtab_source_failing{{{A}, source="main/nodeCPU"}}'
    where = {"job": "trimtab", "source": "main/nodeCPU"}
    text = "The query main/nodeCPU fails; after some minutes nodes are scored by requests."
    yield AlertCase("TrimtabSourceDown", "10m", {failing: "0x2 1x20"}, text, where)
    yield AlertCase("TrimtabSourceDown", "10m", {failing: "0x2 1x3 0x20"})

    failures = f'trimtab_source_failures_total{{{A}, source="main/nodeCPU"}}'
    text = "The query main/nodeCPU began to fail 5 times within an hour."
    yield AlertCase("TrimtabSourceFlapping", "60m", {failures: "0x9 1x9 2x9 3x9 4x9 5x19"}, text, where)
    yield AlertCase("TrimtabSourceFlapping", "60m", {failures: "0x29 1x40"})

    refused = f'trimtab_samples_refused_total{{{A}, reason="unmatched"}}'
    where = {"job": "trimtab", "reason": "unmatched"}
    text = "Samples are rejected as unmatched; their nodes are scored by requests."
    yield AlertCase("TrimtabSamplesRejected", "80m", {refused: "0+3x90"}, text, where)
    yield AlertCase("TrimtabSamplesRejected", "80m", {refused: "0x40 9x50"})
    yield AlertCase("TrimtabSamplesRejected", "80m", {refused.replace("unmatched", "unknown"): "0+3x90"})


def labels() -> Iterator[AlertCase]:
    all_marked = 'trimtab_all_marked_total{job="trimtab-labeller", instance="a"}'
    where = {"job": "trimtab-labeller"}
    text = "trimtab-labeller found all eligible nodes above a threshold within half an hour."
    yield AlertCase("TrimtabAllNodesUnderPressure", "20m", {all_marked: "0x9 1x30"}, text, where)
    yield AlertCase("TrimtabAllNodesUnderPressure", "50m", {all_marked: "0x9 1x60"})

    marks = 'trimtab_node_marks_total{job="trimtab-labeller", instance="a", result="forbidden"}'
    text = "15 patches of nodes ended as forbidden within a quarter of an hour."
    yield AlertCase("TrimtabNodeLabelsRefused", "40m", {marks: "0+1x60"}, text, {**where, "result": "forbidden"})
    yield AlertCase("TrimtabNodeLabelsRefused", "40m", {marks.replace("forbidden", "done"): "0+1x60"})
    yield AlertCase("TrimtabNodeLabelsRefused", "40m", {marks: "0x9 1x60"})


def api_server() -> Iterator[AlertCase]:
    good, bad, denied = (
        f'{REQUESTS}{{{A}, code="{code}", host="api", method="POST"}}' for code in ("201", "<error>", "403")
    )
    text = "20% of the requests of trimtab to the API server failed."
    yield AlertCase("TrimtabApiServerErrors", "20m", {good: "0+80x30", bad: "0+20x30"}, text, {"job": "trimtab"})
    yield AlertCase("TrimtabApiServerErrors", "20m", {good: "0+99x30", bad: "0+1x30"})
    yield AlertCase("TrimtabApiServerErrors", "20m", {good: "0+99x30"})
    where = {"job": "trimtab", "code": "403", "method": "POST"}
    text = "15 POST requests were answered with 403."
    yield AlertCase("TrimtabPermissionDenied", "40m", {good: "0+9x60", denied: "0+1x60"}, text, where)
    yield AlertCase("TrimtabPermissionDenied", "40m", {good: "0+9x60", denied: "3x60"})

    unknown, conflict = (f'trimtab_bind_failures_total{{{A}, fault="{fault}"}}' for fault in ("unknown", "conflict"))
    where = {"job": "trimtab", "fault": "unknown"}
    text = "6 binds per minute end as: unknown."
    yield AlertCase("TrimtabBindFailures", "20m", {unknown: "0+6x30"}, text, where)
    yield AlertCase("TrimtabBindFailures", "20m", {unknown: "0x5 1x30"})
    yield AlertCase("TrimtabBindFailures", "20m", {conflict: "0+6x30", unknown: "0x30"})

    refused = f"trimtab_binds_refused_in_a_row{{{A}}}"
    text = "a: the last 7 binds were refused, and none has succeeded since."
    where = {"job": "trimtab", "instance": "a"}
    yield AlertCase("TrimtabBindsRefused", "8m", {refused: "0x3 7x9"}, text, where)
    yield AlertCase("TrimtabBindsRefused", "8m", {refused: "0x3 7x1 0x9"})
    yield AlertCase("TrimtabBindsRefused", "8m", {refused: "4x20"})


def watches() -> Iterator[AlertCase]:
    silence = f'trimtab_watch_silence_seconds{{{A}, kind="pods"}}'
    where = {"job": "trimtab", "instance": "a", "kind": "pods"}
    text = "a received nothing about pods for 10m 0s."
    yield AlertCase("TrimtabWatchSilent", "10m", {silence: "0+60x20"}, text, where)
    yield AlertCase("TrimtabWatchSilent", "10m", {silence: "45x20"})
    stalls, malformed = (f'{INCIDENTS}{{{A}, kind="pods", incident="{what}"}}' for what in ("stalls", "malformed"))
    text = "The watch of pods in a stalled 4 times."
    yield AlertCase("TrimtabWatchStalled", "60m", {stalls: "0x9 1x9 2x9 3x9 4x29"}, text, where)
    yield AlertCase("TrimtabWatchStalled", "60m", {stalls: "0x29 1x40"})
    missing, leftover = (f'{INCIDENTS}{{{A}, kind="pods", incident="{each}"}}' for each in ("missing", "leftover"))
    text = "3 objects of the kind pods were missing, old or deleted long ago in a, and were repaired."
    lost = {missing: "0x29 1x40", leftover: "0x39 2x30"}
    yield AlertCase("TrimtabWatchLosesEvents", "60m", lost, text, where)
    yield AlertCase("TrimtabWatchLosesEvents", "60m", {missing: "1x70", stalls: "0x29 5x40"})
    text = "2 objects of the kind pods could not be decoded within an hour."
    yield AlertCase(
        "TrimtabObjectsUndecodable", "60m", {malformed: "0x29 2x40"}, text, {"job": "trimtab", "kind": "pods"}
    )
    yield AlertCase("TrimtabObjectsUndecodable", "60m", {stalls: "0x29 2x40", malformed: "0x70"})

    dropped, written = (f'trimtab_events_total{{{A}, outcome="{what}"}}' for what in ("dropped", "written"))
    where = {"job": "trimtab", "outcome": "dropped"}
    text = "30 Events per minute are dropped."
    yield AlertCase("TrimtabEventsDropped", "20m", {dropped: "0+30x30"}, text, where)
    yield AlertCase("TrimtabEventsDropped", "20m", {written: "0+30x30", dropped: "0x5 9x30"})

    conditions = f"trimtab_conditions_failed_total{{{A}}}"
    text = "15 patches of pod status failed within a quarter of an hour."
    yield AlertCase("TrimtabPodStatusNotWritten", "40m", {conditions: "0+1x60"}, text, {"job": "trimtab"})
    yield AlertCase("TrimtabPodStatusNotWritten", "40m", {conditions: "0x9 1x60"})


def moves() -> Iterator[AlertCase]:
    evictions = f'trimtab_evictions_total{{{MOVER}, strategy="HotSpot"}}'
    yield AlertCase("TrimtabEvictionRateHigh", "20m", {evictions: "0+6x30"}, "6 pods are evicted per minute.")
    yield AlertCase("TrimtabEvictionRateHigh", "20m", {evictions: "0+4x30"})
    yield AlertCase("TrimtabEvictionRateHigh", "20m", {evictions: "0+20x4 80x30"})

    where = {"job": "trimtab-rescheduler"}
    left, of_node = (f'trimtab_move_budget_left{{{MOVER}, scope="{scope}"}}' for scope in ("cluster", "node"))
    text = "trimtab-rescheduler has no moves left in its budget for the cluster."
    yield AlertCase("TrimtabMoveBudgetSpent", "20m", {left: "0x30"}, text, where)
    yield AlertCase("TrimtabMoveBudgetSpent", "20m", {left: "0x9 1x30"})
    yield AlertCase("TrimtabMoveBudgetSpent", "20m", {left: "9x30", of_node: "0x30"})

    failed, done, refused = (
        f'trimtab_moves_total{{{MOVER}, strategy="HotSpot", state="{state}", reason="{reason}"}}'
        for state, reason in (("failed", "not ready"), ("done", ""), ("refused", "other"))
    )
    text = "4 moves of trimtab-rescheduler failed within an hour, more than succeeded."
    yield AlertCase("TrimtabMovesFailing", "30m", {failed: "0x9 3x60", refused: "0x9 1x60"}, text, where)
    yield AlertCase("TrimtabMovesFailing", "30m", {failed: "0x9 4x60", done: "0x9 1x60"}, text, where)
    yield AlertCase("TrimtabMovesFailing", "30m", {failed: "0x9 4x60", done: "0x9 9x60"})
    yield AlertCase("TrimtabMovesFailing", "30m", {failed: "0x9 1x60"})

    charged = f'trimtab_moves_total{{{MOVER}, strategy="HotSpot", state="charged", reason=""}}'
    auto = f'trimtab_rescheduling_mode{{{MOVER}, mode="auto"}}'
    budgets, window = (
        f'trimtab_move_refusals_total{{{MOVER}, guard="{guard}"}}' for guard in ("disruption budget", "window")
    )
    text = "trimtab-rescheduler refused 360 moves within six hours, and made none."
    yield AlertCase("TrimtabNothingMoved", "8h", {budgets: "0+1x600", auto: "1x600"}, text, where)
    yield AlertCase("TrimtabNothingMoved", "8h", {budgets: "0+1x600", auto: "1x600", charged: "0x300 1x300"})
    yield AlertCase("TrimtabNothingMoved", "8h", {budgets: "0+1x600", auto: "0x600"})
    yield AlertCase("TrimtabNothingMoved", "8h", {window: "0+1x600", auto: "1x600"})
    yield AlertCase("TrimtabNothingMoved", "3h", {budgets: "0+1x600", auto: "1x600"})


def rescheduler() -> Iterator[AlertCase]:
    up = f'up{{{MOVER}, namespace="trimtab"}}'
    text = "All targets of the job trimtab-rescheduler are down."
    where = {"job": "trimtab-rescheduler"}
    yield AlertCase("TrimtabReschedulerDown", "11m", {up: "0x12"}, text, {**where, "namespace": "trimtab"})
    yield AlertCase("TrimtabReschedulerDown", "11m", {up: "1x12"})
    yield AlertCase("TrimtabReschedulerDown", "11m", {f"up{{{A}}}": "0x12"})

    one, other = (f'trimtab_strategy_paused{{{MOVER}, strategy="{name}"}}' for name in ("HotSpot", "Consolidate"))
    text = "HotSpot of trimtab-rescheduler suggests no moves until its pause ends."
    yield AlertCase("TrimtabStrategyPaused", "5m", {one: "1x9", other: "0x9"}, text, {**where, "strategy": "HotSpot"})
    yield AlertCase("TrimtabStrategyPaused", "5m", {one: "0x9", other: "0x9"})

    paused = f"trimtab_moves_paused{{{MOVER}}}"
    text = "trimtab-rescheduler moves nothing until it is resumed."
    yield AlertCase("TrimtabMovesPaused", "7h", {paused: "1x500"}, text, where)
    yield AlertCase("TrimtabMovesPaused", "7h", {paused: "1x60 0x60 1x400"})

    ledger = f"trimtab_ledger_unreadable{{{MOVER}}}"
    text = "trimtab-rescheduler has had no ledger for five minutes."
    yield AlertCase("TrimtabLedgerUnreadable", "8m", {ledger: "0x1 1x20"}, text, where)
    yield AlertCase("TrimtabLedgerUnreadable", "8m", {ledger: "1x3 0x20"})

    hot = f"trimtab_nodes_without_relief{{{MOVER}}}"
    text = "2 nodes stay hot, and trimtab-rescheduler can move none of their pods."
    yield AlertCase("TrimtabCapacityNeeded", "20m", {hot: "0x5 2x60"}, text, where)
    yield AlertCase("TrimtabCapacityNeeded", "20m", {hot: "2x12 0x60"})
    yield AlertCase("TrimtabCapacityNeeded", "20m", {hot: "0x60"})

    leaving, placed = (
        f'trimtab_oldest_move_age_seconds{{{MOVER}, state="{state}"}}' for state in ("leaving", "placed")
    )
    text = "A move has been leaving, its oldest 40m 0s old."
    yield AlertCase("TrimtabSurgeNotTakenBack", "40m", {leaving: "0+60x60"}, text, {**where, "state": "leaving"})
    yield AlertCase("TrimtabSurgeNotTakenBack", "20m", {leaving: "0+60x60"})
    yield AlertCase("TrimtabSurgeNotTakenBack", "40m", {placed: "0+60x60"})


PARTS = (availability, leadership, scheduling, bugs, load, moves, rescheduler, labels, api_server, watches)
CASES = tuple(case for part in PARTS for case in part())
