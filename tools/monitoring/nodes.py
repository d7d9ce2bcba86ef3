"""The dashboard of nodes: how load is spread, how it compares with requests and forecasts, and whether data are trusted."""

from __future__ import annotations

from collections.abc import Iterator

from tools.monitoring.panels import (
    COUNT,
    GREEN,
    PER_MINUTE,
    PERCENT,
    RATIO,
    RED,
    SELECTED,
    Heatmap,
    Lines,
    Panel,
    Query,
    Row,
    Stack,
    Table,
    Timeline,
)

NODE = f'{SELECTED}, node=~"$node"'
USAGE = {"cpu": "node_cpu_usage_percent", "memory": "node_memory_usage_percent"}
WARM, HOT = 70, 85
OPTIONAL = "Needs metrics.nodeUsage: true in the configuration."


def statistics(resource: str) -> Panel:
    series = f'trimtab_cluster_usage_percent{{{SELECTED}, resource="{resource}"}}'
    return Lines(
        title=f"Node {resource}: mean, least and most",
        description="Measured usage in percent of allocatable, over nodes that are open to all pods.",
        unit=PERCENT,
        queries=(Query(f"avg by (statistic) ({series})", "{{statistic}}"),),
        width=8,
        warn=WARM,
        alarm=HOT,
    )


IMBALANCE = Lines(
    title="Imbalance",
    description="How far the hottest and the coldest node are apart, in percent points.",
    unit=PERCENT,
    queries=(
        Query(
            f'max by (resource) (trimtab_cluster_usage_percent{{{SELECTED}, statistic="max"}})'
            f' - min by (resource) (trimtab_cluster_usage_percent{{{SELECTED}, statistic="min"}})',
            "{{resource}}",
        ),
    ),
    width=8,
    warn=20,
    alarm=30,
)


def distributions(resource: str) -> Iterator[Panel]:
    for basis, meaning in {
        "requested": "what pods request",
        "measured": "what is used",
        "forecast": "the usage that decisions reckon with",
    }.items():
        series = f'trimtab_nodes_by_utilization{{{SELECTED}, basis="{basis}", resource="{resource}"}}'
        yield Heatmap(
            title=f"Nodes by {basis} {resource}",
            description=f"How many nodes have which share of their allocatable {resource}: {meaning}.",
            unit=RATIO,
            queries=(Query(f"avg by (le) ({series})", "{{le}}"),),
            width=6,
        )
    difference = f'trimtab_nodes_by_load_over_requests{{{SELECTED}, resource="{resource}"}}'
    yield Heatmap(
        title=f"Load against requests: {resource}",
        description="Nodes by measured minus requested share. Below 0 they use less than is requested, above 0 more.",
        unit=RATIO,
        queries=(Query(f"avg by (le) ({difference})", "{{le}}"),),
        width=6,
    )


def by_node(resource: str) -> Panel:
    return Lines(
        title=f"Node {resource} usage",
        description=f"Measured usage in percent of allocatable, by node name. {OPTIONAL}",
        unit=PERCENT,
        queries=(Query(f"max by (node) ({USAGE[resource]}{{{NODE}}})", "{{node}}"),),
        width=8,
        warn=WARM,
        alarm=HOT,
    )


PODS_PER_NODE = Lines(
    title="Pods per node",
    description=f"Pods of all schedulers, including those whose bind is under way. {OPTIONAL}",
    unit=COUNT,
    queries=(Query(f"max by (node) (trimtab_node_pods{{{NODE}}})", "{{node}}"),),
    width=8,
)


def columns(resource: str) -> tuple[Query, ...]:
    series = f'{{{NODE}, resource="{resource}"}}'
    return (
        Query(f"max by (node) ({USAGE[resource]}{{{NODE}}})", f"{resource} measured"),
        Query(f"max by (node) (trimtab_node_forecast_percent{series})", f"{resource} forecast"),
        Query(f"max by (node) (trimtab_node_requested_percent{series})", f"{resource} requested"),
    )


