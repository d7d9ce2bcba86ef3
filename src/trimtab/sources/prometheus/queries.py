"""PromQL queries: their form, the default ones for the usual exporters, and which ones a source runs.

One query returns the values of all nodes (or pods) and, distinguished by a label, the times at which they were measured: the
timestamps that Prometheus returns with values are those of the evaluation. Names of nodes and pods never enter a query. Label
values that do (`matchLabels`) are quoted.

Which exporters a cluster has is found out by running the alternatives of a default query, best first. Its aggregations drop
only the labels they must: any other may be the one that identifies the node, and two series of one node must remain two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.config.trimtab.promql import substitute, validate_query
from trimtab.config.trimtab.settings import BuiltinMetric, PrometheusSettings, QuerySettings, QueryUnit
from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.core.model.resources import MIB
from trimtab.sources.interface import SourceError

SERIES_KIND_LABEL = "trimtab_of"  # tells values from times in one response
TIME, VALUE = "time", "value"
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SELECTOR = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^{}#]*\})?")
_PLACEHOLDER = re.compile(r"\$(only|and|window)")
_UNITS: Mapping[QueryUnit, tuple[Unit, float]] = {
    QueryUnit.NONE: (Unit.RAW, 1.0),
    QueryUnit.PERCENT: (Unit.FRACTION, 0.01),
    QueryUnit.RATIO: (Unit.FRACTION, 1.0),
    QueryUnit.CORES: (Unit.ABSOLUTE, 1000.0),
    QueryUnit.MILLICORES: (Unit.ABSOLUTE, 1.0),
    QueryUnit.BYTES: (Unit.ABSOLUTE, 1.0),
}


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query; `query_name` is the MetricQuery that it is an alternative of.

    In default queries `$only` stands for label matchers, `$and` for the same after other matchers, `$window` for the range of
    rates.
    """

    resource: str
    value_expr: str
    time_expr: str
    subject: Subject = Subject.NODES
    unit: Unit = Unit.ABSOLUTE
    statistic: Statistic = Statistic.LATEST
    window: float = 0.0
    scale: float = 1.0
    query_name: str = ""

    @property
    def promql(self) -> str:
        """Values and times in one query."""
        return f"{_with_kind(self.value_expr, VALUE)} or {_with_kind(self.time_expr, TIME)}"

    def make_reading(
        self,
        names: tuple[str, ...],
        values: tuple[float, ...],
        measured: tuple[float, ...],
        skipped: tuple[tuple[str, int], ...] = (),
    ) -> Reading:
        return Reading(
            source=self.query_name,
            resource=self.resource,
            names=names,
            values=values,
            measured=measured,
            subject=self.subject,
            unit=self.unit,
            statistic=self.statistic,
            window=self.window,
            skipped=skipped,
        )


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """One metric of the source, with alternative queries for it, best first; an `optional` one may return nothing."""

    name: str
    alternatives: tuple[Query, ...]
    remedy: str
    optional: bool = False

    @property
    def subject(self) -> Subject:
        return self.alternatives[0].subject


def _with_kind(expression: str, kind: str) -> str:
    """On lines of its own, so that a comment at the end of a user's query ends with its line."""
    return f'label_replace(\n{expression}\n, "{SERIES_KIND_LABEL}", "{kind}", "", "")'


