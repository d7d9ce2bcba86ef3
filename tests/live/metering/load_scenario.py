"""Decides what stories of measured load share: the cluster at rest, how it is scheduled and what is read of it; the stories
themselves are the tests'.

One control plane, node-0, where no pod may go, and thirty workers, all of one size and under one light load.
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
IDLE_LOAD = 0.2  # of CPU and of memory, on every machine that a story leaves alone
QUICK = {"interval": "1s", "timeout": "1s", "rateWindow": "5s"}


@contextmanager
def measured_cluster(**more: Any) -> Iterator[MeteredCluster]:
    """All of it, with the account's rights; pods that run there are seen on the exporters' pages."""
    with (
        MeteredCluster(controlplane_or_skip(), 1 + len(WORKERS), controllers=WORKLOADS, **more) as scene,
        PodUsageFeed(scene.rig, scene.exporters),
    ):
        trimtab_process.install(scene.rig, *trimtab_process.ROLES, "rbac-metrics.yaml")
        scene.rig.admin.patch("/api/v1/nodes/node-0", {"spec": {"taints": [CONTROL_PLANE]}})
        reset_load(scene)
        yield scene


def reset_load(scene: MeteredCluster) -> None:
    """Every machine is well, and does what it does at rest."""
    for name in scene.exporters.names:
        scene.exporters.heal(name)
        scene.exporters.set(name, cpu=IDLE_LOAD, memory=IDLE_LOAD)


def delete_pods(scene: MeteredCluster) -> None:
    """Nobody's pods are left."""
    admin = scene.rig.admin
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    admin.delete_many(f"{deployments}/{each['metadata']['name']}" for each in admin.list(deployments))
    trimtab_process.wait_for(lambda: _without_pods(scene), 40, "no pods", scene.rig.kwok)


def _without_pods(scene: MeteredCluster) -> bool:
    """Whether there are none; those of a Deployment go when their ReplicaSet has gone, so they are not asked to go twice."""
    left = trimtab_process.pods(scene.rig)
    owned = [each for each in left if each["metadata"].get("ownerReferences")]
    if not owned:
        paths = [f"/api/v1/namespaces/default/pods/{each['metadata']['name']}" for each in left]
        scene.rig.admin.map_concurrently(
            lambda path: scene.rig.admin.raw("DELETE", f"{path}?gracePeriodSeconds=0"), paths
        )
    return not left


def profile(*scores: str, **more: Any) -> Document:
    """A profile in which these policies alone rank nodes."""
    ranked = {"enabled": [{"name": name} for name in scores], "disabled": [{"name": "*"}]}
    return {"schedulerName": trimtab_process.SCHEDULER, "plugins": {"score": ranked, **more}}


def prometheus_config(scene: MeteredCluster, asked: Document | None = None, **more: object) -> Document:
    """Settings of our own that ask the scene's Prometheus every second; `asked` says more of the source."""
    source = {"name": "prom", "prometheus": {"url": scene.prometheus.url, **QUICK, **(asked or {})}}
    return {"sources": [source], "logging": {"format": "json"}, **more}


@contextmanager
def ready_process(process: Process) -> Iterator[Process]:
    """The process, once it is ready and until the block ends; it must end well then."""
    try:
        trimtab_process.wait_for(
            lambda: trimtab_process.is_ready(process) or not process.running(), 40, "ready", process
        )
        assert process.running(), process.log_tail()
        yield process
    finally:
        code = process.terminate()
    assert 0 == code, process.log_tail()


def burst(scene: MeteredCluster, prefix: str, count: int, **asked: Any) -> None:
    """So many pods at once."""
    names = [f"{prefix}-{number}" for number in range(count)]
    scene.rig.admin.create_many(pod(name, scheduler=trimtab_process.SCHEDULER, **asked) for name in names)


def by_node(scene: MeteredCluster, prefix: str = "") -> Counter[str]:
    """How many pods of this prefix stand on each node; those on their way out do not count."""
    standing = [each for each in trimtab_process.pods(scene.rig) if not each["metadata"].get("deletionTimestamp")]
    named = [each for each in standing if each["metadata"]["name"].startswith(prefix)]
    return Counter(each["spec"]["nodeName"] for each in named if each["spec"].get("nodeName"))


def placed(scene: MeteredCluster, prefix: str, count: int, process: Process) -> Counter[str]:
    """Wait until so many pods of this prefix stand, and say where."""
    trimtab_process.wait_for(lambda: count == by_node(scene, prefix).total(), 40, f"{count} pods of {prefix}", process)
    return by_node(scene, prefix)


def get_explain(process: Process, path: str) -> Document:
    """A page of the live process that says why."""
    status, text = trimtab_process.page(process, f"/explain/{path}")
    assert 200 == status, text
    told: Document = json.loads(text)
    return told


def resource_use(process: Process, node: str, resource: str = "memory") -> Document:
    """What the live process knows of one resource of a node."""
    found: Document = next(
        each for each in get_explain(process, f"node/{node}")["uses"] if each["resource"] == resource
    )
    return found


def knows_memory(process: Process, node: str, share: float) -> bool:
    """Whether the live process knows the node to use this share of its memory, with some room for pods."""
    latest = resource_use(process, node)["latest"]
    return latest is not None and -0.01 < latest / GIB / GIBS - share < 0.05


def metric_value(process: Process, series: str) -> float:
    """A series of the process' own page of metrics; 0 where there is none yet."""
    lines = trimtab_process.page(process, "/metrics")[1].splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(series)), 0.0)
