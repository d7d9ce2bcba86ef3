"""`trimtab plan` on a live cluster with a real Prometheus: it finds the hot node, moves nothing, and only gets and lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.reader_account import AGGREGATION, install_reader, requests_of, run_command
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.rig import WORKLOADS

pytestmark = pytest.mark.live
HOT = "node-1"
APPS = 4  # Deployments of one pod


def app(name: str) -> Document:
    """A Deployment whose pod first runs on the node that becomes hot, and may run on any."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    preferred = {"key": "kubernetes.io/hostname", "operator": "In", "values": [HOT]}
    term = {"weight": 100, "preference": {"matchExpressions": [preferred]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    template = {"schedulerName": trimtab_process.SCHEDULER, "containers": [container], "affinity": affinity}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": template},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Three measured nodes; the pods of all apps run on one of them, placed by Trimtab, which then ends."""
    asked = MeteredCluster(controlplane_or_skip(), 3, controllers=(*WORKLOADS, AGGREGATION))
    with asked as running, PodUsageFeed(running.rig, running.exporters):
        trimtab_process.install(running.rig)
        for name in running.exporters.names:
            running.exporters.set(name, cpu=0.1, memory=0.1)
        with stage.ready_process(trimtab_process.start(running.rig)) as trimtab:
            running.rig.admin.create_many(app(f"app-{number}") for number in range(APPS))
            trimtab_process.wait_for(lambda: APPS == stage.by_node(running)[HOT], 60, "pods on one node", trimtab)
        running.prometheus.wait_for(
            'sum by (pod) (rate(container_cpu_usage_seconds_total{pod=~"app.*"}[5s]))',
            lambda up: len(up) == APPS,
            "pod",
        )
        yield running


def plan(cluster: MeteredCluster, output: Path, *queries: Document, **more: object) -> tuple[int, Document, str]:
    """Exit code, the document, and what else was printed, under the account of a reader."""
    soon = {"minPodAge": "0s", "eagerness": "eager", "allowLastReplica": True, "settleTime": "0s"}
    document = stage.prometheus_config(cluster, {"queries": [*queries]}, rescheduling={**soon, **more})
    config = trimtab_process.write_config(cluster.rig, "plan", document)
    reader = install_reader(cluster.rig)
    trimtab_process.wait_for(lambda: may_list(cluster), 40, "the view role has rules")
    arguments = ("plan", "--config", str(config), "--kubeconfig", str(reader), "--json", "-o", str(output))
    done = run_command(cluster.rig, *arguments)
    assert done.returncode in (0, 1, 2), done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def may_list(cluster: MeteredCluster) -> bool:
    return bool(cluster.rig.admin.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view").get("rules"))


def uids(cluster: MeteredCluster) -> dict[str, str]:
    """The nodes of all pods, by UID."""
    return {each["metadata"]["uid"]: each["spec"]["nodeName"] for each in trimtab_process.pods(cluster.rig)}


SESSIONS = {
    "name": "sessions",
    "of": "pods",
    "query": 'sum by (namespace, pod) (container_memory_working_set_bytes{container="main"}) / 2^29',
}
SEATS = {"name": "seats", "query": "count by (instance) (node_memory_MemTotal_bytes) * 4"}


def test_a_limit_of_a_metric_of_pods(cluster: MeteredCluster, tmp_path: Path) -> None:
    """Four pods with a session each are all that a node has seats for. Where that has a limit one of them would go; CPU
    and memory are no reason to move anything. A query without a label of pods is named in a note, and nothing is planned."""
    file, limit = tmp_path / "plan.json", {"sessions": {"limit": 80, "capacity": {"metric": "seats"}}}
    assert 0 == plan(cluster, file, SESSIONS, SEATS)[0]
    code, found, _ = plan(cluster, file, SESSIONS, SEATS, limits=limit)
    assert (2, {HOT}) == (code, {each["source"] for each in found["moves"]})
    assert {"sessions at 100%, above 80%"} == {each["reason"] for each in found["moves"]}
    (row,) = (each for each in found["hottest"] if each["resource"] == "sessions")
    assert (HOT, 1, 0) == (row["before"]["node"], row["overBefore"], row["overAfter"])
    nameless = {**SESSIONS, "query": "sum by (instance) (container_memory_working_set_bytes)"}
    code, _, notes = plan(cluster, file, nameless, SEATS, limits=limit)
    assert 1 == code and "query prom/sessions.pods.latest failed: none of the sessions series can be used" in notes


def test_a_hot_node(cluster: MeteredCluster, tmp_path: Path) -> None:
    """Calm nodes need no moves. Of a hot one a pod would go to another; the plan names this cluster and this pod, every pod
    is where it was, and the reader has sent nothing but gets and lists."""
    before, file = uids(cluster), tmp_path / "plan.json"
    assert (0, []) == (plan(cluster, file)[0], json.loads(file.read_text())["moves"])
    cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
    trimtab_process.wait_for(lambda: 2 == plan(cluster, file)[0], 90, "a plan with moves")
    found = json.loads(file.read_text())
    space = cluster.rig.admin.get("/api/v1/namespaces/kube-system")
    assert space["metadata"]["uid"] == found["metadata"]["cluster"]
    assert {HOT} == {each["source"] for each in found["moves"]}
    assert {each["uid"] for each in found["moves"]} <= {*before}
    assert before == uids(cluster)
    assert {"get", "list"} == {each["verb"] for each in requests_of(cluster.rig)}
