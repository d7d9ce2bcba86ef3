"""The rescheduler on a live cluster with a real Prometheus: pods leave a hot node, and nobody misses them.

A scheduler places the pods, and the rescheduler moves them as a process of its own, with the rights of its role file.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.requires_controlplane import controlplane_or_skip
from tests.serve.exposition import Exposition
from tools.controlplane.client import Document
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS

pytestmark = pytest.mark.live
HOT = "node-1"
APPS = 4
ROLE, POLICIES = (f"components/rescheduler/{part}.yaml" for part in ("rescheduler", "policies"))
LEDGER = "/api/v1/namespaces/trimtab/configmaps/trimtab-moves"
QUICK = {"minPodAge": "0s", "eagerness": "eager", "settleTime": "0s", "interval": "10s", "cooldown": "1m"}


def app(name: str, replicas: int = 1) -> Document:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"schedulerName": trimtab_process.SCHEDULER, "containers": [container]}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": template},
    }
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Three measured nodes."""
    asked = MeteredCluster(controlplane_or_skip(), 3, controllers=WORKLOADS)
    with asked as running, PodUsageFeed(running.rig, running.exporters):
        trimtab_process.install(running.rig, *trimtab_process.ROLES, ROLE, POLICIES)
        yield running


@pytest.fixture
def scheduler(cluster: MeteredCluster) -> Iterator[Process]:
    """Trimtab has placed all pods on one node, which is not hot yet; the others were cordoned."""
    for name in cluster.exporters.names:
        cluster.exporters.set(name, cpu=0.1, memory=0.1)
        cordon(cluster, name, name != HOT)
    cluster.rig.admin.raw("DELETE", LEDGER)
    with stage.ready_process(trimtab_process.start(cluster.rig)) as trimtab:
        cluster.rig.admin.create_many(app(f"app-{number}") for number in range(APPS))
        trimtab_process.wait_for(lambda: APPS == stage.by_node(cluster)[HOT], 60, "pods on one node", trimtab)
        measured = 'sum by (pod) (rate(container_cpu_usage_seconds_total{pod=~"app.*"}[5s]))'
        cluster.prometheus.wait_for(measured, lambda up: len(up) == APPS, "pod")
        for name in cluster.exporters.names:
            cordon(cluster, name, False)
        yield trimtab
        stage.delete_pods(cluster)


def cordon(cluster: MeteredCluster, node: str, cordoned: bool) -> None:
    cluster.rig.admin.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned}})


@contextmanager
def rescheduler(cluster: MeteredCluster, name: str = "rescheduler", **settings: Any) -> Iterator[Process]:
    section = {"mode": "auto", **QUICK, **settings}
    own = {**stage.prometheus_config(cluster), "rescheduling": section}
    config = trimtab_process.write_config(cluster.rig, name, own)
    flags = ("--controllers", "rescheduler")
    process = trimtab_process.launch(cluster.rig, config, name, *flags, account="trimtab-rescheduler")
    with stage.ready_process(process) as running:
        yield running


def records(cluster: MeteredCluster) -> list[Document]:
    status, body = cluster.rig.admin.raw("GET", LEDGER)
    if status == 404:
        return []
    found: list[Document] = json.loads(json.loads(body)["data"]["ledger.json"])["records"]
    return found


def ended(cluster: MeteredCluster, state: str = "done") -> list[Document]:
    return [each for each in records(cluster) if each["state"] == state]


class ReadyCount:
    """The fewest ready pods of each app, counted over and over."""

    def __init__(self, cluster: MeteredCluster, apps: int = APPS) -> None:
        self.cluster, self.fewest = cluster, dict[str, int]()
        self._apps = apps
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._count)

    def __enter__(self) -> ReadyCount:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _count(self) -> None:
        while not self._stop.wait(0.05):
            now = {f"app-{number}": 0 for number in range(self._apps)}
            for pod in trimtab_process.pods(self.cluster.rig):
                now[pod["metadata"]["labels"]["app"]] += is_ready(pod)
            for name, count in now.items():
                self.fewest[name] = min(count, self.fewest.get(name, count))


