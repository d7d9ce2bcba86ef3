"""Pressure labels on a real API server with a real Prometheus: added, removed, expired, and nothing else changes.

The labeller runs as its own service account under the shipped policy, with dynamic-Scheduler's flags and with our own file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.live import trimtab_process
from tests.live.audit_checker import AuditedRequest, grants
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process, free_port

pytestmark = pytest.mark.live

ACCOUNT = "system:serviceaccount:trimtab:trimtab-labeller"
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/trimtab-labeller"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"
MEMORY = (
    "(1 - node_memory_MemAvailable_bytes{job='node-exporter'} / node_memory_MemTotal_bytes{job='node-exporter'})*100"
)
KEY = "pressure.trimtab.dev/memory"
SOFT = {"key": KEY, "effect": "PreferNoSchedule"}
# As a lifecycle controller writes it: the time must survive our patches, too.
FOREIGN = {"key": "gpu", "value": "yes", "effect": "NoExecute", "timeAdded": "2026-01-31T08:00:00Z"}
MASTER = "node-role.kubernetes.io/control-plane"
NODES = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Five nodes with metrics; node-0 is a control plane, and node-1 has a foreign taint and `status` label."""
    with MeteredCluster(controlplane_or_skip(), nodes=NODES, instance="{name}") as running:
        trimtab_process.install(running.rig, "rbac.yaml", "components/labeller/labeller.yaml")
        running.rig.admin.patch("/api/v1/nodes/node-0", {"metadata": {"labels": {MASTER: ""}}})
        running.rig.admin.patch(
            "/api/v1/nodes/node-1", {"metadata": {"labels": {"zone": "a"}}, "spec": {"taints": [FOREIGN]}}
        )
        yield running


@pytest.fixture(autouse=True)
def at_rest(cluster: MeteredCluster) -> None:
    """No load and no labels before each test."""
    for number in range(NODES):
        cluster.exporters.set(f"node-{number}", memory=0.2, cpu=0.0)
        cluster.rig.admin.patch(f"/api/v1/nodes/node-{number}", {"metadata": {"labels": {KEY: None, "status": None}}})


def labels(cluster: MeteredCluster, key: str = KEY) -> dict[str, str]:
    """The values of the label, by node."""
    listed = cluster.rig.admin.list("/api/v1/nodes")
    found = {each["metadata"]["name"]: each["metadata"].get("labels", {}).get(key) for each in listed}
    return {name: value for name, value in found.items() if value is not None}


def taints(cluster: MeteredCluster, name: str) -> list[Document]:
    found: list[Document] = cluster.rig.admin.get(f"/api/v1/nodes/{name}")["spec"].get("taints", [])
    return found


def patches(cluster: MeteredCluster) -> int:
    """The number of patches of nodes by the labeller so far."""
    deeds = map(AuditedRequest, cluster.rig.audit_events())
    return sum(deed.user == ACCOUNT and deed.grant == ("patch", "", "nodes") for deed in deeds)


@contextmanager
def labelling(cluster: MeteredCluster, *flags: str, name: str = "labeller") -> Iterator[Process]:
    """Run `trimtab labeller` until the end of the block; it must exit with 0."""
    kubeconfig = cluster.rig.service_account_kubeconfig("trimtab", "trimtab-labeller")
    port = free_port()
    command = [sys.executable, "-m", "trimtab", "labeller", "-kubeconfig", str(kubeconfig), *flags]
    process = Process(
        [*command, "-webaddr", f":{port}", "--identity", name],
        cluster.rig.workspace / f"{name}.log",
        {"PYTHONPATH": str(trimtab_process.ROOT)},
        f"http://127.0.0.1:{port}",
    )
    try:
        yield process
    finally:
        code = process.terminate()
    assert 0 == code, process.log_tail()


