"""`trimtab deploy` on a real control plane: install, upgrade, status, test and uninstall, and everything that stops them.

Pods of the Deployments are scheduled by kube-scheduler and made ready by kwok; nothing runs in them, so where a scheduler is
needed `trimtab run` runs beside, with the service account that was installed.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.live import trimtab_process
from tests.live.deploy_commands import (
    API,
    deploy,
    done,
    everything,
    exists,
    interrupted_install,
    killed_install,
    start,
    writes,
)
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS, Rig
from trimtab.apps.deploy import install
from trimtab.apps.deploy.kustomization import manifests_folder, read_manifests

pytestmark = pytest.mark.live

VERSION, OBJECTS = version("trimtab"), len(read_manifests(manifests_folder()))

DEFINITIONS, MONITORS = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/monitoring.coreos.com/v1/servicemonitors",
)
PRESSURE, POD_GROUPS = "pressure.trimtab.dev/cpu", "podgroups.scheduling.x-k8s.io"
GANGS_AND_LABELS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trimtab
  plugins:
    multiPoint:
      disabled: [{name: PrioritySort}]
      enabled: [{name: Coscheduling}]
---
apiVersion: trimtab.dev/v1alpha1
kind: TrimtabConfiguration
sources: [{name: metrics-server, metricsServer: {}}]
labels:
  mode: apply
  rules: [{name: cpu, metric: cpu, above: 85%}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Rig]:
    """Three nodes, the controllers of workloads, and the stock scheduler for Trimtab's own pods."""
    with Rig(controlplane_or_skip(), controllers=WORKLOADS, kwok=True) as rig:
        rig.ensure_namespace("kube-system")
        rig.admin.create_many(node(f"node-{index}") for index in range(3))
        rig.start_kube_scheduler()
        yield rig


@pytest.fixture
def before(cluster: Rig) -> Iterator[set[str]]:
    """What was there before; afterwards the installation is removed, and nothing of it may be left."""
    yield from _restored(cluster, "trimtab")


@pytest.fixture
def mine(cluster: Rig) -> Iterator[set[str]]:
    """The same for the namespace `mine`, which somebody else has made: it stays, and no test waits for its end."""
    cluster.ensure_namespace("mine")
    yield from _restored(cluster, "mine")


def _restored(cluster: Rig, namespace: str) -> Iterator[set[str]]:
    objects = everything(cluster)
    yield objects
    done(deploy(cluster, "uninstall", "-n", namespace, "--yes"))
    trimtab_process.wait_for(lambda: everything(cluster) <= objects, 20, "nothing is left")
    ending = ("probes", "leaving")  # namespaces that other tests have deleted
    assert set() == {name for name in objects - everything(cluster) if not any(each in name for each in ending)}


def test_install_status_test_and_uninstall(cluster: Rig, before: set[str]) -> None:
    """A first install, a second that writes nothing, status, the test with a scheduler, a load test, and removal."""
    with writes() as written:
        asked = deploy(cluster, "install")
    assert (2, True, []) == (asked.exit_code, "add --yes" in asked.stderr, written)
    only_namespace = interrupted_install(cluster, 1, "trimtab")
    assert (1, True) == (
        only_namespace.exit_code,
        "has installed nothing in namespace trimtab" in only_namespace.stderr,
    )
    with writes() as first:
        installed = done(deploy(cluster, "install", "--yes", "--timeout", "60"))
    assert OBJECTS == len(first)  # without the namespace, and with the inventory
    assert "created Deployment trimtab/trimtab" in installed
    assert f"trimtab:{VERSION} runs in namespace trimtab, with the configuration default" in installed
    with writes() as second:
        assert f"no changes, {OBJECTS + 1} objects stay as they are" in done(deploy(cluster, "install", "--yes"))
    assert [] == second
    idle = deploy(cluster, "status")
    assert (1, True) == (idle.exit_code, "lease trimtab/trimtab: nobody holds it" in idle.stdout)
    cluster.admin.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "trimtab"}}
    )
    kept = done(deploy(cluster, "uninstall", "--dry-run"))
    assert "note: namespace trimtab stays, because it also has ConfigMap trimtab/notes" in kept
    assert "delete Namespace trimtab" not in kept
    cluster.admin.delete(f"{API}/namespaces/trimtab/configmaps/notes")
    process = trimtab_process.start(cluster)
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(process), 40, "ready", process)
        _wait_for_leader(cluster, "trimtab", process)
        state = json.loads(done(deploy(cluster, "status", "-o", "json")))
        _check_status(state)
        _check_tests(cluster)
    finally:
        process.terminate()