def forecast(resource: str) -> Panel:
    series = f'{{{NODE}, resource="{resource}"}}'
    return Lines(
        title=f"Forecast against measured: {resource}",
        description=f"Mean of the selected nodes. A forecast far above the measurement holds pods back. {OPTIONAL}",
        unit=PERCENT,
        queries=(
            Query(f"avg({USAGE[resource]}{{{NODE}}})", "measured"),
            Query(f"avg(trimtab_node_forecast_percent{series})", "forecast"),
            Query(f"avg(trimtab_node_requested_percent{series})", "requested"),
        ),
    )


TRUST = Row(
    "Trust of data",
    (
        Stack(
            title="Nodes by state of their sample: cpu",
            description="fresh counts in full, aging half; a node whose sample is stale or missing is scored by requests.",
            unit=COUNT,
            queries=(Query(f'max by (state) (trimtab_node_samples{{{SELECTED}, resource="cpu"}})', "{{state}}"),),
        ),
        Stack(
            title="Nodes by state of their sample: memory",
            description="fresh counts in full, aging half; a node whose sample is stale or missing is scored by requests.",
            unit=COUNT,
            queries=(Query(f'max by (state) (trimtab_node_samples{{{SELECTED}, resource="memory"}})', "{{state}}"),),
        ),
        Timeline(
            title="Sources",
            description="Queries of each source, and when they failed. The log and `trimtab doctor` say why.",
            unit=COUNT,
            queries=(Query(f"max by (source) (trimtab_source_failing{{{SELECTED}}})", "{{source}}"),),
            width=8,
            alarm=1,
            words={"0": ("answers", GREEN), "1": ("fails", RED)},
        ),
        Lines(
            title="Failures of sources per hour",
            description="How often a query began to fail.",
            unit=COUNT,
            queries=(
                Query(f"sum by (source) (increase(trimtab_source_failures_total{{{SELECTED}}}[1h]))", "{{source}}"),
            ),
            width=8,
        ),
        Lines(
            title="Rejected samples",
            description="By reason, see docs/metrics.md. A rejected sample counts as missing, never as 0.",
            unit=PER_MINUTE,
            queries=(
                Query(
                    f"60 * sum by (reason) (rate(trimtab_samples_refused_total{{{SELECTED}}}[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
            width=8,
        ),
    ),
)

LABELS = Row(
    "Pressure labels",
    (
        Lines(
            title="Labels written",
            description="Patches of pressure labels and taints by result. Only where the labeller runs.",
            unit=PER_MINUTE,
            queries=(
                Query(
                    f"60 * sum by (result) (rate(trimtab_node_marks_total{{{SELECTED}}}[$__rate_interval]))",
                    "{{result}}",
                ),
            ),
        ),
        Lines(
            title="All nodes under pressure",
            description="How often within an hour every eligible node was labelled: labels then no longer tell them apart.",
            unit=COUNT,
            queries=(Query(f"sum by (job) (increase(trimtab_all_marked_total{{{SELECTED}}}[1h]))", "{{job}}"),),
        ),
    ),
)

ROWS = (
    Row("Cluster", (statistics("cpu"), statistics("memory"), IMBALANCE)),
    Row("Load against requests", (*distributions("cpu"), *distributions("memory"))),
    TRUST,
    Row(
        "Nodes",
        (
            by_node("cpu"),
            by_node("memory"),
            PODS_PER_NODE,
            forecast("cpu"),
            forecast("memory"),
            Table(
                title="Nodes",
                description=f"Percent of allocatable, and the number of pods. {OPTIONAL}",
                unit=PERCENT,
                queries=(
                    *columns("cpu"),
                    *columns("memory"),
                    Query(f"max by (node) (trimtab_node_pods{{{NODE}}})", "pods", COUNT),
                ),
                width=24,
                height=10,
                warn=WARM,
                alarm=HOT,
            ),
        ),
    ),
    LABELS,
)
