"""The dashboard of internals: where time goes, what the API server answers, and what the process uses."""

from __future__ import annotations

from tools.monitoring.overview import quantiles
from tools.monitoring.panels import (
    BYTES,
    CORES,
    COUNT,
    PER_MINUTE,
    PER_SECOND,
    RATIO,
    SECONDS,
    SELECTED,
    Lines,
    Query,
    Row,
    Stack,
    Table,
)

PLUGINS = "scheduler_plugin_execution_duration_seconds"
POINTS = "scheduler_framework_extension_point_duration_seconds"
REQUESTS = "rest_client_requests_total"
FAILED = 'code=~"5..|429|<error>"'
MEAN_PLUGIN = (
    f"sum by (plugin, extension_point) (rate({PLUGINS}_sum{{{SELECTED}}}[$__rate_interval]))"
    f" / sum by (plugin, extension_point) (rate({PLUGINS}_count{{{SELECTED}}}[$__rate_interval]))"
)


def rate(metric: str, by: str, selector: str = SELECTED) -> str:
    return f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))"


DECISIONS = Row(
    "Decisions",
    (
        Lines(
            title="Duration of a decision",
            description="One pod over all nodes, without its bind.",
            unit=SECONDS,
            queries=quantiles("trimtab_decision_duration_seconds_bucket"),
            width=8,
        ),
        Lines(
            title="Decisions by result",
            description="Before any bind, by profile.",
            unit=PER_SECOND,
            queries=(Query(rate("trimtab_decisions_total", "profile, result"), "{{profile}} {{result}}"),),
            width=8,
        ),
        Lines(
            title="Cached evaluations",
            description="Decisions for a pod whose template had been evaluated before. Pods that all differ lower it.",
            unit=RATIO,
            queries=(
                Query(
                    f'sum(rate(trimtab_template_lookups_total{{{SELECTED}, result="hit"}}[$__rate_interval]))'
                    f" / sum(rate(trimtab_template_lookups_total{{{SELECTED}}}[$__rate_interval]))",
                    "hits",
                ),
            ),
            width=8,
            limits=(0, 1),
        ),
        Lines(
            title="Extension points",
            description="P95 of all plugins at an extension point, in every tenth decision.",
            unit=SECONDS,
            queries=(
                Query(
                    f"histogram_quantile(0.95, {rate(f'{POINTS}_bucket', 'le, extension_point')})",
                    "{{extension_point}}",
                ),
            ),
            width=8,
        ),
        Lines(
            title="Plugin execution time",
            description="Mean time of a plugin over all nodes that it evaluated, in every tenth decision.",
            unit=SECONDS,
            queries=(Query(MEAN_PLUGIN, "{{plugin}} {{extension_point}}"),),
            width=8,
        ),
        Table(
            title="Plugins",
            description="Observed executions, their total and mean time since the start of the processes.",
            unit=SECONDS,
            queries=(
                Query(f"sum by (plugin, extension_point) ({PLUGINS}_count{{{SELECTED}}})", "executions", COUNT),
                Query(f"sum by (plugin, extension_point) ({PLUGINS}_sum{{{SELECTED}}})", "total"),
                Query(
                    f"sum by (plugin, extension_point) ({PLUGINS}_sum{{{SELECTED}}})"
                    f" / sum by (plugin, extension_point) ({PLUGINS}_count{{{SELECTED}}})",
                    "mean",
                ),
            ),
            width=8,
        ),
    ),
)

QUEUE = Row(
    "Queue and cache",
    (
        Lines(
            title="Pods entering queues",
            description="By queue and event. Many ClusterEvents with few binds: pods are tried again in vain.",
            unit=PER_SECOND,
            queries=(Query(rate("scheduler_queue_incoming_pods_total", "queue, event"), "{{queue}} {{event}}"),),
            width=8,
        ),
        Lines(
            title="Attempts until bound",
            description="Mean number of attempts that a bound pod needed.",
            unit=COUNT,
            queries=(
                Query(
                    f"sum(rate(scheduler_pod_scheduling_attempts_sum{{{SELECTED}}}[$__rate_interval]))"
                    f" / sum(rate(scheduler_pod_scheduling_attempts_count{{{SELECTED}}}[$__rate_interval]))",
                    "attempts",
                ),
            ),
            width=8,
        ),
        Lines(
            title="Cache",
            description="Nodes and pods in memory; assumed pods have a node that the API server has not shown yet.",
            unit=COUNT,
            queries=(Query(f"max by (type) (scheduler_cache_size{{{SELECTED}}})", "{{type}}"),),
            width=8,
        ),
    ),
)