def is_ready(pod: Document) -> bool:
    conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def test_the_replacement_comes_first(cluster: MeteredCluster, scheduler: Process) -> None:
    """A pod leaves the hot node once its replacement is ready on another: its app, which has a single replica, is never
    without a ready pod. Nothing was evicted, and every Deployment has one replica again."""
    with ReadyCount(cluster) as ready, rescheduler(cluster) as trimtab:
        cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
        trimtab_process.wait_for(lambda: ended(cluster), 90, "a move", trimtab)
    (record, *_) = ended(cluster)
    assert (HOT, True) == (record["source"], record["surge"]) and record["node"] != HOT
    assert {f"app-{number}": 1 for number in range(APPS)} == ready.fewest
    deployments = cluster.rig.admin.list("/apis/apps/v1/namespaces/default/deployments")
    assert {1} == {each["spec"]["replicas"] for each in deployments}
    assert not [each for each in cluster.rig.audit_events() if each["objectRef"].get("subresource") == "eviction"]


def test_eviction(cluster: MeteredCluster, scheduler: Process) -> None:
    """If the operator chooses so, the pod is evicted, and its replacement goes to another node."""
    with rescheduler(cluster, method="eviction", allowLastReplica=True) as trimtab:
        cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
        trimtab_process.wait_for(lambda: ended(cluster), 90, "a move", trimtab)
    (record, *_) = ended(cluster)
    assert record["node"] != HOT and "surge" not in record


def test_the_kill_switch(cluster: MeteredCluster, scheduler: Process) -> None:
    """With the annotation on the lease nothing moves, however hot the node; without it pods move again."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases/trimtab-rescheduler"
    with rescheduler(cluster) as trimtab:
        cluster.rig.admin.patch(lease, {"metadata": {"annotations": {"trimtab.dev/paused": "incident 17"}}})
        cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
        time.sleep(25)
        assert not [each for each in records(cluster) if each["state"] not in ("refused", "cancelled")]
        cluster.rig.admin.patch(lease, {"metadata": {"annotations": {"trimtab.dev/paused": None}}})
        trimtab_process.wait_for(lambda: ended(cluster), 90, "a move", trimtab)


def test_pause_resume_and_history(cluster: MeteredCluster, scheduler: Process) -> None:
    """By the commands: paused, several plans move nothing and say why; resumed, a pod moves, and is in the history."""
    kubeconfig = ("--kubeconfig", str(cluster.rig.admin_kubeconfig))
    with rescheduler(cluster) as trimtab:
        said = trimtab_process.trimtab("pause", "--reason", "incident 17", *kubeconfig)
        assert "lease trimtab/trimtab-rescheduler (held by rescheduler_" in said and "paused: incident 17" in said
        cluster.exporters.set(HOT, cpu=0.95, memory=0.3)

        def refused() -> bool:
            page = Exposition(trimtab_process.page(trimtab, "/metrics")[1])
            return (page.value("trimtab_move_refusals_total", guard="stopped") or 0) >= 3

        trimtab_process.wait_for(refused, 90, "refused plans", trimtab)
        assert not ended(cluster)
        assert "they were paused: incident 17" in trimtab_process.trimtab("resume", *kubeconfig)
        trimtab_process.wait_for(lambda: ended(cluster), 90, "a move", trimtab)
    found = json.loads(trimtab_process.trimtab("history", "--json", *kubeconfig))
    (record, *_) = [each for each in found["records"] if each["state"] == "done"]
    assert HOT == record["source"] and record["relief"] > 0 and len(record["promised"]) == 2
    assert found["budgets"][0]["left"] < found["budgets"][0]["moves"]
    assert f"{HOT} → {record['node']}" in trimtab_process.trimtab("history", *kubeconfig)
