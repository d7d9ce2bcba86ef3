"""`trimtab apply` and `trimtab approve` on a live cluster with a real Prometheus: what was planned moves, once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.reader_account import run_command
from tests.live.test_moves import HOT, LEDGER, QUICK, ended, records, rescheduler
from tests.live.test_moves import cluster as cluster
from tests.live.test_moves import scheduler as scheduler
from tools.controlplane.client import Document
from tools.controlplane.objects import pod
from tools.controlplane.process import Process

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]
# By its requests; and by their load, if the pods that took the room have been measured already.
TAKEN = "skipped: (its scheduler would not place it on {target} any more|node {target} would be above|it would gain)"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"


def run(cluster: MeteredCluster, command: str, *arguments: str) -> CompletedProcess[str]:
    own = {**stage.prometheus_config(cluster), "rescheduling": {**QUICK, "maxMoves": 1}}
    config = trimtab_process.write_config(cluster.rig, "apply", own)
    kubeconfig = str(cluster.rig.admin_kubeconfig)
    return run_command(cluster.rig, command, "--config", str(config), "--kubeconfig", kubeconfig, *arguments)


def planned(cluster: MeteredCluster, file: Path) -> Document:
    """The move of a plan of a cluster with a hot node."""
    cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
    trimtab_process.wait_for(lambda: 2 == run(cluster, "plan", "-o", str(file)).returncode, 90, "a plan with a move")
    (move,) = json.loads(file.read_text())["moves"]
    found: Document = move
    return found


def test_a_changed_pod_is_skipped(cluster: MeteredCluster, scheduler: Process, tmp_path: Path) -> None:
    """Its Deployment has replaced it since: the new pod was not planned for, and nothing is charged. With the kill switch on
    a lease the plan is not even tried."""
    move, patch = planned(cluster, tmp_path / "plan.json"), {"metadata": {"annotations": {"trimtab.dev/paused": "17"}}}
    cluster.rig.admin.patch(f"{LEASE}/trimtab", patch)
    done = run(cluster, "apply", str(tmp_path / "plan.json"), "--auto-approve")
    patch["metadata"]["annotations"]["trimtab.dev/paused"] = "false"
    cluster.rig.admin.patch(f"{LEASE}/trimtab", patch)
    assert (1, "trimtab: moves are paused by lease trimtab/trimtab: 17\n") == (done.returncode, done.stderr)
    cluster.rig.admin.raw("DELETE", f"/api/v1/namespaces/default/pods/{move['pod'].partition('/')[2]}")
    trimtab_process.wait_for(lambda: move["uid"] not in uids(cluster), 30, "the pod is gone")
    done = run(cluster, "apply", str(tmp_path / "plan.json"), "--auto-approve")
    assert 2 == done.returncode, done.stderr
    assert f"{move['pod']}: skipped: there is no pod with its UID any more" in done.stdout
    assert [] == records(cluster)


def test_a_target_that_was_taken(cluster: MeteredCluster, scheduler: Process, tmp_path: Path) -> None:
    """Other pods have filled all nodes since the plan was made: nothing is charged. A plan that is too old is not tried."""
    move = planned(cluster, tmp_path / "plan.json")
    others = [name for name in cluster.exporters.names if name != HOT]
    cluster.rig.admin.create_many(pod(f"filler-{name}", cpu="7500m", nodeName=name) for name in others)
    done = run(cluster, "apply", str(tmp_path / "plan.json"), "--auto-approve")
    assert 2 == done.returncode, done.stderr
    assert "Applied: 0 done, 1 skipped, 0 failed." in done.stdout
    assert re.search(TAKEN.format(target=move["target"]), done.stdout), done.stdout
    old = run(cluster, "apply", str(tmp_path / "plan.json"), "--auto-approve", "--max-age", "1s")
    assert 1 == old.returncode and "1s" in old.stderr
    assert [] == records(cluster)


def test_a_plan_is_carried_out_once(cluster: MeteredCluster, scheduler: Process, tmp_path: Path) -> None:
    """The pod leaves the hot node, each step is told, and the exit code is 0; the same file then moves nothing."""
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
    kubeconfig = ("--kubeconfig", str(cluster.rig.admin_kubeconfig))
    with rescheduler(cluster, mode="approve", maxMoves=1) as trimtab:
        cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
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
