"""The dashboard to open first: whether Trimtab runs and schedules, how fast, and why pods wait."""

from __future__ import annotations

from tools.monitoring.alert import NOT_STANDBY
from tools.monitoring.panels import (
    BLUE,
    COUNT,
    GREEN,
    PER_MINUTE,
    PER_SECOND,
    RATIO,
    RED,
    SECONDS,
    SELECTED,
    Heatmap,
    Lines,
    Query,
    Row,
    Stack,
    Stat,
    Timeline,
)

ATTEMPTS = "scheduler_schedule_attempts_total"
ATTEMPT_SECONDS = "scheduler_scheduling_attempt_duration_seconds_bucket"
WAIT_SECONDS = "scheduler_pod_scheduling_sli_duration_seconds_bucket"
QUANTILES = {"P50": 0.5, "P95": 0.95, "P99": 0.99}


def quantiles(buckets: str, selector: str = SELECTED) -> tuple[Query, ...]:
    """Three quantiles over all replicas and label values."""
    rates = f"sum by (le) (rate({buckets}{{{selector}}}[$__rate_interval]))"
    return tuple(Query(f"histogram_quantile({quantile}, {rates})", name) for name, quantile in QUANTILES.items())


def success_ratio(window: str) -> str:
    """Scheduled attempts among all of them: a ratio of sums."""
    scheduled = f'sum(rate({ATTEMPTS}{{{SELECTED}, result="scheduled"}}[{window}]))'
    return f"{scheduled} / sum(rate({ATTEMPTS}{{{SELECTED}}}[{window}]))"


TRUSTED = f'sum(trimtab_node_samples{{{SELECTED}, state=~"fresh|aging"}}) / sum(trimtab_node_samples{{{SELECTED}}})'

STATUS = Row(
    "Status",
    (
        Stat(
            title="Replicas up",
            description="Replicas that answer Prometheus. Below two, a failure of one stops scheduling for a while.",
            unit=COUNT,
            queries=(Query('sum(up{job=~"$job"})'),),
            width=3,
            height=4,
            warn=2,
            alarm=1,
        ),
        Stat(
            title="Leaders",
            description="Replicas that hold the lease: one for each job. No data means that leader election is off.",
            unit=COUNT,
            queries=(Query(f"sum by (job) (leader_election_master_status{{{SELECTED}}})", "{{job}}"),),
            width=3,
            height=4,
            warn=1,
            alarm=0.5,
        ),
        Stat(
            title="Success rate",
            description="Attempts of the last quarter of an hour that bound their pod. Unschedulable pods lower it, too.",
            unit=RATIO,
            queries=(Query(success_ratio("15m")),),
            width=3,
            height=4,
            warn=0.9,
            alarm=0.5,
        ),
        Stat(
            title="Pods waiting",
            description="Pending pods that may be tried: in the active and backoff queues, or unschedulable at the moment.",
            unit=COUNT,
            queries=(
                Query(f'sum(max by (queue) (scheduler_pending_pods{{{SELECTED}, queue!="gated"}} {NOT_STANDBY}))'),
            ),
            width=3,
            height=4,
            warn=50,
            alarm=500,
        ),
        Stat(
            title="Oldest pending pod",
            description="Time since its creation, without gated pods. No data means that no pod is pending.",
            unit=SECONDS,
            queries=(
                Query(f'max(trimtab_oldest_pending_pod_age_seconds{{{SELECTED}, queue!="gated"}} {NOT_STANDBY})'),
            ),
            width=3,
            height=4,
            warn=300,
            alarm=1800,
        ),
        Stat(
            title="Trusted data",
            description="Share of nodes and resources with a trusted measurement. The others are scored by requests.",
            unit=RATIO,
            queries=(Query(TRUSTED),),
            width=3,
            height=4,
            warn=0.95,
            alarm=0.8,
        ),
        Stat(
            title="Configuration",
            description="Whether the configuration file on disk is in force in every replica.",
            unit=COUNT,
            queries=(Query(f"min(trimtab_config_last_reload_successful{{{SELECTED}}})"),),
            width=3,
            height=4,
            warn=1,
            alarm=0.5,
            words={"1": ("in force", GREEN), "0": ("rejected", RED)},
        ),
        Stat(
            title="Firing alerts",
            description="Alerts of deploy/monitoring/alerts.yaml; each has a page in docs/runbooks.",
            unit=COUNT,
            queries=(Query('count(ALERTS{alertname=~"Trimtab.+", alertstate="firing"}) or vector(0)'),),
            width=3,
            height=4,
            warn=1,
            alarm=5,
        ),
        Timeline(
            title="Leader",
            description="Which replica holds the lease. A change is normal after a restart, an upgrade or a lost connection.",
            unit=COUNT,
            queries=(Query(f"leader_election_master_status{{{SELECTED}}}", "{{job}} {{instance}}"),),
            height=6,
            words={"1": ("leader", GREEN), "0": ("standby", BLUE)},
        ),
        Lines(
            title="Versions",
            description="Replicas by version. Two versions for long mean that an upgrade is not complete.",
            unit=COUNT,
            queries=(Query(f"count by (job, version) (trimtab_build_info{{{SELECTED}}})", "{{job}} {{version}}"),),
            height=6,
        ),
    ),
)