def _wait_for_leader(rig: Rig, namespace: str, process: Process) -> None:
    """Wait until it holds the lease: one request at a time, where `trimtab deploy status` asks for every object."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/trimtab"
    trimtab_process.wait_for(lambda: rig.admin.get(path).get("spec", {}).get("holderIdentity"), 40, "a leader", process)


def _check_status(state: Document) -> None:
    assert (True, OBJECTS, []) == (state["healthy"], state["objects"], state["missing"])
    assert (VERSION, "template default") == (state["version"], state["config_name"])
    (workload,), (leader,) = state["workloads"], state["leaders"]
    assert (2, 2, f"trimtab:{VERSION}") == (workload["ready"], workload["wanted"], workload["image"])
    assert leader["holder"].startswith("trimtab_")


def _check_tests(cluster: Rig) -> None:
    """The checks pass and print pods per node; the load test prints percentiles; both clean up."""
    passed = done(deploy(cluster, "test", "--count", "9", "-t", "30"))
    assert "PASS  many pods: 9 of 9 bound" in passed
    assert "PASS  anti-affinity" in passed
    assert "PASS  impossible pod: stays pending: 0/3 nodes are available" in passed
    assert "pods per node:" in passed
    loaded = done(deploy(cluster, "test", "--load", "30", "-t", "30", "-n", "default"))
    assert "30 of 30 pods bound" in loaded
    assert "created → bound: p50 " in loaded
    assert [] == trimtab_process.pods(cluster)
    trimtab_process.wait_for(lambda: not exists(cluster, f"{API}/namespaces/trimtab-test"), 20, "the namespace is gone")


def test_upgrade_keeps_settings_and_names_conflicts(cluster: Rig, mine: set[str]) -> None:
    """An upgrade shows the difference, and stops at a field that another manager changed, unless it is forced."""
    refused = deploy(cluster, "upgrade", "-n", "mine", "--yes")
    assert (1, True) == (refused.exit_code, "has installed nothing in namespace mine" in refused.stderr)
    done(deploy(cluster, "install", "-n", "mine", "--yes", "--image", "mine/trimtab"))
    shown = done(deploy(cluster, "upgrade", "-n", "mine", "-c", "production", "--yes"))
    assert "-      format: text # easy to read with kubectl logs" in shown
    assert f"mine/trimtab:{VERSION} runs in namespace mine, with the configuration production" in shown
    cluster.kubectl("-n", "mine", "scale", "deployment/trimtab", "--replicas=3")
    conflict = deploy(cluster, "upgrade", "-n", "mine", "-t", "next", "--yes")
    assert 1 == conflict.exit_code
    assert 'Deployment mine/trimtab was changed by others: .spec.replicas (conflict with "kubectl"' in conflict.stderr
    done(deploy(cluster, "upgrade", "-n", "mine", "-t", "next", "--yes", "--force-conflicts"))
    found = _deployment(cluster)["spec"]
    assert (2, "mine/trimtab:next") == (found["replicas"], found["template"]["spec"]["containers"][0]["image"])


def _deployment(rig: Rig) -> Document:
    found: Document = rig.admin.get("/apis/apps/v1/namespaces/mine/deployments/trimtab")
    return found


def test_another_namespace_and_a_single_replica(cluster: Rig, mine: set[str], tmp_path: Path) -> None:
    """Into a namespace that exists, which stays; the lease is there, too; without a lease there is one replica."""
    assert "note: Namespace mine exists already and is left as it is" in done(
        deploy(cluster, "install", "-n", "mine", "--yes")
    )
    state = json.loads(deploy(cluster, "status", "-n", "mine", "-o", "json").stdout)
    assert ["mine/trimtab"] == [each["lease"] for each in state["leaders"]]
    _check_installed_account(cluster, tmp_path)
    other = deploy(cluster, "install", "--yes")
    assert 1 == other.exit_code
    assert "belongs to the installation in namespace mine: use -n mine" in other.stderr
    done(deploy(cluster, "upgrade", "-n", "mine", "-c", "development", "--yes"))
    found = _deployment(cluster)["spec"]
    assert (1, {"type": "Recreate"}) == (found["replicas"], found["strategy"])
    kept = done(deploy(cluster, "uninstall", "-n", "mine", "--dry-run"))
    assert "note: namespace mine stays, because trimtab deploy did not make it" in kept


def _check_installed_account(rig: Rig, folder: Path) -> None:
    """With the file and the account that were installed, a process becomes ready and holds the lease."""
    config = folder / "config.yaml"
    config.write_text(rig.admin.get(f"{API}/namespaces/mine/configmaps/trimtab")["data"]["config.yaml"])
    process = trimtab_process.launch(rig, config, "mine", namespace="mine")
    try:
        _wait_for_leader(rig, "mine", process)
        assert "healthy" in done(deploy(rig, "status", "-n", "mine"))
    finally:
        process.terminate()


def test_what_a_configuration_brings_goes_again(cluster: Rig, mine: set[str], tmp_path: Path) -> None:
    """PodGroups keep their kind; an upgrade uses the file in the cluster; a labeller that is dropped leaves nothing, and no
    label, though the upgrade was interrupted once its Deployment was gone."""
    file = tmp_path / "f.yaml"
    file.write_text(GANGS_AND_LABELS)
    done(deploy(cluster, "install", "-n", "mine", "-c", str(file), "--labeller", "--yes"))
    file.unlink()
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 2}}
    trimtab_process.wait_for(lambda: exists(cluster, "/apis/scheduling.x-k8s.io/v1alpha1"), 20, "the kind is served")
    cluster.admin.create({**group, "metadata": {"name": "g", "namespace": "default"}})
    cluster.admin.patch(f"{API}/nodes/node-1", {"metadata": {"labels": {PRESSURE: "true"}}})
    with mock.patch.object(install, "remove_labels", side_effect=asyncio.CancelledError):
        stopped = deploy(cluster, "upgrade", "-n", "mine", "--no-labeller", "--yes")
    assert (143, True) == (stopped.exit_code, "deleted Deployment mine/trimtab-labeller" in stopped.stdout)
    changed = done(deploy(cluster, "upgrade", "-n", "mine", "--no-labeller", "--yes"))
    assert f"node-1: -{PRESSURE}" in changed
    assert set() == {name for name in everything(cluster) - mine if "labeller" in name}
    assert PRESSURE not in cluster.admin.get(f"{API}/nodes/node-1")["metadata"]["labels"]
    assert "mode: apply" in cluster.admin.get(f"{API}/namespaces/mine/configmaps/trimtab")["data"]["config.yaml"]
    kept = done(deploy(cluster, "uninstall", "-n", "mine", "--dry-run"))
    assert f"note: CustomResourceDefinition {POD_GROUPS} stays, because there are objects of that kind" in kept
    assert f"delete CustomResourceDefinition {POD_GROUPS}" not in kept
    cluster.admin.delete("/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups/g")


def test_monitoring_needs_the_operator(cluster: Rig, mine: set[str]) -> None:
    """Without its kinds one sentence and no write; with them they are installed, removed, and seen by status."""
    with writes() as written:
        refused = deploy(cluster, "install", "-n", "mine", "-m", "--yes")
    assert (1, []) == (refused.exit_code, written)
    assert "the cluster does not have " in refused.stderr
    assert "ServiceMonitor (monitoring.coreos.com/v1)" in refused.stderr
    assert "install the Prometheus operator, or use --no-monitoring" in refused.stderr
    definitions = cluster.apply(cluster.binaries / "prometheus-operator-crds.yaml")
    try:
        trimtab_process.wait_for(lambda: exists(cluster, MONITORS), 20, "the kinds are served")
        done(deploy(cluster, "install", "-n", "mine", "-m", "--yes"))
        (monitor,) = cluster.admin.list(MONITORS)
        assert ["mine"] == monitor["spec"]["namespaceSelector"]["matchNames"]
        done(deploy(cluster, "upgrade", "-n", "mine", "--no-monitoring", "--yes"))
        assert [] == cluster.admin.list(MONITORS)
    finally:
        cluster.admin.delete_many(f"{DEFINITIONS}/{each['metadata']['name']}" for each in definitions)


def test_what_is_not_ours_is_refused_and_left(cluster: Rig) -> None:
    """An object of the same name, made by kubectl or by Helm, stops the install before anything is written."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    metadata: dict[str, Any] = {"name": "trimtab-volumes"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/trimtab-volumes"
    for labels, remedy in (
        ({}, "delete it, or go on using"),
        ({"app.kubernetes.io/managed-by": "Helm"}, "helm upgrade"),
    ):
        cluster.admin.create({**role, "metadata": {**metadata, "labels": labels}})
        try:
            with writes() as written:
                refused = deploy(cluster, "install", "--yes")
            assert (1, []) == (refused.exit_code, written)
            assert "ClusterRole trimtab-volumes exists and was not made by trimtab deploy" in refused.stderr
            assert remedy in refused.stderr
        finally:
            cluster.admin.delete(path)


