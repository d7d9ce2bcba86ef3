"""The acceptance workload on a real API server: what a first user does, seen with kubectl."""

import pytest

from tests.live import trimtab_process
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

TWELVE = (  # name, mCPU, MiB
    ("pod-1", 500, 500),
    ("pod-2", 1000, 1024),
    ("pod-3", 1000, 1536),
    ("pod-4", 2000, 2048),
    ("pod-5", 250, 256),
    ("pod-6", 1500, 2048),
    ("pod-7", 500, 1024),
    ("pod-8", 2000, 4096),
    ("pod-9", 3000, 3072),
    ("pod-10", 750, 512),
    ("pod-11", 1000, 1024),
    ("pod-12", 250, 128),
)
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def test_twelve_pods_are_bound_and_none_to_the_tainted_node(rig: Rig) -> None:
    """All twelve are bound to workers, the thirteenth says why not in Events and condition; the audit log is clean."""
    trimtab_process.install(rig)
    rig.admin.create_many([node("control-plane", taints=[CONTROL_PLANE]), *(node(f"worker-{i}") for i in (1, 2, 3))])
    rig.admin.create_many(
        pod(name, cpu=f"{cpu}m", memory=f"{memory}Mi", scheduler=trimtab_process.SCHEDULER)
        for name, cpu, memory in TWELVE
    )
    rig.admin.create(pod("giant", cpu="64", scheduler=trimtab_process.SCHEDULER))
    rig.admin.create(pod("not-ours", scheduler="somebody-else"))
    trimtab = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(lambda: len(trimtab_process.bound(rig)) == 12, 60, "twelve pods bound", trimtab)
        trimtab_process.wait_for(
            lambda: "FailedScheduling" in rig.kubectl("describe", "pod", "giant"), 20, "an event", trimtab
        )
        trimtab_process.wait_for(
            lambda: "Successfully assigned" in rig.kubectl("describe", "pod", "pod-9"), 20, "events", trimtab
        )
        trimtab_process.wait_for(
            lambda: _condition_reason(rig, "giant") == "Unschedulable", 20, "the condition", trimtab
        )
        metrics = trimtab_process.page(trimtab, "/metrics")[1]
    finally:
        code = trimtab.terminate()
    assert 0 == code
    placed = trimtab_process.bound(rig)
    assert {name for name, _, _ in TWELVE} == set(placed)
    assert "control-plane" not in placed.values()
    described = rig.kubectl("describe", "pod", "giant")
    assert "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu." in described
    assert 'scheduler_schedule_attempts_total{profile="trimtab",result="scheduled"} 12.0' in metrics
    verdict = trimtab_process.check_audit_log(rig)
    assert () == verdict.violations
    assert 12 == len(verdict.bound)


def _condition_reason(rig: Rig, name: str) -> str:
    conditions = rig.admin.get(f"/api/v1/namespaces/default/pods/{name}")["status"].get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "PodScheduled"), "")