SCHEDULING = Row(
    "Scheduling",
    (
        Lines(
            title="Scheduling latency",
            description="From the decision until the API server has accepted the bind, over all replicas.",
            unit=SECONDS,
            queries=quantiles(ATTEMPT_SECONDS, f'{SELECTED}, result="scheduled"'),
            warn=1,
            alarm=5,
        ),
        Heatmap(
            title="Distribution of scheduling latency",
            description="The same as a distribution: a second band above the first is a slow API server or webhook.",
            unit=SECONDS,
            queries=(
                Query(
                    f'sum by (le) (increase({ATTEMPT_SECONDS}{{{SELECTED}, result="scheduled"}}[$__rate_interval]))',
                    "{{le}}",
                ),
            ),
        ),
        Lines(
            title="Success rate",
            description="Scheduled attempts as a share of all attempts.",
            unit=RATIO,
            queries=(Query(success_ratio("$__rate_interval"), "scheduled"),),
            width=8,
            limits=(0, 1),
        ),
        Stack(
            title="Attempts by result",
            description="scheduled: bound. unschedulable: no node fits. error: a plugin raised, or the bind failed.",
            unit=PER_SECOND,
            queries=(Query(f"sum by (result) (rate({ATTEMPTS}{{{SELECTED}}}[$__rate_interval]))", "{{result}}"),),
            width=8,
        ),
        Lines(
            title="Time until bound",
            description="From a pod's first attempt until it is bound, with all attempts between: what users wait for.",
            unit=SECONDS,
            queries=quantiles(WAIT_SECONDS),
            width=8,
        ),
    ),
)

WAITING = Row(
    "Why pods wait",
    (
        Stack(
            title="Pending pods by queue",
            description="active: to be tried now. backoff: after a failure. unschedulable: no node fits. gated: held back.",
            unit=COUNT,
            queries=(Query(f"max by (queue) (scheduler_pending_pods{{{SELECTED}}} {NOT_STANDBY})", "{{queue}}"),),
        ),
        Lines(
            title="Oldest pending pod by queue",
            description="Time since the creation of the oldest pod in each queue.",
            unit=SECONDS,
            queries=(
                Query(
                    f"max by (queue) (trimtab_oldest_pending_pod_age_seconds{{{SELECTED}}} {NOT_STANDBY})", "{{queue}}"
                ),
            ),
        ),
        Lines(
            title="Decisions by reason",
            description="Attempts without a node by the plugins that rejected nodes; one attempt may count for several.",
            unit=PER_SECOND,
            queries=(
                Query(
                    f"sum by (plugin) (rate(trimtab_unschedulable_attempts_total{{{SELECTED}}}[$__rate_interval]))",
                    "{{plugin}}",
                ),
            ),
        ),
        Lines(
            title="Unschedulable pods by plugin",
            description="Pods that wait now, by the plugins that rejected nodes for them. `trimtab explain pod` says more.",
            unit=COUNT,
            queries=(Query(f"max by (plugin) (scheduler_unschedulable_pods{{{SELECTED}}})", "{{plugin}}"),),
        ),
    ),
)

PREDICTIONS = Row(
    "Preemption and predictions",
    (
        Lines(
            title="Preemption",
            description="Attempts to make room by deleting pods of lower priority, and the pods that were deleted.",
            unit=PER_MINUTE,
            queries=(
                Query(
                    f"60 * sum(rate(scheduler_preemption_attempts_total{{{SELECTED}}}[$__rate_interval]))", "attempts"
                ),
                Query(f"60 * sum(rate(scheduler_preemption_victims_sum{{{SELECTED}}}[$__rate_interval]))", "victims"),
            ),
        ),
        Lines(
            title="Refused or warned of by prediction",
            description="Nodes that were chosen and then refused, or bound to with a warning: the pod would overfill them.",
            unit=PER_MINUTE,
            queries=(
                Query(
                    "60 * sum by (plugin, extension_point, result) "
                    f"(rate(trimtab_stage_results_total{{{SELECTED}}}[$__rate_interval]))",
                    "{{plugin}} {{extension_point}} {{result}}",
                ),
            ),
        ),
    ),
)

ROWS = (STATUS, SCHEDULING, WAITING, PREDICTIONS)
