"""The alerts, by group.

Sums and quantiles are over all replicas (`sum by (le)`, ratios of sums), and the labels that a description uses are kept.

Series of ours need no selector. Metrics that other programs serve, too (`up`, `scheduler_*`), are selected by `job`, which is
the name of the Service: `trimtab`, `trimtab-labeller`, `trimtab-rescheduler`, or these behind the name of a Helm release.
"""

from __future__ import annotations

from tools.monitoring.alert import ANY, CRITICAL, INFO, LABELLER, NOT_STANDBY, READY, SCHEDULER, WARNING, Alert
from tools.monitoring.rescheduling_alerts import RESCHEDULING

AVAILABILITY = (
    Alert(
        name="TrimtabDown",
        severity=CRITICAL,
        signal=f"up{{{SCHEDULER}}}",
        condition="absent({} == 1)",
        since="2m",
        summary="No scheduler can be scraped: pods may not be scheduled.",
        description="No target of the job trimtab is up, or there is none at all.",
    ),
    Alert(
        name="TrimtabLabellerDown",
        severity=WARNING,
        signal=f"max by (job, namespace) (up{{{LABELLER}}})",
        condition="{} == 0",
        since="10m",
        summary="No labeller can be scraped: pressure labels are not updated.",
        description="All targets of the job {{ $labels.job }} are down.",
    ),
    Alert(
        name="TrimtabReplicaDown",
        severity=WARNING,
        signal=f"up{{{ANY}}}",
        condition=f"({{}} == 0) unless on (namespace, pod) ({READY})",
        since="10m",
        summary="A replica cannot be scraped.",
        description="{{ $labels.instance }} of the job {{ $labels.job }} does not answer scrapes, and its pod is not ready.",
    ),
    Alert(
        name="TrimtabScrapeRefused",
        severity=WARNING,
        signal=f"up{{{ANY}}}",
        condition=f"({{}} == 0) and on (namespace, pod) ({READY})",
        since="10m",
        summary="A replica is ready, but its metrics cannot be read.",
        description="The pod {{ $labels.pod }} is ready, but scrapes of {{ $labels.instance }} fail.",
    ),
    Alert(
        name="TrimtabNoLeader",
        severity=CRITICAL,
        signal=f"sum by (job, namespace, name) (leader_election_master_status{{{ANY}}})",
        condition="{} == 0",
        since="2m",
        summary="No replica is the leader: nothing is decided.",
        description="No replica of {{ $labels.job }} holds the lease {{ $labels.name }}.",
    ),
    Alert(
        name="TrimtabTwoLeaders",
        severity=CRITICAL,
        signal=f"sum by (job, namespace, name) (leader_election_master_status{{{ANY}}})",
        condition="{} > 1",
        since="2m",
        summary="Several replicas say that they are the leader.",
        description="{{ $value }} replicas of {{ $labels.job }} say that they hold the lease {{ $labels.name }}.",
    ),
    Alert(
        name="TrimtabRestarts",
        severity=WARNING,
        signal=f"changes(process_start_time_seconds{{{ANY}}}[1h])",
        condition="{} > 3",
        since="0m",
        summary="A replica restarts again and again.",
        description="{{ $labels.instance }} of the job {{ $labels.job }} started {{ $value }} times within an hour.",
    ),
    Alert(
        name="TrimtabVersionSkew",
        severity=INFO,
        signal="count by (job, namespace) (count by (job, namespace, version) (trimtab_build_info))",
        condition="{} > 1",
        since="1h",
        summary="Replicas run different versions.",
        description="Replicas of {{ $labels.job }} run {{ $value }} different versions: an upgrade is not complete.",
    ),
    Alert(
        name="TrimtabConfigReloadFailed",
        severity=WARNING,
        signal="min by (job, instance) (trimtab_config_last_reload_successful)",
        condition="{} == 0",
        since="10m",
        summary="The changed configuration is invalid; the previous one is in force.",
        description="{{ $labels.instance }} of the job {{ $labels.job }} rejected its changed configuration file.",
    ),
)