def quote(text: str) -> str:
    """A PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def label_matchers(match_labels: Mapping[str, str]) -> str:
    """The matchers that every selector gets; SourceError for an invalid label name."""
    for label in match_labels:
        if not _LABEL_NAME.fullmatch(label):
            raise SourceError(f"{label[:60]!r} is not a valid label name", "use letters, digits and _")
    return ",".join(f"{label}={quote(value)}" for label, value in match_labels.items())


def render(query: Query, name: str, window: float, matchers: str) -> Query:
    """A default query with its placeholders replaced."""
    fill = {"only": matchers, "and": f",{matchers}" if matchers else "", "window": promql_duration(window)}
    value, time = (_PLACEHOLDER.sub(lambda match: fill[match[1]], text) for text in (query.value_expr, query.time_expr))
    window = window if "$window" in query.value_expr else query.window
    return replace(query, value_expr=value, time_expr=time, window=window, query_name=name)


def promql_duration(seconds: float) -> str:
    return f"{max(round(seconds * 1000), 1)}ms" if seconds % 1 else f"{seconds:.0f}s"


CPU_RULE, MEMORY_RULE = "node_cpu_usage_avg_5m", "node_mem_usage_avg_5m"

_CONTAINERS = 'container!="",container!="POD",pod!=""$and'

# A core that waits for a disk is free for pods; one that the hypervisor has taken away is not.
_IDLE = 'avg without (cpu) (sum without (mode) (rate(node_cpu_seconds_total{mode=~"idle|iowait"$and}[$window])))'
# All modes of one core: how much of the window has samples. Without it a node that has just appeared looks busy. No core has
# more than all of the time: if it seems so, counters went backwards and the rate is meaningless.
_COVERED = 'sum without (cpu, mode) (rate(node_cpu_seconds_total{cpu=~"0|cpu0"$and}[$window]))'
# Rates are estimates, so an idle node may seem slightly more than idle; much more than idle is not a valid measurement.
_EXPORTER_CPU = Query(
    "cpu",
    f"clamp_min(1 - {_IDLE} / ({_COVERED} < 1.2) > -0.05, 0)",
    'min without (cpu, mode) (timestamp(node_cpu_seconds_total{mode="idle"$and}))',
    unit=Unit.FRACTION,
)
_KUBELET_CPU = Query(
    "cpu",
    "rate(node_cpu_usage_seconds_total{$only}[$window])",
    "timestamp(node_cpu_usage_seconds_total{$only})",
    scale=1000.0,
)
_CADVISOR_CPU = Query(
    "cpu",
    'sum without (cpu) (rate(container_cpu_usage_seconds_total{id="/"$and}[$window]))',
    'min without (cpu) (timestamp(container_cpu_usage_seconds_total{id="/"$and}))',
    scale=1000.0,
)
_EXPORTER_MEMORY = Query(
    "memory",
    "node_memory_MemTotal_bytes{$only} - node_memory_MemAvailable_bytes{$only}",
    "timestamp(node_memory_MemAvailable_bytes{$only})",
)
_KUBELET_MEMORY = Query(
    "memory", "node_memory_working_set_bytes{$only}", "timestamp(node_memory_working_set_bytes{$only})"
)
_CADVISOR_MEMORY = Query(
    "memory",
    'container_memory_working_set_bytes{id="/"$and}',
    'timestamp(container_memory_working_set_bytes{id="/"$and})',
)


def _recording_rule(resource: str, rule: str) -> Query:
    """A rule of deploy/prometheus-rules.yaml, in percent."""
    value, time = f"{rule}{{$only}}", f"timestamp({rule}{{$only}})"
    return Query(resource, value, time, unit=Unit.FRACTION, window=300.0, scale=0.01)


def _raw_recording_rule(rule: str) -> Query:
    """The same under its own name, for plugins that expect it."""
    return replace(_recording_rule(rule, rule), unit=Unit.RAW, scale=1.0)


def _pod_query(resource: str, per_container: str, sampled: str, scale: float = 1.0) -> Query:
    """The sum over a pod's containers, taking the maximum of series with the same container name.

    A restarted container leaves its last series behind for a while. The maximum of two rates is at worst half of the true
    value, in the middle of the window. A sum would be right after a restart, but nested cgroups and the kubelet's own page
    repeat containers, and the pod may be a new one of the same name. The newest timestamp counts, because ended
    containers are among them.
    """
    value = f"sum by (namespace, pod) (max by (namespace, pod, container) ({per_container}))"
    return Query(resource, value, f"max by (namespace, pod) (timestamp({sampled}))", Subject.PODS, scale=scale)


# A container that started within the window shows that fraction of its usage, here and in its node's rate. The core knows
# when pods started and adds the rest (core/load/usage_accounting.py): a mean since the start would count that twice.
_POD_CPU = _pod_query(
    "cpu",
    f"rate(container_cpu_usage_seconds_total{{{_CONTAINERS}}}[$window])",
    f"container_cpu_usage_seconds_total{{{_CONTAINERS}}}",
    1000.0,
)
_POD_MEMORY = _pod_query(
    "memory",
    f"container_memory_working_set_bytes{{{_CONTAINERS}}}",
    f"container_memory_working_set_bytes{{{_CONTAINERS}}}",
)
_KUBELET_POD_CPU = Query(
    "cpu",
    'max by (namespace, pod) (rate(pod_cpu_usage_seconds_total{pod!=""$and}[$window]))',
    'max by (namespace, pod) (timestamp(pod_cpu_usage_seconds_total{pod!=""$and}))',
    Subject.PODS,
    scale=1000.0,
)
_KUBELET_POD_MEMORY = Query(
    "memory",
    'max by (namespace, pod) (pod_memory_working_set_bytes{pod!=""$and})',
    'max by (namespace, pod) (timestamp(pod_memory_working_set_bytes{pod!=""$and}))',
    Subject.PODS,
)


def _pressure(resource: str) -> tuple[Query, ...]:
    """Pressure stall information: the fraction of time that some task waited for the resource."""
    return tuple(
        Query(f"psi.{resource}", f"rate({metric}[$window])", f"timestamp({metric})", unit=Unit.RAW)
        for metric in (
            f"node_pressure_{resource}_waiting_seconds_total{{$only}}",
            f'container_pressure_{resource}_waiting_seconds_total{{id="/"$and}}',
        )
    )


def _measured_at(selector: str) -> str:
    """When the series of a selector were measured, best answer first.

    A Pushgateway and node-exporter's textfile collector expose the last value for ever, so the time of the scrape says
    nothing: what counts is a series of the same name with the suffix `_timestamp_seconds`, or the time of the push.
    """
    name, brace, matchers = selector.partition("{")
    written = f"{name}_timestamp_seconds{brace}{matchers}"
    group = "job, instance, exported_job, exported_instance"  # what identifies a push, with and without honor_labels
    pushed = f"max by ({group}) (push_time_seconds) * on ({group}) group_right () ({selector} ^ 0)"
    return f"{written} or {pushed} or timestamp({selector})"


# The kubelet's own signal for eviction: the machine's memory less the working set.
_MEMORY_AVAILABLE = Query(
    "memory.available",
    "max by (instance) (machine_memory_bytes{$only})"
    ' - on (instance) group_right () container_memory_working_set_bytes{id="/"$and}',
    'timestamp(container_memory_working_set_bytes{id="/"$and})',
    unit=Unit.RAW,
)
_SCRIPT_AVAILABLE = "k8_node_cgroups_mem_available{$only}"  # pushed by a script on each node, or in a textfile
_MEASURED_AVAILABLE = Query(
    "memory.available", _SCRIPT_AVAILABLE, _measured_at(_SCRIPT_AVAILABLE), unit=Unit.RAW, scale=float(MIB)
)

_EXPORTERS = "let Prometheus scrape node-exporter on every node (or the kubelets)"
_KUBELETS = "let Prometheus scrape /metrics/cadvisor of the kubelets"
DEFAULT_QUERIES: Mapping[BuiltinMetric, tuple[MetricQuery, ...]] = {
    BuiltinMetric.NODE_CPU: (
        MetricQuery(
            "nodeCPU",
            (_EXPORTER_CPU, _KUBELET_CPU, _CADVISOR_CPU, _recording_rule("cpu", CPU_RULE)),
            _EXPORTERS,
        ),
        MetricQuery(CPU_RULE, (_raw_recording_rule(CPU_RULE),), "", optional=True),
    ),
    BuiltinMetric.NODE_MEMORY: (
        MetricQuery(
            "nodeMemory",
            (_EXPORTER_MEMORY, _KUBELET_MEMORY, _CADVISOR_MEMORY, _recording_rule("memory", MEMORY_RULE)),
            _EXPORTERS,
        ),
        MetricQuery(MEMORY_RULE, (_raw_recording_rule(MEMORY_RULE),), "", optional=True),
    ),
    BuiltinMetric.POD_CPU: (MetricQuery("podCPU", (_POD_CPU, _KUBELET_POD_CPU), _KUBELETS),),
    BuiltinMetric.POD_MEMORY: (MetricQuery("podMemory", (_POD_MEMORY, _KUBELET_POD_MEMORY), _KUBELETS),),
    BuiltinMetric.PSI: tuple(
        MetricQuery(
            f"psi.{resource}",
            _pressure(resource),
            "run node-exporter with --collector.pressure, on kernels that support it",
        )
        for resource in ("cpu", "memory", "io")
    ),
    BuiltinMetric.MEMORY_AVAILABLE: (
        MetricQuery("memoryAvailable", (_MEMORY_AVAILABLE, _MEASURED_AVAILABLE), _KUBELETS),
    ),
}


def plan_queries(settings: PrometheusSettings, window: float | None = None) -> tuple[MetricQuery, ...]:
    """All queries of the source; a user's query replaces the default one of its name.

    window: the range of rates, if not `rateWindow`.
    """
    matchers = label_matchers(dict(settings.match_labels))
    window = settings.rate_window if window is None else window
    own = tuple(_user_query(each, settings, window) for each in settings.queries)
    replaced = {_measures(query) for query in own}
    defaults = tuple(
        _render_default(query, settings.name, window, matchers)
        for metric in settings.metrics
        for query in DEFAULT_QUERIES[metric]
        if _measures(query) not in replaced
    )
    return defaults + own


def _measures(query: MetricQuery) -> tuple[str, Subject, Statistic]:
    first = query.alternatives[0]
    return first.resource, first.subject, first.statistic


def _render_default(query: MetricQuery, source: str, window: float, matchers: str) -> MetricQuery:
    name = f"{source}/{query.name}"
    alternatives = tuple(render(each, name, window, matchers) for each in query.alternatives)
    return replace(query, name=name, alternatives=alternatives)


def _user_query(own: QuerySettings, settings: PrometheusSettings, window: float) -> MetricQuery:
    if error := validate_query(own.query):
        raise SourceError(f"query {own.name!r} of source {settings.name!r} {error}")
    unit, scale = _UNITS[own.unit]
    expression = substitute(own.query, {"window": own.window or window, "interval": settings.interval})
    name = f"{settings.name}/{own.name}.{own.of}.{own.statistic}"
    # For a plain selector this is the time of its samples; for anything computed, the time of the evaluation.
    plain = _SELECTOR.fullmatch(expression.strip())
    time = _measured_at(plain[0]) if plain else f"timestamp(\n{expression}\n)"
    query = Query(own.name, expression, time, own.of, unit, own.statistic, own.window, scale, name)
    return MetricQuery(name, (query,), "correct the query, or let Prometheus scrape what it selects")
