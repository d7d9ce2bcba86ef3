"""`trimtab snapshot` of a real cluster with a real Prometheus: no planted secret, the same model, usage and history."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import CORES, GIBS, MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.reader_account import AGGREGATION, install_reader, requests_of, run_command
from tests.live.requires_controlplane import controlplane_or_skip
from tests.wire.planted_secrets import LABEL_SECRET, SECRET
from tests.wire.test_reduction import essence, reader_of
from tools.controlplane.client import Document
from tools.controlplane.objects import pod
from tools.controlplane.rig import WORKLOADS
from trimtab.sim.snapshot_file import ClusterSnapshot, read_snapshot

pytestmark = pytest.mark.live

GIB = 1 << 30
PODS = 6
PATHS = {"nodes": "/api/v1/nodes", "pods": "/api/v1/pods", "replicasets": "/apis/apps/v1/replicasets"}


def secretive(name: str, node: str) -> Document:
    """A pod with a secret in each place that the API server accepts."""
    document = pod(name, cpu="1", memory="1Gi", nodeName=node, labels={"app": "web", "note": LABEL_SECRET})
    document["metadata"]["annotations"] = {"token": SECRET, "kubectl.kubernetes.io/last-applied-configuration": SECRET}
    container = document["spec"]["containers"][0]
    container |= {
        "command": ["sh", "-c", SECRET],
        "args": [f"--password={SECRET}"],
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "livenessProbe": {"exec": {"command": [SECRET]}},
        "volumeMounts": [{"name": "s", "mountPath": f"/{SECRET}"}],
    }
    document["spec"] |= {
        "hostname": SECRET,
        "imagePullSecrets": [{"name": SECRET}],
        "volumes": [
            {"name": "s", "secret": {"secretName": SECRET}},
            {"name": "c", "csi": {"driver": "x.example", "volumeAttributes": {"k": SECRET}}},
            {"name": "f", "azureFile": {"secretName": SECRET, "shareName": "files"}},
        ],
    }
    return document


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Three measured nodes, pods that use half of what they request, and a Deployment; node-1 is busier than the others."""
    asked = MeteredCluster(controlplane_or_skip(), 3, controllers=(*WORKLOADS, AGGREGATION))
    with asked as running, PodUsageFeed(running.rig, running.exporters):
        for name in running.exporters.names:
            running.exporters.set(name, cpu=0.25, memory=0.25)
        running.exporters.set("node-1", cpu=0.5, memory=0.5)
        running.rig.admin.create_many(secretive(f"web-{index}", f"node-{index % 3}") for index in range(PODS))
        secrets = {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"k": SECRET}}
        running.rig.admin.create({"apiVersion": "v1", "kind": "Secret", **secrets})
        trimtab_process.wait_for(lambda: _running(running) == PODS, 40, "pods run", running.rig.kwok)
        running.prometheus.wait_for(
            'sum by (pod) (rate(container_cpu_usage_seconds_total{pod=~"web.*"}[5s]))',
            lambda up: len(up) == PODS,
            "pod",
        )
        yield running


def _running(cluster: MeteredCluster) -> int:
    return sum(each["status"].get("phase") == "Running" for each in trimtab_process.pods(cluster.rig))


def take(cluster: MeteredCluster, name: str, *flags: str, kubeconfig: Path | None = None) -> tuple[Path, str]:
    """Take a snapshot under the reader's account; the file and what was printed."""
    config = trimtab_process.write_config(cluster.rig, "snapshot", stage.prometheus_config(cluster))
    reader = kubeconfig or install_reader(cluster.rig)
    file = cluster.rig.workspace / name
    arguments = ("snapshot", "-o", str(file), "--config", str(config), "--kubeconfig", str(reader), *flags)
    trimtab_process.wait_for(lambda: _may_list(cluster), 40, "the view role has rules")
    done = run_command(cluster.rig, *arguments)
    assert 0 == done.returncode, done.stderr
    return file, done.stdout + done.stderr


def _may_list(cluster: MeteredCluster) -> bool:
    role = cluster.rig.admin.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
    return bool(role.get("rules"))


def listed(cluster: MeteredCluster, kind: str) -> dict[str, Any]:
    """The model of what the API server holds now, by UID; heartbeats change the version of a node."""
    documents = cluster.rig.admin.list(PATHS[kind])
    found = [reader_of(kind).read(json.dumps(each).encode()) for each in documents]
    return {each.uid: replace(essence(each), version=0) for each in found}


