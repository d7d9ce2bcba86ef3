"""What somebody meets in the first hour: running as kube-scheduler's own account, with its stock ClusterRole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live import trimtab_process
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process, free_port
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

STOCK = "system:kube-scheduler"
RESCHEDULER = {
    "schedulerName": trimtab_process.SCHEDULER,
    "plugins": {"multiPoint": {"enabled": [{"name": "Rescheduler"}]}},
    "pluginConfig": [{"name": "Rescheduler", "args": {"cpuThreshold": 63, "strict": True}}],
}
COSCHEDULING = {"multiPoint": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}}


def run_as_kube_scheduler(rig: Rig, name: str, **settings: object) -> Process:
    """`trimtab run` as the user system:kube-scheduler, which only has the roles that every cluster gives it."""
    url, config = f"http://127.0.0.1:{free_port()}", trimtab_process.write_config(rig, name, **settings)
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(config), "--serve", url.removeprefix("http://")]
    command += ["--kubeconfig", str(rig.client_kubeconfig(STOCK))]
    paths = f"{trimtab_process.ROOT / 'src'}:{trimtab_process.ROOT}"
    return Process(command, rig.workspace / f"{name}.log", {"PYTHONPATH": paths}, url)


@pytest.fixture
def stock(rig: Rig) -> Iterator[Process]:
    """In kube-scheduler's place, with a plugin that needs more than the stock role grants."""
    rig.admin.create(node("node"))
    profile = {"schedulerName": "default-scheduler", "plugins": COSCHEDULING}
    process = run_as_kube_scheduler(rig, "stock", profiles=[profile])
    try:
        yield process
    finally:
        process.terminate()


def condition(rig: Rig, name: str) -> str:
    """The message of the pod's PodScheduled condition."""
    status = rig.admin.get(f"/api/v1/namespaces/default/pods/{name}")["status"]
    return next((each.get("message", "") for each in status.get("conditions", ())), "")


def test_the_stock_role_suffices_but_for_the_pods_of_one_plugin(rig: Rig, stock: Process) -> None:
    """A plain pod is bound, the member of a gang says who may not list what; with that permission it goes on."""
    member = pod("member", scheduler="default-scheduler")
    member["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "train"}
    rig.admin.create(member)
    rig.admin.create(pod("plain", scheduler="default-scheduler"))
    trimtab_process.wait_for(lambda: trimtab_process.bound(rig) == {"plain": "node"}, 40, "the plain pod", stock)
    trimtab_process.wait_for(lambda: condition(rig, "member"), 20, "the condition", stock)
    said = condition(rig, "member")
    assert "Coscheduling needs podgroups, which this scheduler cannot list" in said
    assert f'User "{STOCK}" cannot list resource "podgroups" in API group "scheduling.' in said
    assert "apply deploy/rbac-system-kube-scheduler.yaml, or disable Coscheduling" in said
    assert 500 == trimtab_process.page(stock, "/readyz")[0]
    rig.ensure_namespace("trimtab")
    rig.apply(trimtab_process.ROOT / "deploy" / "rbac-system-kube-scheduler.yaml")
    trimtab_process.wait_for(lambda: trimtab_process.is_ready(stock), 60, "ready", stock)
    trimtab_process.wait_for(lambda: "does not exist" in condition(rig, "member"), 20, "the group is missed", stock)


def test_a_lease_that_the_account_may_not_use(rig: Rig) -> None:
    """With another profile's name the lease is another one: the log names the account and both ways out."""
    process = run_as_kube_scheduler(rig, "lease", profiles=[{"schedulerName": "other"}])
    try:
        remedy = "apply deploy/rbac-system-kube-scheduler.yaml"
        trimtab_process.wait_for(lambda: remedy in process.log_tail(), 40, "the remedy", process)
        assert "or set leaderElection.resourceName to kube-scheduler" in process.log_tail()
    finally:
        process.terminate()


def own_settings(level: str) -> dict[str, Any]:
    """A rescheduler that only observes, without any metrics."""
    return {"logging": {"level": level}, "rescheduling": {"interval": "10s"}}


@pytest.fixture
def trimtab(rig: Rig) -> Iterator[Process]:
    """With the shipped roles, as anybody starts it."""
    trimtab_process.install(rig)
    process = trimtab_process.start(rig, "explained", own_settings("info"), profiles=[RESCHEDULER])
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(process), 40, "ready", process)
        yield process
    finally:
        process.terminate()


def test_a_decision_is_explained_and_the_log_level_changes_while_it_runs(rig: Rig, trimtab: Process) -> None:
    """`trimtab explain` has scores, waiting and the stock choice; a changed file brings the same into the log.

    The third pod brings its node above Rescheduler's threshold: it is bound, with a warning in the log and a counter.
    """
    rig.admin.create(node("large", cpu="64"))
    rig.admin.create(pod("first", scheduler=trimtab_process.SCHEDULER, cpu="40"))
    trimtab_process.wait_for(lambda: "first" in trimtab_process.bound(rig), 30, "first is bound", trimtab)
    rig.admin.create(pod("second", scheduler=trimtab_process.SCHEDULER, cpu="40"))
    trimtab_process.wait_for(lambda: "Insufficient cpu" in condition(rig, "second"), 30, "second waits", trimtab)
    rig.admin.delete("/api/v1/namespaces/default/pods/first", grace_seconds=0)
    trimtab_process.wait_for(lambda: "second" in trimtab_process.bound(rig), 30, "second is bound", trimtab)
    said = trimtab_process.trimtab("explain", "pod/second", "--address", trimtab.url.removeprefix("http://"))
    assert "rejected by NodeResourcesFit" in said and "a pod was deleted" in said and "attempts:" in said
    assert "with kube-scheduler's own profile: large: best of 1 of" in said
    assert "score of large" in said and "TaintToleration" in said
    why_not = trimtab_process.trimtab("explain", "node/large", "--address", trimtab.url.removeprefix("http://"))
    assert "rescheduling (observe): no pod is moved at all: missing metrics: " in why_not
    assert "Z: nothing was moved at all: missing metrics: " in why_not
    assert "scored: pod=" not in trimtab.log.read_text()
    trimtab_process.write_config(rig, "explained", own_settings("debug"), profiles=[RESCHEDULER])
    trimtab_process.wait_for(lambda: "configuration reloaded" in trimtab.log.read_text(), 30, "reloaded", trimtab)
    rig.admin.create(pod("third", scheduler=trimtab_process.SCHEDULER, cpu="20"))
    trimtab_process.wait_for(lambda: "third" in trimtab_process.bound(rig), 30, "third is bound", trimtab)
    log = trimtab.log.read_text()
    assert "scored: pod=default/third node=large" in log and "waited: pod=default/third" in log
    assert "explained: pod=default/third verdict=" in log and "ignored until restart" not in log
    warned = "warning before binding: pod=default/third node=large plugin=Rescheduler stage=PreBind"
    assert warned in log and "predicted_cpu_percent=93.8" in log
    series = 'trimtab_stage_results_total{extension_point="PreBind",plugin="Rescheduler",result="warned"} 1.0'
    assert series in trimtab_process.page(trimtab, "/metrics")[1]