SCHEDULING = (
    Alert(
        name="TrimtabNotScheduling",
        severity=CRITICAL,
        signal=f'max(scheduler_pending_pods{{{SCHEDULER}, queue="active"}} {NOT_STANDBY})',
        condition=f"({{}} > 0) and (sum(rate(scheduler_schedule_attempts_total{{{SCHEDULER}}}[5m])) or vector(0)) == 0",
        since="5m",
        summary="Pods wait in the active queue, and none is tried.",
        description="{{ $value }} pods are ready to be scheduled, and there was no attempt for five minutes.",
    ),
    Alert(
        name="TrimtabSchedulingLatencyHigh",
        severity=WARNING,
        signal=(
            "histogram_quantile(0.95, sum by (le) "
            f'(rate(scheduler_scheduling_attempt_duration_seconds_bucket{{{SCHEDULER}, result="scheduled"}}[5m])))'
        ),
        condition="{} > 1",
        since="5m",
        summary="Scheduling a pod takes long.",
        description="One in twenty pods needs more than {{ $value | humanizeDuration }} from decision to bind.",
    ),
    Alert(
        name="TrimtabSchedulingErrorRateHigh",
        severity=WARNING,
        signal=(
            f'(sum(rate(scheduler_schedule_attempts_total{{{SCHEDULER}, result="error"}}[5m])) or vector(0))'
            f" / sum(rate(scheduler_schedule_attempts_total{{{SCHEDULER}}}[5m]))"
        ),
        condition="{} > 0.1",
        since="3m",
        summary="Many attempts to schedule a pod end in an error.",
        description="{{ $value | humanizePercentage }} of attempts failed within five minutes.",
    ),
    Alert(
        name="TrimtabPodsPendingLong",
        severity=WARNING,
        signal=f'max by (queue) (trimtab_oldest_pending_pod_age_seconds{{queue!="gated"}} {NOT_STANDBY})',
        condition="{} > 1800",
        since="5m",
        summary="A pod has been pending for more than half an hour.",
        description="The oldest pod of the {{ $labels.queue }} queue was created {{ $value | humanizeDuration }} ago.",
    ),
    Alert(
        name="TrimtabQueueGrowing",
        severity=WARNING,
        signal=f'sum(max by (queue) (scheduler_pending_pods{{{SCHEDULER}, queue=~"active|backoff"}} {NOT_STANDBY}))',
        condition="({} > 100) and (deriv({}[15m:1m]) > 0)",
        since="15m",
        summary="More pods arrive than are scheduled.",
        description="{{ $value }} pods wait to be tried, and their number grows.",
    ),
    Alert(
        name="TrimtabPluginFaults",
        severity=WARNING,
        signal="sum by (job) (increase(trimtab_plugin_faults_total[10m]))",
        condition="{} > 0",
        since="0m",
        summary="A plugin raises errors, and its pods are not scheduled.",
        description="{{ $value | humanize }} decisions were abandoned within ten minutes because a plugin raised.",
    ),
    Alert(
        name="TrimtabInvariantViolated",
        severity=CRITICAL,
        signal="sum by (job, instance) (increase(trimtab_invariant_violations_total[1h]))",
        condition="{} > 0",
        since="0m",
        summary="The state in memory is inconsistent: this is a bug.",
        description="{{ $labels.instance }} found {{ $value | humanize }} inconsistencies in its state within an hour.",
    ),
)