def own_file(cluster: MeteredCluster, name: str = "labels.yaml", mode: str = "apply", **rule: object) -> str:
    """A TrimtabConfiguration with one rule about memory, quick enough for a test."""
    given = {"name": "memory", "metric": "memory", "above": "80%", "clear": "60%", "for": "1s", "clearFor": "1s"}
    prometheus = {"url": cluster.prometheus.url, "interval": "1s", "timeout": "1s"}
    file = cluster.rig.workspace / name
    document = {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "TrimtabConfiguration",
        "sources": [{"name": "prom", "prometheus": prometheus}],
        "load": {"freshFor": "3s", "staleAfter": "6s"},
        "labels": {"mode": mode, "expireAfter": "6s", "rules": [{**given, **rule}]},
    }
    file.write_text(yaml.safe_dump(document))
    return str(file)


def rule_file(cluster: MeteredCluster, threshold: object = 70) -> Path:
    file = cluster.rig.workspace / "rule.yaml"
    rule = {"Promsql": MEMORY, "Threshold": threshold, "ClearFor": "2s"}
    file.write_text(json.dumps({"PromJob": {"Name": "any"}, "Rulename": {"Node_mem": rule}}))
    return file


def allow_legacy(cluster: MeteredCluster) -> None:
    variables = cluster.rig.admin.get(POLICY)["spec"]["variables"]
    allowed = [{**each, "expression": "true"} if each["name"] == "legacy" else each for each in variables]
    cluster.rig.admin.patch(POLICY, {"spec": {"variables": allowed}})


def test_dynamic_schedulers_flags_and_rules(cluster: MeteredCluster) -> None:
    """Its flags, its rule.yaml, its label: a full node is marked, a control plane is not, the mark goes with the load;
    the rules are read again when they change, and a bad file changes nothing."""
    allow_legacy(cluster)
    file = rule_file(cluster)
    cluster.exporters.set("node-0", memory=0.95)
    flags = ("-prom", cluster.prometheus.url, "-r", str(file), "-s", "1", "--apply")
    with labelling(cluster, *flags) as labeller:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(labeller), 40, "ready", labeller)
        assert "mode apply" in labeller.log_tail().splitlines()[0]
        trimtab_process.wait_for(lambda: (200, "ok") == trimtab_process.page(labeller, "/status"), 20, "well", labeller)
        cluster.exporters.set("node-2", memory=0.9)
        trimtab_process.wait_for(lambda: {"node-2": "presure"} == labels(cluster, "status"), 20, "the label", labeller)
        page = '{"type":"Label type=presure Nodes","num":1,"node_names":["node-2"]}'
        trimtab_process.wait_for(
            lambda: (200, page) == trimtab_process.page(labeller, "/nodes"), 5, "the old page", labeller
        )
        written = patches(cluster)
        time.sleep(3.0)
        assert written == patches(cluster)
        cluster.exporters.set("node-2", memory=0.3)
        trimtab_process.wait_for(lambda: {} == labels(cluster, "status"), 20, "no label", labeller)
        cluster.exporters.set("node-3", memory=0.6)
        rule_file(cluster, 50)
        trimtab_process.wait_for(
            lambda: {"node-3": "presure"} == labels(cluster, "status"), 20, "by the new rule", labeller
        )
        rule_file(cluster, "much")
        trimtab_process.wait_for(lambda: "'much' is not a number" in labeller.log_tail(), 20, "the complaint", labeller)
        assert {"node-3": "presure"} == labels(cluster, "status")
    assert {"node-3": "presure"} == labels(cluster, "status")