def test_secrets_stay_and_the_model_is_the_same(cluster: MeteredCluster) -> None:
    """Not a byte of what was planted is in the file, which only its owner may read; nodes and pods are those of the API
    server; and the account has sent nothing but gets and lists."""
    file, printed = take(cluster, "plain.json.gz", "--history", "2m", "--step", "5s")
    raw, found = gzip.decompress(file.read_bytes()), read_snapshot(file)
    assert SECRET.encode() not in raw and LABEL_SECRET.encode() in raw
    assert 0o600 == file.stat().st_mode & 0o777
    assert listed(cluster, "nodes") == {each.uid: replace(each, version=0) for each in found.nodes}
    assert listed(cluster, "pods") == {each.uid: replace(essence(each), version=0) for each in found.pods}
    assert f"3 nodes, {PODS} pods" in printed and found.metadata.kubernetes.startswith("v1.")
    assert {"get", "list"} == {each["verb"] for each in requests_of(cluster.rig)}
    check_usage(found)
    check_history(found)


def check_usage(found: ClusterSnapshot) -> None:
    """What the machines were set to use, and half of what the pods request."""
    assert found.usage is not None and found.metadata.interval == 1.0
    busy, calm = found.usage.nodes["node-1"], found.usage.nodes["node-0"]
    assert busy.memory is not None and calm.memory is not None and calm.cpu is not None and busy.cpu is not None
    assert 0.5 * GIBS * GIB <= busy.memory and calm.memory < 0.4 * GIBS * GIB
    assert 0.4 * CORES * 1000 < busy.cpu and calm.cpu < 0.45 * CORES * 1000
    pods = {key: each.memory for key, each in found.usage.pods.items() if key.startswith("default/web-")}
    assert dict.fromkeys(pods, 0.5 * GIB) == pods and PODS == len(pods)


def check_history(found: ClusterSnapshot) -> None:
    """Prometheus is younger than what was asked for: the series begin where it does."""
    history = found.history
    assert history is not None and 5.0 == history.step and 0 < history.steps <= 25
    assert found.taken - 125 < history.start < history.start + history.step * history.steps < found.taken + 10
    known = [each for each in history.nodes["node-1"].memory if each is not None]
    assert known and 0.5 * GIBS * GIB <= known[-1]
    assert "default/web-0" in history.pods


def test_hashed_names(cluster: MeteredCluster) -> None:
    """No name of the cluster is left, also in what a label says, and usage belongs to the same pods and nodes."""
    file, _ = take(cluster, "hashed.json.gz", "--hash-names", "--history", "2m", "--step", "5s")
    raw, found = gzip.decompress(file.read_bytes()), read_snapshot(file)
    for name in (SECRET, LABEL_SECRET, "node-1", "web-0", "registry.k8s.io", cluster.exporters.ip("node-1")):
        assert name.encode() not in raw, name
    assert found.metadata.hashed and found.usage is not None
    busiest = max(found.usage.nodes, key=lambda name: found.usage.nodes[name].memory or 0)  # type: ignore[union-attr]
    assert busiest in {each.name for each in found.nodes}
    assert sorted(each.requests.of("cpu") for each in found.pods if each.requests.of("cpu")) == [1000] * PODS


def test_forbidden_kinds(cluster: MeteredCluster) -> None:
    """An account that may not list volumes is told so, with the verb; it may leave them out, and the file says so."""
    rig = cluster.rig
    install_reader(rig)
    rig.admin.call("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/reader-trimtab-reader")
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "trimtab-nodes"}}
    rig.apply([{**role, "rules": [nodes]}])
    reader, file = install_reader(rig, roles=("view", "trimtab-nodes")), rig.workspace / "less.json.gz"
    done = run_command(rig, "snapshot", "-o", str(file), "--kubeconfig", str(reader))
    assert 1 == done.returncode and not file.exists()
    assert "may not list persistentvolumes, storageclasses.storage.k8s.io," in done.stderr
    assert "grant it the verb list on these resources, or leave them out with --skip-forbidden" in done.stderr
    file, printed = take(cluster, "less.json.gz", "--skip-forbidden", kubeconfig=reader)
    assert "persistentvolumes" in read_snapshot(file).metadata.missing and "without csidrivers" in printed
