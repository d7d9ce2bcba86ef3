"""The chart by Helm itself on a real control plane: install, upgrade from the first version, another namespace, uninstall."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.rendering import CHART, ROOT, parse, run
from tests.live import pod_process, trimtab_process
from tests.live.pod_process import PodProcess
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
)
FIRST = ROOT / "tests" / "deploy" / "chart-0.1.0" / "rendered.yaml"
FIRST_VALUES = (
    "labeller.enabled=true",
    "networkPolicy.enabled=true",
    "monitoring.serviceMonitor.enabled=true",
    "rbac.gang=true",
)
NAMESPACES = ("trimtab", "scheduling")
LABELS_OF_NODES = """
apiVersion: trimtab.dev/v1alpha1
kind: TrimtabConfiguration
sources: [{name: metrics-server, metricsServer: {}}]
labels: {mode: apply, rules: [{name: cpu, metric: cpu, above: 85%}]}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Rig]:
    """A control plane with the operator's kinds and two namespaces that enforce `restricted`."""
    with Rig(controlplane_or_skip(), controllers=CONTROLLERS) as rig:
        rig.apply(rig.binaries / "prometheus-operator-crds.yaml")
        rig.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        for name in NAMESPACES:
            rig.ensure_namespace(name)
            rig.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        yield rig


def helm(rig: Rig, *arguments: str | Path) -> str:
    """The output of helm, run as administrator; fails on any warning of the API server."""
    done = run([rig.binaries / "helm", f"--kubeconfig={rig.admin_kubeconfig}", *arguments])
    assert "" == done.stderr
    return done.stdout


def settings(*given: str) -> list[str]:
    return [word for each in given for word in ("--set", each)]


def ours(rig: Rig) -> dict[tuple[str, str, str], str]:
    """The UIDs of all objects of all kinds that carry our label or name; without Events and what controllers made."""
    kinds = rig.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    found = rig.kubectl("get", ",".join(kind for kind in kinds if not kind.startswith("events")), "-A", "-o", "json")
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["metadata"]["uid"]
        for each in json.loads(found)["items"]
        if each["kind"] not in ("Namespace", "Pod", "ReplicaSet")
        and ("trimtab" in each["metadata"]["name"] or "trimtab" in str(each["metadata"].get("labels", {})))
    }


def first_chart(folder: Path) -> Path:
    """A chart of the first version that renders what it rendered then."""
    (folder / "templates").mkdir(parents=True)
    shutil.copy(FIRST, folder / "rendered.yaml")
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: trimtab, version: 0.1.0}")
    (folder / "templates" / "all.yaml").write_text('{{ .Files.Get "rendered.yaml" }}')
    return folder


def test_an_upgrade_from_the_first_version_replaces_nothing(cluster: Rig, tmp_path: Path) -> None:
    """Every object stays the same one, with its selector; the lease keeps its holder; removing leaves nothing."""
    assert {} == ours(cluster)
    helm(cluster, "install", "trimtab", first_chart(tmp_path / "first"), "--namespace", "trimtab")
    before = ours(cluster)
    names = {(each["kind"], each["metadata"]["name"]) for each in parse(FIRST.read_text())}
    assert names <= {(kind, name) for kind, _, name in before}
    lease = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases/trimtab"
    cluster.admin.patch(lease, {"spec": {"holderIdentity": "somebody"}})
    upgraded = settings(*FIRST_VALUES, "replicas=3", "config.template=production")
    helm(cluster, "upgrade", "trimtab", CHART, "--namespace", "trimtab", *upgraded)
    after = ours(cluster)
    kept = {key: uid for key, uid in after.items() if key in before}
    assert before == kept
    assert "somebody" == cluster.admin.get(lease)["spec"]["holderIdentity"]
    assert 3 == cluster.admin.get("/apis/apps/v1/namespaces/trimtab/deployments/trimtab")["spec"]["replicas"]
    helm(cluster, "rollback", "trimtab", "1", "--namespace", "trimtab")
    helm(cluster, "uninstall", "trimtab", "--namespace", "trimtab")
    assert {} == ours(cluster)


def test_another_release_in_another_namespace_runs_and_leaves_nothing(cluster: Rig) -> None:
    """Its scheduler and labeller hold the leases of that namespace; after `helm uninstall` not even these are left."""
    pod_process.require_mount_namespaces()
    cluster.admin.create(node("worker"))
    values = ["--set-file", f"labeller.config={_written(cluster, LABELS_OF_NODES)}"]
    flags = settings("replicas=1", "labeller.enabled=true", "labeller.unmark.enabled=false")
    helm(cluster, "install", "load", CHART, "--namespace", "scheduling", *flags, *values)
    running = [*_start(cluster)]
    try:
        processes = [each.process for each in running]
        cluster.admin.create(pod("web", scheduler="trimtab"))
        trimtab_process.wait_for(lambda: trimtab_process.bound(cluster) == {"web": "worker"}, 60, "bound", *processes)
        trimtab_process.wait_for(lambda: len(_holders(cluster)) == 2, 40, "both leases held", *processes)
        assert {"load-trimtab", "trimtab-labeller"} == set(_holders(cluster))
        helm(cluster, "uninstall", "load", "--namespace", "scheduling")
        codes = [each.process.terminate() for each in running]
    finally:
        for each in running:
            each.process.kill()
    assert 2 == len(codes)
    assert {("Lease", "scheduling", "trimtab-labeller")} == set(ours(cluster))  # named by NOTES.txt


def _written(rig: Rig, text: str) -> Path:
    file = rig.workspace / "labeller.yaml"
    file.write_text(text)
    return file


def _start(rig: Rig) -> Iterator[PodProcess]:
    """The pods of the release in the namespace scheduling, as processes."""
    path = "/api/v1/namespaces/scheduling/pods"
    trimtab_process.wait_for(lambda: len(rig.admin.list(path)) == 2, 20, "two pods")
    for number, each in enumerate(rig.admin.list(path), start=1):
        yield pod_process.start(rig, each, f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}.{number}")


def _holders(rig: Rig) -> dict[str, str]:
    """Who holds the leases of the namespace."""
    leases = rig.admin.list("/apis/coordination.k8s.io/v1/namespaces/scheduling/leases")
    return {
        each["metadata"]["name"]: each["spec"]["holderIdentity"]
        for each in leases
        if each["spec"].get("holderIdentity")
    }
