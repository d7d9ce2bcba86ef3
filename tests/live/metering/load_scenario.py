"""Shared setup of live tests of measured load: the idle cluster, its configuration, and reading results.

One control plane, node-0, which takes no pods, and thirty workers of the same size with the same light load.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.live import trimtab_process
from tests.live.metering.machine import GIB
from tests.live.metering.metered_cluster import GIBS, MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import pod
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS

CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
WORKERS = tuple(f"node-{number}" for number in range(1, 31))
IDLE_LOAD = 0.2  # of CPU and memory, on every machine unless a test changes it
QUICK = {"interval": "1s", "timeout": "1s", "rateWindow": "5s"}


@contextmanager
def measured_cluster(**more: Any) -> Iterator[MeteredCluster]:
    """The whole cluster, with Trimtab's roles applied; running pods appear in the exporters' pages."""
    with (
        MeteredCluster(controlplane_or_skip(), 1 + len(WORKERS), controllers=WORKLOADS, **more) as cluster,
        PodUsageFeed(cluster.rig, cluster.exporters),
    ):
        trimtab_process.install(cluster.rig, *trimtab_process.ROLES, "rbac-metrics.yaml")
        cluster.rig.admin.patch("/api/v1/nodes/node-0", {"spec": {"taints": [CONTROL_PLANE]}})
        reset_load(cluster)
        yield cluster


def reset_load(cluster: MeteredCluster) -> None:
    """Clear all faults and set the idle load on every machine."""
    for name in cluster.exporters.names:
        cluster.exporters.heal(name)
        cluster.exporters.set(name, cpu=IDLE_LOAD, memory=IDLE_LOAD)


def delete_pods(cluster: MeteredCluster) -> None:
    """Delete all pods, and wait until they are gone."""
    admin = cluster.rig.admin
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    admin.delete_many(f"{deployments}/{each['metadata']['name']}" for each in admin.list(deployments))
    trimtab_process.wait_for(lambda: _without_pods(cluster), 40, "no pods", cluster.rig.kwok)


def _without_pods(cluster: MeteredCluster) -> bool:
    """Whether no pods are left; deletes those without an owner, as the others are deleted with their ReplicaSet."""
    left = trimtab_process.pods(cluster.rig)
    owned = [each for each in left if each["metadata"].get("ownerReferences")]
    if not owned:
        paths = [f"/api/v1/namespaces/default/pods/{each['metadata']['name']}" for each in left]
        cluster.rig.admin.map_concurrently(
            lambda path: cluster.rig.admin.raw("DELETE", f"{path}?gracePeriodSeconds=0"), paths
        )
    return not left


def profile(*scores: str, **more: Any) -> Document:
    """A profile in which only these plugins score nodes."""
    ranked = {"enabled": [{"name": name} for name in scores], "disabled": [{"name": "*"}]}
    return {"schedulerName": trimtab_process.SCHEDULER, "plugins": {"score": ranked, **more}}


def prometheus_config(cluster: MeteredCluster, asked: Document | None = None, **more: object) -> Document:
    """Our document with the cluster's Prometheus polled every second; `asked` are extra fields of the source."""
    source = {"name": "prom", "prometheus": {"url": cluster.prometheus.url, **QUICK, **(asked or {})}}
    return {"sources": [source], "logging": {"format": "json"}, **more}


@contextmanager
def ready_process(process: Process) -> Iterator[Process]:
    """The process once it is ready; at the end of the block it must exit with 0."""
    try:
        trimtab_process.wait_for(
            lambda: trimtab_process.is_ready(process) or not process.running(), 40, "ready", process
        )
        assert process.running(), process.log_tail()
        yield process
    finally:
        code = process.terminate()
    assert 0 == code, process.log_tail()


def burst(cluster: MeteredCluster, prefix: str, count: int, **asked: Any) -> None:
    """Create this many pods at once."""
    names = [f"{prefix}-{number}" for number in range(count)]
    cluster.rig.admin.create_many(pod(name, scheduler=trimtab_process.SCHEDULER, **asked) for name in names)


def by_node(cluster: MeteredCluster, prefix: str = "") -> Counter[str]:
    """The number of pods with this prefix on each node, without terminating ones."""
    standing = [each for each in trimtab_process.pods(cluster.rig) if not each["metadata"].get("deletionTimestamp")]
    named = [each for each in standing if each["metadata"]["name"].startswith(prefix)]
    return Counter(each["spec"]["nodeName"] for each in named if each["spec"].get("nodeName"))


def placed(cluster: MeteredCluster, prefix: str, count: int, process: Process) -> Counter[str]:
    """Wait until this many pods with this prefix are bound, and count them by node."""
    trimtab_process.wait_for(
        lambda: count == by_node(cluster, prefix).total(), 40, f"{count} pods of {prefix}", process
    )
    return by_node(cluster, prefix)


def get_explain(process: Process, path: str) -> Document:
    """An explain page of the running process."""
    status, text = trimtab_process.page(process, f"/explain/{path}")
    assert 200 == status, text
    explanation: Document = json.loads(text)
    return explanation


def resource_use(process: Process, node: str, resource: str = "memory") -> Document:
    """What the running process knows about one resource of a node."""
    found: Document = next(
        each for each in get_explain(process, f"node/{node}")["uses"] if each["resource"] == resource
    )
    return found


def knows_memory(process: Process, node: str, share: float) -> bool:
    """Whether the running process has this memory usage for the node, with some tolerance for pods."""
    latest = resource_use(process, node)["latest"]
    return latest is not None and -0.01 < latest / GIB / GIBS - share < 0.05


def metric_value(process: Process, series: str) -> float:
    """The value of a series of the process' metrics; 0 if there is none yet."""
    lines = trimtab_process.page(process, "/metrics")[1].splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(series)), 0.0)