LOAD = (
    Alert(
        name="TrimtabNodeLoadImbalance",
        severity=INFO,
        signal=(
            'max by (resource) (trimtab_cluster_usage_percent{statistic="max"})'
            ' - min by (resource) (trimtab_cluster_usage_percent{statistic="min"})'
        ),
        condition="{} > 30",
        since="30m",
        summary="Load is spread unevenly over nodes.",
        description=(
            "The hottest and the coldest node differ by {{ $value | humanize }} percent points of {{ $labels.resource }}."
        ),
    ),
    Alert(
        name="TrimtabNodeMemoryHigh",
        severity=WARNING,
        signal='max(trimtab_cluster_usage_percent{resource="memory", statistic="max"})',
        condition="{} > 90",
        since="10m",
        summary="A node is nearly out of memory.",
        description="The fullest node uses {{ $value | humanize }} percent of its allocatable memory.",
    ),
    Alert(
        name="TrimtabLoadDataUntrusted",
        severity=WARNING,
        signal=(
            'sum by (job, instance, resource) (trimtab_node_samples{state=~"stale|missing"})'
            " / sum by (job, instance, resource) (trimtab_node_samples)"
        ),
        condition="{} > 0.2",
        since="10m",
        summary="Many nodes have no trusted measurements and are scored by requests.",
        description=(
            "{{ $value | humanizePercentage }} of the nodes have no trusted sample of {{ $labels.resource }}"
            " in {{ $labels.instance }}."
        ),
    ),
    Alert(
        name="TrimtabSourceDown",
        severity=WARNING,
        signal="max by (job, source) (trimtab_source_failing)",
        condition="{} == 1",
        since="5m",
        summary="A source of measurements does not answer.",
        description="The query {{ $labels.source }} fails; after some minutes nodes are scored by requests.",
    ),
    Alert(
        name="TrimtabSourceFlapping",
        severity=INFO,
        signal="sum by (job, source) (increase(trimtab_source_failures_total[1h]))",
        condition="{} > 3",
        since="0m",
        summary="A source of measurements comes and goes.",
        description="The query {{ $labels.source }} began to fail {{ $value | humanize }} times within an hour.",
    ),
    Alert(
        name="TrimtabSamplesRejected",
        severity=INFO,
        signal=(
            "sum by (job, reason) "
            '(rate(trimtab_samples_refused_total{reason=~"unmatched|ambiguous|stale|implausible|jump"}[10m]))'
        ),
        condition="{} > 0",
        since="1h",
        summary="Measurements are rejected all the time.",
        description="Samples are rejected as {{ $labels.reason }}; their nodes are scored by requests.",
    ),
    Alert(
        name="TrimtabAllNodesUnderPressure",
        severity=WARNING,
        signal="max by (job) (increase(trimtab_all_marked_total[30m]))",
        condition="{} > 0",
        since="0m",
        summary="Every eligible node is under pressure, so labels no longer tell them apart.",
        description="{{ $labels.job }} found all eligible nodes above a threshold within half an hour.",
    ),
    Alert(
        name="TrimtabNodeLabelsRefused",
        severity=WARNING,
        signal='sum by (job, result) (increase(trimtab_node_marks_total{result!="done"}[15m]))',
        condition="{} > 0",
        since="15m",
        summary="Pressure labels cannot be written to nodes.",
        description="{{ $value | humanize }} patches of nodes ended as {{ $labels.result }} within a quarter of an hour.",
    ),
)

