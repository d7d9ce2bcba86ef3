"""The remedy ladder on a live cluster with a real Prometheus: a soft taint, a resize in place, an Event that wants capacity.

Moves are switched off, so nothing relieves the hot node but the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.sick_nodes import STRATEGIC
from tests.live.test_moves import HOT, POLICIES, QUICK, ROLE, app
from tests.serve.exposition import Exposition
from tools.controlplane.client import Document
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS

pytestmark = pytest.mark.live
TAINT = {"key": "trimtab.dev/hot", "effect": "PreferNoSchedule"}
USED = 2.0  # times what pods request
RUNGS = {"softTaint": True, "resize": True, "move": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Two measured nodes; a pod that asks to be resized and one that does not run on the hot one."""
    with (
        MeteredCluster(controlplane_or_skip(), 2, controllers=WORKLOADS) as running,
        PodUsageFeed(running.rig, running.exporters, USED),
    ):
        trimtab_process.install(running.rig, *trimtab_process.ROLES, ROLE, POLICIES)
        asks, silent = app("asks"), app("silent")
        asks["spec"]["template"]["metadata"]["annotations"] = {"trimtab.dev/resize": "requests"}
        for each in (asks, silent):
            each["spec"]["template"]["spec"]["nodeName"] = HOT
        running.rig.admin.create_many([asks, silent])
        measured = "sum by (pod) (rate(container_cpu_usage_seconds_total[5s]))"
        running.prometheus.wait_for(measured, lambda up: len(up) >= 2, "pod")
        report_resources(running)
        yield running


def report_resources(cluster: MeteredCluster) -> None:
    """As kubelets do that can resize pods, and kwok does not: without it the API server refuses to resize."""
    for each in trimtab_process.pods(cluster.rig):
        (container,) = each["spec"]["containers"]
        status = {"name": container["name"], "resources": container["resources"]}
        path = f"/api/v1/namespaces/default/pods/{each['metadata']['name']}/status"
        cluster.rig.admin.patch(path, {"status": {"containerStatuses": [status]}}, STRATEGIC)


def write(cluster: MeteredCluster, **remedies: bool) -> Path:
    section = {"mode": "auto", **QUICK, "remedies": remedies}
    return trimtab_process.write_config(
        cluster.rig, "remedies", {**stage.prometheus_config(cluster), "rescheduling": section}
    )


@pytest.fixture
def trimtab(cluster: MeteredCluster) -> Iterator[Process]:
    """A rescheduler with all rungs but moves; both nodes are cool."""
    for name in cluster.exporters.names:
        cluster.exporters.set(name, cpu=0.1, memory=0.1)
    flags = ("--controllers", "rescheduler")
    process = trimtab_process.launch(
        cluster.rig, write(cluster, **RUNGS), "remedies", *flags, account="trimtab-rescheduler"
    )
    with stage.ready_process(process) as running:
        trimtab_process.wait_for(lambda: not taints(cluster), 60, "no taint", running)
        yield running


def taints(cluster: MeteredCluster, node: str = HOT) -> list[Document]:
    found: list[Document] = cluster.rig.admin.get(f"/api/v1/nodes/{node}")["spec"].get("taints", [])
    return found


def request_of(cluster: MeteredCluster, name: str) -> str:
    (found,) = (each for each in trimtab_process.pods(cluster.rig) if each["metadata"]["labels"]["app"] == name)
    request: str = found["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return request


def uses(process: Process, rung: str) -> float:
    page = Exposition(trimtab_process.page(process, "/metrics")[1])
    return page.value("trimtab_remedies_total", rung=rung) or 0.0


def capacity_events(cluster: MeteredCluster) -> list[Document]:
    found = cluster.rig.admin.list("/apis/events.k8s.io/v1/namespaces/default/events")
    return [each for each in found if each["reason"] == "CapacityNeeded"]


def test_each_rung(cluster: MeteredCluster, trimtab: Process) -> None:
    """The hot node is tainted, the pod that asks for it gets the request that it uses, and after three plans without relief
    an Event says that capacity is missing. When the node is cool the taint goes. Each use is counted."""
    cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
    trimtab_process.wait_for(lambda: taints(cluster) == [TAINT], 60, "a taint", trimtab)
    trimtab_process.wait_for(lambda: request_of(cluster, "asks") != "1", 30, "a larger request", trimtab)
    assert 1.5 < millicores(request_of(cluster, "asks")) / 1000 <= USED + 0.5
    assert "1" == request_of(cluster, "silent")
    trimtab_process.wait_for(lambda: capacity_events(cluster), 60, "an Event", trimtab)
    (event,) = capacity_events(cluster)
    assert ("Node", HOT, "Warning") == (event["regarding"]["kind"], event["regarding"]["name"], event["type"])
    assert {"softTaint": 1.0, "resize": 1.0, "capacity": 1.0, "move": 0.0} == {
        rung: uses(trimtab, rung) for rung in ("softTaint", "resize", "capacity", "move")
    }
    cluster.exporters.set(HOT, cpu=0.1, memory=0.1)
    trimtab_process.wait_for(lambda: not taints(cluster), 60, "no taint", trimtab)
    assert [] == taints(cluster, "node-0") and 1.0 == uses(trimtab, "softTaint")


def millicores(quantity: str) -> float:
    return float(quantity[:-1]) if quantity.endswith("m") else 1000 * float(quantity)


def test_a_soft_taint_that_is_switched_off(cluster: MeteredCluster, trimtab: Process) -> None:
    """The file is changed while the node is hot: the taint goes, and does not come back."""
    cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
    trimtab_process.wait_for(lambda: taints(cluster) == [TAINT], 60, "a taint", trimtab)
    write(cluster, move=False)
    trimtab_process.wait_for(lambda: not taints(cluster), 60, "no taint", trimtab)
    assert 1.0 == uses(trimtab, "softTaint")
