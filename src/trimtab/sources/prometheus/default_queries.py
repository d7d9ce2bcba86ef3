"""Decides what Prometheus is asked without anybody writing a query: the usual metrics of the usual exporters.

Which exporter runs is found out by asking: the ways to ask stand best first. Of aggregations only those labels go that must,
because any of the others may be the one that names the node, and because two series of one node shall be seen to be two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trimtab.config.trimtab.settings import BuiltinMetric
from trimtab.core.model.readings import Subject, Unit
from trimtab.sources.prometheus.queries import MetricQuery, Query

CPU_RULE, MEMORY_RULE = "node_cpu_usage_avg_5m", "node_mem_usage_avg_5m"
PUSH_JOB = "CollectK8sCgroupsMem"
MIB = 1 << 20

_CONTAINERS = 'container!="",container!="POD",pod!=""$and'

# A core that waits for a disk is free for pods; one that the hypervisor has taken away is not.
_IDLE = 'avg without (cpu) (sum without (mode) (rate(node_cpu_seconds_total{mode=~"idle|iowait"$and}[$window])))'
# All modes of one core: how much of the span there are samples of. Without it a node that has just appeared looks busy.
# No core has more than all of the time: where it seems so, counters went backwards, and there is no telling.
_COVERED = 'sum without (cpu, mode) (rate(node_cpu_seconds_total{cpu=~"0|cpu0"$and}[$window]))'
# Rates are estimates, so an idle node may seem a little more than idle; far more than idle is no measurement.
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
    """A recording rule of ours (deploy/prometheus-rules.yaml), in percent."""
    value, time = f"{rule}{{$only}}", f"timestamp({rule}{{$only}})"
    return Query(resource, value, time, unit=Unit.FRACTION, window=300.0, scale=0.01)


def _raw_recording_rule(rule: str) -> Query:
    """The same under its own name, for plugins that were made for it."""
    return replace(_recording_rule(rule, rule), unit=Unit.RAW, scale=1.0)


def _pod_query(resource: str, per_container: str, measured: str, scale: float = 1.0) -> Query:
    """Containers that were restarted leave their last series behind for a while: the larger one of a name counts.

    Of a rate that is half of the truth at worst, in the midst of the window. A sum would be right after a restart; but nested
    groups and the kubelet's own page repeat containers, and the pod may be another one of the same name, that came anew.
    The newest time counts, because containers that have ended are among them.
    """
    value = f"sum by (namespace, pod) (max by (namespace, pod, container) ({per_container}))"
    return Query(resource, value, f"max by (namespace, pod) (timestamp({measured}))", Subject.PODS, scale=scale)


# A container that began within the window is shown by that share of what it uses, and so it is in its node's rate. The core
# knows when pods started and adds what lacks (load/usage_accounting.py): a mean over its own time would count that twice.
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


def _pressure(of: str) -> tuple[Query, ...]:
    """The share of time that something waited for it."""
    return tuple(
        Query(f"psi.{of}", f"rate({metric}[$window])", f"timestamp({metric})", unit=Unit.RAW)
        for metric in (
            f"node_pressure_{of}_waiting_seconds_total{{$only}}",
            f'container_pressure_{of}_waiting_seconds_total{{id="/"$and}}',
        )
    )


# As the kubelet reckons it when it decides to evict: what the machine has, less the working set.
_MEMORY_AVAILABLE = Query(
    "memory.available",
    "max by (instance) (machine_memory_bytes{$only})"
    ' - on (instance) group_right () container_memory_working_set_bytes{id="/"$and}',
    'timestamp(container_memory_working_set_bytes{id="/"$and})',
    unit=Unit.RAW,
)
# Pushed by a script on each node: the Pushgateway shows what it was last told for ever, so the time of the push counts.
_PUSHED_AVAILABLE = Query(
    "memory.available",
    f'k8_node_cgroups_mem_available{{job="{PUSH_JOB}"$and}}',
    f'push_time_seconds{{job="{PUSH_JOB}"$and}}',
    unit=Unit.RAW,
    scale=float(MIB),
)

_EXPORTERS = "let Prometheus scrape node-exporter on every node (or the kubelets)"
_KUBELETS = "let Prometheus scrape /metrics/cadvisor of the kubelets"
DEFAULT_QUERIES: Mapping[BuiltinMetric, tuple[MetricQuery, ...]] = {
    BuiltinMetric.NODE_CPU: (
        MetricQuery(
            "nodeCPU", (_EXPORTER_CPU, _KUBELET_CPU, _CADVISOR_CPU, _recording_rule("cpu", CPU_RULE)), _EXPORTERS
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
            f"psi.{of}", _pressure(of), "let node-exporter run with --collector.pressure on kernels that have it"
        )
        for of in ("cpu", "memory", "io")
    ),
    BuiltinMetric.MEMORY_AVAILABLE: (
        MetricQuery("memoryAvailable", (_MEMORY_AVAILABLE, _PUSHED_AVAILABLE), _KUBELETS),
    ),
}