API_SERVER = (
    Alert(
        name="TrimtabApiServerErrors",
        severity=WARNING,
        signal=(
            f'(sum by (job) (rate(rest_client_requests_total{{{ANY}, code=~"5..|429|<error>"}}[5m]))'
            f" or 0 * sum by (job) (rate(rest_client_requests_total{{{ANY}}}[5m])))"
            f" / sum by (job) (rate(rest_client_requests_total{{{ANY}}}[5m]))"
        ),
        condition="{} > 0.05",
        since="10m",
        summary="The API server refuses or loses requests.",
        description="{{ $value | humanizePercentage }} of the requests of {{ $labels.job }} to the API server failed.",
    ),
    Alert(
        name="TrimtabPermissionDenied",
        severity=WARNING,
        signal=f'sum by (job, code, method) (increase(rest_client_requests_total{{{ANY}, code=~"401|403"}}[15m]))',
        condition="{} > 0",
        since="15m",
        summary="The API server denies requests: a role or a token is missing.",
        description="{{ $value | humanize }} {{ $labels.method }} requests were answered with {{ $labels.code }}.",
    ),
    Alert(
        name="TrimtabBindFailures",
        severity=WARNING,
        signal='60 * sum by (job, fault) (rate(trimtab_bind_failures_total{fault=~"refused|not sent|unknown"}[5m]))',
        condition="{} > 0",
        since="10m",
        summary="Binds fail all the time.",
        description="{{ $value | humanize }} binds per minute end as: {{ $labels.fault }}.",
    ),
    Alert(
        name="TrimtabBindsRefused",
        severity=CRITICAL,
        signal="max by (job, instance) (trimtab_binds_refused_in_a_row)",
        condition="{} >= 5",
        since="1m",
        summary="No bind succeeds: pods are decided on, but none is started.",
        description="{{ $labels.instance }}: the last {{ $value }} binds were refused, and none has succeeded since.",
    ),
    Alert(
        name="TrimtabWatchSilent",
        severity=WARNING,
        signal="max by (job, instance, kind) (trimtab_watch_silence_seconds)",
        condition="{} > 120",
        since="3m",
        summary="An informer receives nothing: decisions are made with old data.",
        description="{{ $labels.instance }} received nothing about {{ $labels.kind }} for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        name="TrimtabWatchStalled",
        severity=WARNING,
        signal='sum by (job, instance, kind) (increase(trimtab_watch_incidents_total{incident="stalls"}[1h]))',
        condition="{} > 2",
        since="0m",
        summary="Watches stall: what happens in the cluster is known up to a minute late.",
        description="The watch of {{ $labels.kind }} in {{ $labels.instance }} stalled {{ $value | humanize }} times.",
    ),
    Alert(
        name="TrimtabWatchLosesEvents",
        severity=WARNING,
        signal=(
            "sum by (job, instance, kind) "
            '(increase(trimtab_watch_incidents_total{incident=~"missing|outdated|leftover"}[1h]))'
        ),
        condition="{} > 0",
        since="0m",
        summary="Events do not arrive: the process knew less than the API server.",
        description=(
            "{{ $value | humanize }} objects of the kind {{ $labels.kind }} were missing, old or deleted long ago in "
            "{{ $labels.instance }}, and were repaired."
        ),
    ),
    Alert(
        name="TrimtabObjectsUndecodable",
        severity=WARNING,
        signal='sum by (job, kind) (increase(trimtab_watch_incidents_total{incident="malformed"}[1h]))',
        condition="{} > 0",
        since="0m",
        summary="An object of the API server could not be decoded and is ignored.",
        description="{{ $value | humanize }} objects of the kind {{ $labels.kind }} could not be decoded within an hour.",
    ),
    Alert(
        name="TrimtabEventsDropped",
        severity=INFO,
        signal='60 * sum by (job, outcome) (rate(trimtab_events_total{outcome!="written"}[5m]))',
        condition="{} > 0",
        since="10m",
        summary="Kubernetes Events are missing: users do not see why their pods are pending.",
        description="{{ $value | humanize }} Events per minute are {{ $labels.outcome }}.",
    ),
    Alert(
        name="TrimtabPodStatusNotWritten",
        severity=WARNING,
        signal="sum by (job) (increase(trimtab_conditions_failed_total[15m]))",
        condition="{} > 0",
        since="15m",
        summary="The PodScheduled condition cannot be written: the cluster autoscaler does not see pending pods.",
        description="{{ $value | humanize }} patches of pod status failed within a quarter of an hour.",
    ),
)

# By runbook page, which is also the name of the group.
GROUPS = {
    "availability": AVAILABILITY,
    "scheduling": SCHEDULING,
    "load": LOAD,
    "rescheduling": RESCHEDULING,
    "api-server": API_SERVER,
}
ALERTS = tuple(alert for group in GROUPS.values() for alert in group)