def test_a_soft_taint_and_a_label_among_others(cluster: MeteredCluster) -> None:
    """Both are added in one patch and removed in one; a foreign taint stays with its time, and so do labels."""
    before, written = taints(cluster, "node-1"), patches(cluster)
    file = own_file(cluster, label={"key": KEY, "value": "high"}, taint=KEY)
    with labelling(cluster, "--config", file) as labeller:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(labeller), 40, "ready", labeller)
        cluster.exporters.set("node-1", memory=0.9)
        trimtab_process.wait_for(lambda: {"node-1": "high"} == labels(cluster), 20, "the label", labeller)
        assert [*before, SOFT] == taints(cluster, "node-1")
        cluster.exporters.set("node-1", memory=0.2)
        trimtab_process.wait_for(lambda: {} == labels(cluster), 20, "no label", labeller)
        assert before == taints(cluster, "node-1")
    assert FOREIGN in before
    assert "a" == cluster.rig.admin.get("/api/v1/nodes/node-1")["metadata"]["labels"]["zone"]
    assert written + 2 == patches(cluster)


def test_without_prometheus_labels_expire_and_return(cluster: MeteredCluster) -> None:
    """Killed: the label stays until samples are stale and `expireAfter` is over; /status fails. Restarted: it returns."""
    cluster.exporters.set("node-2", memory=0.9)
    with labelling(cluster, "--config", own_file(cluster)) as labeller:
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 40, "the label", labeller)
        cluster.prometheus.kill()
        try:
            gone = time.monotonic()
            trimtab_process.wait_for(lambda: {} == labels(cluster), 40, "expired", labeller)
            assert 8.0 < time.monotonic() - gone
            trimtab_process.wait_for(
                lambda: 503 == trimtab_process.page(labeller, "/status")[0], 20, "not well", labeller
            )
            assert "rules: memory was last read" in trimtab_process.page(labeller, "/status")[1]
            assert 200 == trimtab_process.page(labeller, "/livez")[0]
        finally:
            cluster.prometheus.start()
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 30, "the label again", labeller)
        trimtab_process.wait_for(
            lambda: 200 == trimtab_process.page(labeller, "/status")[0], 20, "well again", labeller
        )


def test_a_restart_and_a_new_node(cluster: MeteredCluster) -> None:
    """A stale label is removed, one on a hot node stays without a patch, and a node that joins is labelled."""
    for name in ("node-2", "node-3"):
        cluster.rig.admin.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {KEY: "high"}}})
    cluster.rig.admin.delete("/api/v1/nodes/node-4")
    cluster.exporters.set("node-2", memory=0.9)
    cluster.exporters.set("node-4", memory=0.9)
    cluster.prometheus.wait_for(MEMORY, lambda found: found.get("node-2", 0) > 85 and found.get("node-4", 0) > 85)
    written = patches(cluster)
    with labelling(cluster, "--config", own_file(cluster)) as labeller:
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 40, "the stale one gone", labeller)
        cluster.rig.admin.create(node("node-4"))
        trimtab_process.wait_for(lambda: {"node-2", "node-4"} == {*labels(cluster)}, 30, "the new one marked", labeller)
    assert written + 2 == patches(cluster)


def test_observe_mode_writes_nothing(cluster: MeteredCluster) -> None:
    """It reports in the log and on its page what it would do; no patch, no lease."""
    cluster.exporters.set("node-2", memory=0.9)
    before = {each["metadata"]["name"]: each["spec"].get("renewTime") for each in cluster.rig.admin.list(LEASES)}
    written = patches(cluster)
    with labelling(cluster, "--config", own_file(cluster, mode="observe")) as labeller:
        words = f"would label node: node=node-2 change=+{KEY}=high reason=memory is 0.9"
        trimtab_process.wait_for(lambda: words in labeller.log_tail(), 40, "what it would do", labeller)
        assert '"node_names":["node-2"]' in trimtab_process.page(labeller, "/nodes")[1]
        cluster.exporters.set("node-2", memory=0.2)
        trimtab_process.wait_for(lambda: f"change=-{KEY}" in labeller.log_tail(), 20, "and would undo", labeller)
    after = {each["metadata"]["name"]: each["spec"].get("renewTime") for each in cluster.rig.admin.list(LEASES)}
    assert (written, before, {}) == (patches(cluster), after, labels(cluster))


