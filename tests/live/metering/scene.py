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

from tests.live import product
from tests.live.built import built
from tests.live.metering.machine import GIB
from tests.live.metering.metered import GIBS, Metered
from tests.live.metering.tenants import Tenants
from tools.controlplane.client import Document
from tools.controlplane.objects import pod
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS

CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
WORKERS = tuple(f"node-{number}" for number in range(1, 31))
CALM = 0.2  # of CPU and of memory, on every machine that a story leaves alone
QUICK = {"interval": "1s", "timeout": "1s", "rateWindow": "5s"}


@contextmanager
def measured_cluster(**more: Any) -> Iterator[Metered]:
    """All of it, with the account's rights; pods that run there are seen on the exporters' pages."""
    with (
        Metered(built(), 1 + len(WORKERS), controllers=WORKLOADS, **more) as scene,
        Tenants(scene.rig, scene.exporters),
    ):
        product.install(scene.rig, *product.ROLES, "rbac-metrics.yaml")
        scene.rig.admin.patch("/api/v1/nodes/node-0", {"spec": {"taints": [CONTROL_PLANE]}})
        calm(scene)
        yield scene


def calm(scene: Metered) -> None:
    """Every machine is well, and does what it does at rest."""
    for name in scene.exporters.names:
        scene.exporters.heal(name)
        scene.exporters.set(name, cpu=CALM, memory=CALM)


def empty(scene: Metered) -> None:
    """Nobody's pods are left."""
    admin = scene.rig.admin
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    admin.delete_many(f"{deployments}/{each['metadata']['name']}" for each in admin.list(deployments))
    product.wait_for(lambda: _without_pods(scene), 40, "no pods", scene.rig.kwok)


def _without_pods(scene: Metered) -> bool:
    """Whether there are none; those of a Deployment go when their ReplicaSet has gone, so they are not asked to go twice."""
    left = product.pods(scene.rig)
    owned = [each for each in left if each["metadata"].get("ownerReferences")]
    if not owned:
        paths = [f"/api/v1/namespaces/default/pods/{each['metadata']['name']}" for each in left]
        scene.rig.admin.side_by_side(lambda path: scene.rig.admin.raw("DELETE", f"{path}?gracePeriodSeconds=0"), paths)
    return not left


def profile(*scores: str, **more: Any) -> Document:
    """A profile in which these policies alone rank nodes."""
    ranked = {"enabled": [{"name": name} for name in scores], "disabled": [{"name": "*"}]}
    return {"schedulerName": product.SCHEDULER, "plugins": {"score": ranked, **more}}


def asking(scene: Metered, asked: Document | None = None, **more: object) -> Document:
    """Settings of our own that ask the scene's Prometheus every second; `asked` says more of the source."""
    source = {"name": "prom", "prometheus": {"url": scene.prometheus.url, **QUICK, **(asked or {})}}
    return {"sources": [source], "logging": {"format": "json"}, **more}


@contextmanager
def ending_well(process: Process) -> Iterator[Process]:
    """The process, once it is ready and until the block ends; it must end well then."""
    try:
        product.wait_for(lambda: product.is_ready(process) or not process.running(), 40, "ready", process)
        assert process.running(), process.log_tail()
        yield process
    finally:
        code = process.terminate()
    assert 0 == code, process.log_tail()


def burst(scene: Metered, prefix: str, count: int, **asked: Any) -> None:
    """So many pods at once."""
    names = [f"{prefix}-{number}" for number in range(count)]
    scene.rig.admin.create_many(pod(name, scheduler=product.SCHEDULER, **asked) for name in names)


def by_node(scene: Metered, prefix: str = "") -> Counter[str]:
    """How many pods of this prefix stand on each node; those on their way out do not count."""
    standing = [each for each in product.pods(scene.rig) if not each["metadata"].get("deletionTimestamp")]
    named = [each for each in standing if each["metadata"]["name"].startswith(prefix)]
    return Counter(each["spec"]["nodeName"] for each in named if each["spec"].get("nodeName"))


def placed(scene: Metered, prefix: str, count: int, process: Process) -> Counter[str]:
    """Wait until so many pods of this prefix stand, and say where."""
    product.wait_for(lambda: count == by_node(scene, prefix).total(), 40, f"{count} pods of {prefix}", process)
    return by_node(scene, prefix)


def explained(process: Process, path: str) -> Document:
    """A page of the live process that says why."""
    status, text = product.page(process, f"/explain/{path}")
    assert 200 == status, text
    told: Document = json.loads(text)
    return told


def use(process: Process, node: str, resource: str = "memory") -> Document:
    """What the live process knows of one resource of a node."""
    found: Document = next(each for each in explained(process, f"node/{node}")["uses"] if each["resource"] == resource)
    return found


def knows_memory(process: Process, node: str, share: float) -> bool:
    """Whether the live process knows the node to use this share of its memory, with some room for pods."""
    latest = use(process, node)["latest"]
    return latest is not None and -0.01 < latest / GIB / GIBS - share < 0.05


def counted(process: Process, series: str) -> float:
    """A series of the process' own page of metrics; 0 where there is none yet."""
    lines = product.page(process, "/metrics")[1].splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(series)), 0.0)
