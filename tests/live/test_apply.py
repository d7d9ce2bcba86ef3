"""`trimtab apply` and `trimtab approve` on a live cluster with a real Prometheus: what was planned moves, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.reader_account import run_command
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.test_moves import APPS, HOT, LEDGER, QUICK, ROLE, app, cordon, ended, records, rescheduler
from tools.controlplane.client import Document
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Three measured nodes, and the roles of a scheduler and of a rescheduler, which only the last test starts."""
    asked = MeteredCluster(controlplane_or_skip(), 3, controllers=WORKLOADS)
    with asked as running, PodUsageFeed(running.rig, running.exporters):
        trimtab_process.install(running.rig, *trimtab_process.ROLES, ROLE)
        yield running


@pytest.fixture(scope="module")
def scheduler(cluster: MeteredCluster) -> Iterator[Process]:
    """All pods are on one node, which is hot; the others were cordoned while they were placed."""
    for name in cluster.exporters.names:
        cluster.exporters.set(name, cpu=0.1, memory=0.1)
        cordon(cluster, name, name != HOT)
    with stage.ready_process(trimtab_process.start(cluster.rig)) as trimtab:
        cluster.rig.admin.create_many(app(f"app-{number}") for number in range(APPS))
        trimtab_process.wait_for(lambda: APPS == stage.by_node(cluster)[HOT], 60, "pods on one node", trimtab)
        measured = 'sum by (pod) (rate(container_cpu_usage_seconds_total{pod=~"app.*"}[5s]))'
        cluster.prometheus.wait_for(measured, lambda up: len(up) == APPS, "pod")
        for name in cluster.exporters.names:
            cordon(cluster, name, False)
        cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
        yield trimtab


def run(cluster: MeteredCluster, command: str, *arguments: str) -> CompletedProcess[str]:
    own = {**stage.prometheus_config(cluster), "rescheduling": {**QUICK, "maxMoves": 1}}
    config = trimtab_process.write_config(cluster.rig, "apply", own)
    kubeconfig = str(cluster.rig.admin_kubeconfig)
    return run_command(cluster.rig, command, "--config", str(config), "--kubeconfig", kubeconfig, *arguments)


def planned(cluster: MeteredCluster, file: Path) -> Document:
    """The move of a new plan."""
    trimtab_process.wait_for(lambda: 2 == run(cluster, "plan", "-o", str(file)).returncode, 90, "a plan with a move")
    (move,) = json.loads(file.read_text())["moves"]
    found: Document = move
    return found


def test_a_changed_pod_is_skipped(cluster: MeteredCluster, scheduler: Process, tmp_path: Path) -> None:
    """Its Deployment has replaced it since: the new pod was not planned for, and nothing is written to the ledger."""
    move = planned(cluster, tmp_path / "plan.json")
    cluster.rig.admin.raw("DELETE", f"/api/v1/namespaces/default/pods/{move['pod'].partition('/')[2]}")
    trimtab_process.wait_for(lambda: move["uid"] not in uids(cluster), 30, "the pod is gone")
    done = run(cluster, "apply", str(tmp_path / "plan.json"), "--auto-approve")
    assert 2 == done.returncode, done.stderr
    assert f"{move['pod']}: skipped: there is no pod with its UID any more" in done.stdout
    assert [] == records(cluster)


def test_the_kill_switch(cluster: MeteredCluster, scheduler: Process, tmp_path: Path) -> None:
    """Of the scheduler's lease, as nothing else is there."""
    planned(cluster, tmp_path / "plan.json")
    patch = {"metadata": {"annotations": {"trimtab.dev/paused": "incident 17"}}}
    cluster.rig.admin.patch(f"{LEASE}/trimtab", patch)
    done = run(cluster, "apply", str(tmp_path / "plan.json"), "--auto-approve")
    patch["metadata"]["annotations"]["trimtab.dev/paused"] = "false"
    cluster.rig.admin.patch(f"{LEASE}/trimtab", patch)
    assert (1, "trimtab: moves are paused by lease trimtab/trimtab: incident 17\n") == (done.returncode, done.stderr)


def test_a_plan_is_carried_out_once(cluster: MeteredCluster, scheduler: Process, tmp_path: Path) -> None:
    """The pod leaves the hot node, each step is told, and the exit code is 0; the same file then moves nothing."""
    cluster.rig.admin.raw("DELETE", LEDGER)
    move = planned(cluster, tmp_path / "plan.json")
    done = run(cluster, "apply", str(tmp_path / "plan.json"), "--auto-approve")
    assert 0 == done.returncode, done.stdout + done.stderr + scheduler.log_tail()
    (record,) = ended(cluster)
    assert (move["uid"], HOT) == (record["uid"], record["source"]) and record["node"] != HOT and record["term"] < 0
    steps = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith(f"{move['pod']}: ")]
    assert "charged to the budgets" == steps[0] and f"done, {HOT} → {record['node']}" == steps[-1]
    assert move["uid"] not in uids(cluster)
    before = uids(cluster)
    again = run(cluster, "apply", str(tmp_path / "plan.json"), "--auto-approve")
    assert (2, before) == (again.returncode, uids(cluster)), again.stdout + again.stderr
    assert "Applied: 0 done, 1 skipped, 0 failed." in again.stdout


def test_a_plan_waits_for_approval(cluster: MeteredCluster, scheduler: Process) -> None:
    """A rescheduler in approve mode publishes its plan, and moves the pod only when somebody has approved it."""
    cluster.rig.admin.raw("DELETE", LEDGER)
    kubeconfig = ("--kubeconfig", str(cluster.rig.admin_kubeconfig))
    with rescheduler(cluster, mode="approve", maxMoves=1) as trimtab:
        trimtab_process.wait_for(lambda: published(cluster), 90, "a plan that waits", trimtab)
        asked = run_command(cluster.rig, "approve", *kubeconfig)
        assert 1 == asked.returncode and "name the plan, `trimtab approve ID`" in asked.stderr
        assert [] == records(cluster)
        plan = published(cluster)
        done = run_command(cluster.rig, "approve", plan["id"], *kubeconfig)
        assert 0 == done.returncode and f"Plan {plan['id']} moves 1 pod" in done.stdout, done.stdout + done.stderr
        trimtab_process.wait_for(lambda: ended(cluster), 90, "a move", trimtab)
    assert plan["moves"][0]["uid"] == ended(cluster)[0]["uid"]


def published(cluster: MeteredCluster) -> Document:
    status, body = cluster.rig.admin.raw("GET", LEDGER)
    found: Document = json.loads(json.loads(body)["data"].get("plan.json", "{}")) if status == 200 else {}
    return found


def uids(cluster: MeteredCluster) -> dict[str, str]:
    """The nodes of all pods, by UID."""
    return {each["metadata"]["uid"]: each["spec"].get("nodeName", "") for each in trimtab_process.pods(cluster.rig)}