def test_manual_changes_of_labels_and_nodes(cluster: MeteredCluster) -> None:
    """An overwritten, removed or added label is corrected; a hot node may be deleted and recreated."""
    cluster.exporters.set("node-2", memory=0.9)
    admin = cluster.rig.admin
    with labelling(cluster, "--config", own_file(cluster, taint=KEY, label={"key": KEY})) as labeller:
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 40, "the label", labeller)
        admin.patch("/api/v1/nodes/node-2", {"metadata": {"labels": {KEY: "mine"}}})
        admin.patch("/api/v1/nodes/node-3", {"metadata": {"labels": {KEY: "mine"}}})
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 40, "put right", labeller)
        admin.patch("/api/v1/nodes/node-2", {"metadata": {"labels": {KEY: None}}, "spec": {"taints": None}})
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 40, "put back", labeller)
        trimtab_process.wait_for(lambda: [SOFT] == taints(cluster, "node-2"), 40, "with its taint", labeller)
        admin.delete("/api/v1/nodes/node-2")
        admin.create(node("node-2"))
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 40, "marked anew", labeller)
        assert "label contested" not in labeller.log.read_text()
        cluster.exporters.set("node-2", memory=0.2)
        trimtab_process.wait_for(
            lambda: ({}, []) == (labels(cluster), taints(cluster, "node-2")), 40, "all gone", labeller
        )


def test_a_contested_label_is_reported_and_backed_off(cluster: MeteredCluster) -> None:
    """If it is removed again and again, the labeller patches less and less often."""
    cluster.exporters.set("node-2", memory=0.9)
    with labelling(cluster, "--config", own_file(cluster)) as labeller:
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 40, "the label", labeller)
        before, began = patches(cluster), time.monotonic()
        while time.monotonic() - began < 12.0:
            cluster.rig.admin.patch("/api/v1/nodes/node-2", {"metadata": {"labels": {KEY: None}}})
            time.sleep(0.1)
        assert 1 == labeller.log.read_text().count("label contested: node=node-2")
        assert 3 <= patches(cluster) - before <= 6  # at once, then after 1, 2, 4 and 8 seconds
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 60, "in the end it stands", labeller)


def unmark(cluster: MeteredCluster, *flags: str) -> tuple[int, str]:
    """`trimtab unmark` with the labeller's account."""
    kubeconfig = cluster.rig.service_account_kubeconfig("trimtab", "trimtab-labeller")
    command = [sys.executable, "-m", "trimtab", "unmark", "--kubeconfig", str(kubeconfig), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_labels_of_a_dead_labeller_can_be_removed(cluster: MeteredCluster) -> None:
    """Not while it runs or may still restart; then with the shipped permissions, and only our own labels."""
    cluster.exporters.set("node-1", memory=0.9)
    before = taints(cluster, "node-1")
    with labelling(cluster, "--config", own_file(cluster, taint=KEY, label={"key": KEY}), name="doomed") as labeller:
        trimtab_process.wait_for(lambda: {"node-1": "high"} == labels(cluster), 40, "the label", labeller)
        code, output = unmark(cluster, "--apply", "--after", "0s")
        assert (0, True) == (code, "a labeller runs" in output), output
        labeller.kill()
        labeller.terminate = lambda: 0  # type: ignore[method-assign]
    code, output = unmark(cluster, "--apply")
    assert (0, True) == (code, "labels stay for 600 s" in output), output
    assert "would clean up 1 node: add --apply" in unmark(cluster, "--after", "0s")[1]
    assert ({"node-1": "high"}, [*before, SOFT]) == (labels(cluster), taints(cluster, "node-1"))
    code, output = unmark(cluster, "--apply", "--after", "1s")
    assert (0, f"node-1: -{KEY}, -taint {KEY}\ncleaned up 1 node\n") == (code, output)
    assert ({}, before) == (labels(cluster), taints(cluster, "node-1"))
    (lease,) = (each for each in cluster.rig.admin.list(LEASES) if each["metadata"]["name"] == "trimtab-labeller")
    assert "" == lease["spec"].get("holderIdentity", "")


def test_only_one_of_two_replicas_writes(cluster: MeteredCluster) -> None:
    """The leader by the lease; when it exits, the other one takes over and the label stays unchanged."""
    cluster.exporters.set("node-2", memory=0.9)
    file, written = own_file(cluster), patches(cluster)
    with labelling(cluster, "--config", file, name="second") as second:
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 40, "the label", second)
        with labelling(cluster, "--config", file, name="first") as first:
            trimtab_process.wait_for(lambda: trimtab_process.is_ready(first), 40, "ready", first)
            time.sleep(3.0)
            assert written + 1 == patches(cluster)
            second.terminate()
            trimtab_process.wait_for(
                lambda: "successfully acquired lease: lease=trimtab/trimtab-labeller" in first.log_tail(),
                30,
                "led",
                first,
            )
            cluster.exporters.set("node-3", memory=0.9)
            trimtab_process.wait_for(lambda: {"node-2", "node-3"} == {*labels(cluster)}, 30, "by the other", first)
    assert written + 2 == patches(cluster)