def test_missing_rights_are_named_before_anything_is_written(cluster: Rig) -> None:
    """Without rights: verb, resource and account. With rights to write roles but not to grant them: the server's reason."""
    before = everything(cluster)
    nobody = deploy(cluster, "install", "--yes", kubeconfig=cluster.client_kubeconfig("viewer"))
    assert 1 == nobody.exit_code
    assert "viewer may not create/get/patch configmaps in trimtab, create/get/patch namespaces, " in nobody.stderr
    wide = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create", "patch", "delete"]}
    meta = {"name": "installer"}
    api = "rbac.authorization.k8s.io"
    cluster.apply(
        [
            {
                "apiVersion": f"{api}/v1",
                "kind": "ClusterRole",
                "metadata": meta,
                "rules": [{**wide, "verbs": ["get", "list"]}],
            },
            {
                "apiVersion": f"{api}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "installer"},
                "subjects": [{"apiGroup": api, "kind": "User", "name": "installer"}],
            },
        ]
    )
    try:
        reader = deploy(cluster, "install", "--yes", kubeconfig=cluster.client_kubeconfig("installer"))
        assert "installer may not create/patch configmaps in trimtab, create/patch namespaces, " in reader.stderr
        assert "nothing was changed" in reader.stderr
        cluster.apply([{"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": meta, "rules": [wide]}])
        escalating = deploy(cluster, "install", "--yes", kubeconfig=cluster.client_kubeconfig("installer"))
        assert "attempting to grant RBAC permissions not currently held" in escalating.stderr
        assert 1 == reader.exit_code == escalating.exit_code
    finally:
        cluster.kubectl("delete", "clusterrole/installer", "clusterrolebinding/installer")
    assert before == everything(cluster)