API_SERVER = Row(
    "API server",
    (
        Stack(
            title="Requests by status",
            description="All requests, with lists, watches and the lease. <error> had no response.",
            unit=PER_SECOND,
            queries=(Query(rate(REQUESTS, "code"), "{{code}}"),),
            width=8,
        ),
        Lines(
            title="Failed requests",
            description="Share of requests with a 5xx or 429 status, or without a response.",
            unit=RATIO,
            queries=(
                Query(
                    f"(sum(rate({REQUESTS}{{{SELECTED}, {FAILED}}}[$__rate_interval])) or vector(0))"
                    f" / sum(rate({REQUESTS}{{{SELECTED}}}[$__rate_interval]))",
                    "failed",
                ),
            ),
            width=8,
            warn=0.01,
            alarm=0.05,
        ),
        Lines(
            title="Failed binds",
            description="By what went wrong. conflict and unknown are read back: the pod may be bound all the same.",
            unit=PER_MINUTE,
            queries=(Query(f"60 * {rate('trimtab_bind_failures_total', 'fault')}", "{{fault}}"),),
            width=8,
        ),
        Lines(
            title="Silence of informers",
            description="Time since anything was received, by kind. Up to a minute is normal.",
            unit=SECONDS,
            queries=(Query(f"max by (kind) (trimtab_watch_silence_seconds{{{SELECTED}}})", "{{kind}}"),),
            width=8,
            warn=60,
            alarm=120,
        ),
        Lines(
            title="Lists and watches",
            description="New lists and watches, expired versions, silent or stalled watches, setbacks, undecodable objects.",
            unit=PER_MINUTE,
            queries=(Query(f"60 * {rate('trimtab_watch_incidents_total', 'incident')}", "{{incident}}"),),
            width=8,
        ),
        Lines(
            title="Events and conditions",
            description="Kubernetes Events by outcome, and patches of pod status that failed.",
            unit=PER_MINUTE,
            queries=(
                Query(f"60 * {rate('trimtab_events_total', 'outcome')}", "Events {{outcome}}"),
                Query(
                    f"60 * sum(rate(trimtab_conditions_failed_total{{{SELECTED}}}[$__rate_interval]))",
                    "conditions failed",
                ),
            ),
            width=8,
        ),
    ),
)

PROCESS = Row(
    "Process",
    (
        Lines(
            title="CPU",
            description="Cores used by each replica. A leader that schedules at full speed uses one.",
            unit=CORES,
            queries=(
                Query(f"rate(process_cpu_seconds_total{{{SELECTED}}}[$__rate_interval])", "{{job}} {{instance}}"),
            ),
            width=6,
        ),
        Lines(
            title="Memory",
            description="Resident memory of each replica.",
            unit=BYTES,
            queries=(Query(f"process_resident_memory_bytes{{{SELECTED}}}", "{{job}} {{instance}}"),),
            width=6,
        ),
        Lines(
            title="Time since start",
            description="A line that falls to 0 is a restart.",
            unit=SECONDS,
            queries=(Query(f"time() - process_start_time_seconds{{{SELECTED}}}", "{{job}} {{instance}}"),),
            width=6,
        ),
        Lines(
            title="Open files",
            description="File descriptors, most of them connections.",
            unit=COUNT,
            queries=(Query(f"process_open_fds{{{SELECTED}}}", "{{job}} {{instance}}"),),
            width=6,
        ),
        Lines(
            title="Reloads of the configuration",
            description="Per hour, by outcome. refused: the file is invalid, and the previous one stays in force.",
            unit=COUNT,
            queries=(
                Query(f"sum by (outcome) (increase(trimtab_config_reloads_total{{{SELECTED}}}[1h]))", "{{outcome}}"),
            ),
        ),
        Lines(
            title="Bugs",
            description="Per hour: decisions that a plugin broke, violated invariants, pods bound to a node that is gone.",
            unit=COUNT,
            queries=(
                Query(f"sum(increase(trimtab_plugin_faults_total{{{SELECTED}}}[1h]))", "plugin faults"),
                Query(f"sum(increase(trimtab_invariant_violations_total{{{SELECTED}}}[1h]))", "invariant violations"),
                Query(f"sum(increase(trimtab_orphaned_pods_total{{{SELECTED}}}[1h]))", "orphaned pods"),
            ),
        ),
    ),
)

ROWS = (DECISIONS, QUEUE, API_SERVER, PROCESS)