def test_no_request_was_forbidden_and_every_permission_was_used(cluster: MeteredCluster) -> None:
    """Over all these tests: no 403, and the role grants nothing that is not needed."""
    deeds = [deed for deed in map(AuditedRequest, cluster.rig.audit_events()) if deed.user == ACCOUNT]
    assert [] == [deed.grant for deed in deeds if deed.code in (401, 403)]
    shipped = grants(
        yaml.safe_load_all((trimtab_process.ROOT / "deploy" / "components/labeller/labeller.yaml").read_text())
    )
    assert shipped == {deed.grant for deed in deeds}


def test_one_process_schedules_and_labels(cluster: MeteredCluster) -> None:
    """With both controllers and one lease: a pod is bound, a node is labelled within the policy, and both pages answer."""
    file = Path(own_file(cluster, "both.yaml"))
    stock = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profiles = {**stock, "profiles": [trimtab_process.WITHOUT_OPTIONAL]}
    file.write_text(f"{json.dumps(profiles)}\n---\n{file.read_text()}")
    flags = ("--controllers", "scheduler,labeller")
    forbidden = trimtab_process.launch(cluster.rig, file, "forbidden", *flags)
    trimtab_process.wait_for(lambda: not forbidden.running(), 40, "end", forbidden)
    assert "Apply deploy/components/labeller/labeller.yaml and deploy/rbac-labeller.yaml" in forbidden.log_tail()
    trimtab_process.install(cluster.rig, "rbac-labeller.yaml")
    process = trimtab_process.launch(cluster.rig, file, "both", *flags)
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(process), 40, "ready", process)
        cluster.rig.admin.create(pod("both", scheduler=trimtab_process.SCHEDULER))
        trimtab_process.wait_for(lambda: "both" in trimtab_process.bound(cluster.rig), 20, "a bound pod", process)
        cluster.exporters.set("node-2", memory=0.9)
        trimtab_process.wait_for(lambda: {"node-2": "high"} == labels(cluster), 20, "the label", process)
        trimtab_process.wait_for(lambda: (200, "ok") == trimtab_process.page(process, "/status"), 20, "ok", process)
        nodes = '{"type":"Label type=presure Nodes","num":1,"node_names":["node-2"]}'
        trimtab_process.wait_for(lambda: (200, nodes) == trimtab_process.page(process, "/nodes"), 20, "node-2", process)
        metrics = trimtab_process.page(process, "/metrics")[1]
        assert 'leader_election_master_status{name="trimtab"} 1.0' in metrics
        assert 'trimtab_node_marks_total{result="done"} 1.0' in metrics
        cluster.exporters.set("node-2", memory=0.2)
        trimtab_process.wait_for(lambda: {} == labels(cluster), 20, "no label", process)
    finally:
        code = process.terminate()
    assert 0 == code, process.log_tail()