def test_an_interrupted_install_is_completed(cluster: Rig, mine: set[str]) -> None:
    """Killed, and then stopped later on: status says what is missing, and the last run writes only that."""
    for half in (killed_install(cluster, 1, "mine"), interrupted_install(cluster, OBJECTS - 2, "mine")):
        assert (1, True) == (half.exit_code, "is missing: run trimtab deploy upgrade" in half.output), half.output
    assert f"1 change, {OBJECTS - 1} objects stay" in done(deploy(cluster, "install", "-n", "mine", "--yes"))


@pytest.mark.parametrize(("number", "namespace"), [(signal.SIGINT, "probes"), (signal.SIGTERM, "default")])
def test_a_test_cleans_up_when_it_is_interrupted(cluster: Rig, number: signal.Signals, namespace: str) -> None:
    """Ctrl-C and SIGTERM: the pods go, and the namespace if the test made it."""
    waiting = start(cluster, "test", "-s", "nobody", "-n", namespace)
    trimtab_process.wait_for(lambda: trimtab_process.pods(cluster, namespace), 30, "its pod")
    waiting.send_signal(number)
    assert 128 + number == waiting.wait(timeout=90)
    assert [] == trimtab_process.pods(cluster, namespace)
    if namespace != "default":
        assert "Terminating" == cluster.admin.get(f"{API}/namespaces/{namespace}")["status"]["phase"]


