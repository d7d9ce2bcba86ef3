"""Preemption on a real API server: victims, nominations, conditions and Events.

There are no kubelets, so a deleted pod stays until the test removes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.live import trimtab_process
from tests.live.audit_checker import grants
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

GRACE = 7
PODS = "/api/v1/namespaces/default/pods"
ROLE = "rbac-preemption.yaml"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Two full nodes; a disruption budget protects the pod on the first of them."""
    with Rig(controlplane_or_skip()) as running:
        trimtab_process.install(running)
        running.admin.create_many([priority("urgent", 1000), priority("patient", 1000, preemptionPolicy="Never")])
        running.admin.create_many(node(name, cpu="2") for name in ("guarded", "free"))
        running.admin.create_many(lesser(f"on-{name}", name) for name in ("guarded", "free"))
        running.admin.create(budget())
        running.admin.patch(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guard/status",
            {"status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}},
        )
        yield running


def priority(name: str, value: int, **more: str) -> Document:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**kind, "value": value, **more}


def lesser(name: str, on: str) -> Document:
    spec: dict[str, Any] = {"nodeName": on, "terminationGracePeriodSeconds": GRACE}
    return pod(name, cpu="2", labels={"app": on}, **spec)


def budget() -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }


def wanting(name: str, of: str = "urgent") -> Document:
    return pod(name, cpu="1500m", scheduler=trimtab_process.SCHEDULER, priorityClassName=of)


def seen(rig: Rig, name: str) -> Document:
    found: Document = rig.admin.get(f"{PODS}/{name}")
    return found


def leaving(rig: Rig) -> list[str]:
    return [each["metadata"]["name"] for each in trimtab_process.pods(rig) if each["metadata"].get("deletionTimestamp")]


def described(rig: Rig, name: str, words: str) -> bool:
    return words in rig.kubectl("describe", "pod", name)


def test_without_permission_to_delete_pods(rig: Rig) -> None:
    """The preemptor's Events name the missing permission, nothing is deleted, and other pods are still placed."""
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/trimtab-preemption"
    whole = rig.admin.get(role)["rules"]
    rig.admin.patch(role, {"rules": [each for each in whole if "delete" not in each["verbs"]]})
    time.sleep(1.0)  # until the server's authoriser has heard of it
    rig.admin.create(wanting("hindered"))
    trimtab = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(
            lambda: described(rig, "hindered", "cannot delete resource"), 60, "an event that says why", trimtab
        )
        rig.admin.create(node("new", cpu="1"))
        rig.admin.create(pod("small", scheduler=trimtab_process.SCHEDULER))
        trimtab_process.wait_for(lambda: "small" in trimtab_process.bound(rig), 30, "another pod bound", trimtab)
        trimtab_process.wait_for(
            lambda: not seen(rig, "hindered")["status"].get("nominatedNodeName"), 20, "the promise taken back", trimtab
        )
    finally:
        assert 0 == trimtab.terminate()
    assert [] == leaving(rig)
    rig.admin.patch(role, {"rules": whole})
    rig.admin.delete(f"{PODS}/hindered", grace_seconds=0)
    time.sleep(1.0)


def test_an_urgent_pod_preempts_a_lower_priority_one(rig: Rig) -> None:
    """The victim is deleted with its own grace period, and no budget is violated; then the pod is bound to its node."""
    rig.admin.create_many([wanting("now"), wanting("whenever", "patient")])
    trimtab = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(lambda: leaving(rig) == ["on-free"], 60, "the victim deleted", trimtab)
        victim = seen(rig, "on-free")
        trimtab_process.wait_for(
            lambda: seen(rig, "now")["status"].get("nominatedNodeName") == "free", 20, "a promise", trimtab
        )
        trimtab_process.wait_for(
            lambda: described(rig, "on-free", "Preempted by pod"), 20, "the victim's event", trimtab
        )
        never = "not eligible due to preemptionPolicy=Never"
        trimtab_process.wait_for(lambda: described(rig, "whenever", never), 20, "why the other waits", trimtab)
        assert "now" not in trimtab_process.bound(rig)
        rig.admin.delete(f"{PODS}/on-free", grace_seconds=0)
        trimtab_process.wait_for(lambda: "now" in trimtab_process.bound(rig), 30, "the pod bound", trimtab)
        metrics = trimtab_process.page(trimtab, "/metrics")[1]
    finally:
        assert 0 == trimtab.terminate()
    assert GRACE == victim["metadata"]["deletionGracePeriodSeconds"]
    condition = next(each for each in victim["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert ("True", "PreemptionByScheduler") == (condition["status"], condition["reason"])
    assert "free" == trimtab_process.bound(rig)["now"]
    assert "nodeName" not in seen(rig, "whenever")["spec"]
    assert "nominatedNodeName" not in seen(rig, "whenever")["status"]
    assert "scheduler_preemption_victims_count 1.0" in metrics
    judged(rig)


def judged(rig: Rig) -> None:
    """Nothing was done against the rules, beside what the first test forbade; every right of the role was used."""
    report = trimtab_process.check_audit_log(rig)
    assert {"refused with 403: delete  pods"} == {*report.violations}
    assert {*grants(yaml.safe_load_all((trimtab_process.ROOT / "deploy" / ROLE).read_text()))} <= report.used