def test_a_failed_test_says_why_and_leaves_the_namespace_of_others(cluster: Rig) -> None:
    """Nobody schedules the pods: exit 1, the reason, and in a namespace that exists only the pods are removed."""
    failed = deploy(cluster, "test", "-n", "default", "-s", "nobody", "-t", "1")
    assert 1 == failed.exit_code
    assert "FAIL  one pod: still pending after 1 s, and no scheduler has tried it" in failed.stdout
    assert "skip  many pods: no pod was scheduled" in failed.stdout
    assert [] == trimtab_process.pods(cluster)


def test_a_rollout_that_does_not_finish_says_why(cluster: Rig, mine: set[str]) -> None:
    """Pods that cannot be scheduled: exit 1 with the scheduler's reason, and everything stays for another try."""
    taint = {"spec": {"unschedulable": True}}
    for index in range(3):
        cluster.admin.patch(f"/api/v1/nodes/node-{index}", taint)
    try:
        late = deploy(cluster, "install", "-n", "mine", "--yes", "--timeout", "2")
    finally:
        for index in range(3):
            cluster.admin.patch(f"/api/v1/nodes/node-{index}", {"spec": {"unschedulable": None}})
    assert 1 == late.exit_code
    assert "not available after 2 s: Deployment mine/trimtab: 0 of 2 replicas" in late.stderr
    assert "0/3 nodes are available" in late.stderr
    assert "nothing was rolled back" in late.stderr


def test_a_namespace_that_is_being_deleted(cluster: Rig) -> None:
    """Neither installed into nor tested in."""
    finalizer = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    }
    cluster.ensure_namespace("leaving")
    cluster.admin.create({**finalizer, "metadata": {**finalizer["metadata"], "namespace": "leaving"}})  # type: ignore[dict-item]
    cluster.admin.delete("/api/v1/namespaces/leaving")
    try:
        for arguments in (("install", "--yes"), ("status",), ("test",)):
            refused = deploy(cluster, *arguments, "-n", "leaving")
            assert (1, True) == (refused.exit_code, "namespace leaving is being deleted: wait" in refused.stderr)
    finally:
        cluster.admin.patch("/api/v1/namespaces/leaving/configmaps/held", {"metadata": {"finalizers": None}})


def test_status_knows_what_kubectl_has_installed(cluster: Rig) -> None:
    """Found by its labels; but it is not ours, so an upgrade is refused and an uninstall finds nothing."""
    cluster.kubectl("apply", "--server-side", "-k", str(trimtab_process.ROOT / "deploy"))
    try:
        cluster.kubectl("-n", "trimtab", "rollout", "status", "deployment/trimtab", "--timeout=30s")
        shown = deploy(cluster, "status")
        assert (1, True) == (shown.exit_code, "installed by kubectl, checksum " in shown.stdout)
        assert "2 of 2 replicas ready" in shown.stdout
        assert "lease trimtab/trimtab: nobody holds it" in shown.stdout
        refused = deploy(cluster, "upgrade", "--yes")
        assert (1, True) == (refused.exit_code, "installed by kubectl: go on with kubectl apply -k" in refused.stderr)
        assert "has installed nothing in namespace trimtab" in done(deploy(cluster, "uninstall", "--yes"))
        assert exists(cluster, "/apis/apps/v1/namespaces/trimtab/deployments/trimtab")
    finally:
        cluster.kubectl("delete", "--wait=false", "-k", str(trimtab_process.ROOT / "deploy"))
