"""A missing role: reported by name, only what needs it waits where that is safe, and it recovers once granted."""

from __future__ import annotations

import pytest

from tests.live import trimtab_process
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
LEASES = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/trimtab-scheduler"


def test_a_missing_role_stops_only_the_pods_that_need_it(rig: Rig) -> None:
    """Without rbac-volumes.yaml Trimtab is not ready, binds pods without volumes, and tells the others what is missing."""
    trimtab_process.install(rig, "rbac.yaml", "rbac-preemption.yaml")
    rig.admin.create(node("node"))
    rig.admin.create(pod("web", scheduler=trimtab_process.SCHEDULER))
    claiming = pod("db", scheduler=trimtab_process.SCHEDULER)
    claiming["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    rig.admin.create(claiming)
    trimtab = trimtab_process.start(rig)
    try:
        advice = "apply deploy/rbac-volumes.yaml, or disable "
        trimtab_process.wait_for(lambda: trimtab_process.bound(rig) == {"web": "node"}, 40, "web is bound", trimtab)
        trimtab_process.wait_for(lambda: advice in condition(rig, "db"), 20, "the role is named", trimtab)
        assert f'User "{trimtab_process.ACCOUNT}" cannot list resource' in condition(rig, "db")
        assert (200, 500) == (trimtab_process.page(trimtab, "/livez")[0], trimtab_process.page(trimtab, "/readyz")[0])
        assert "[-]informer-sync failed" in trimtab_process.page(trimtab, "/readyz")[1]
        trimtab_process.install(rig, "rbac-volumes.yaml")
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(trimtab), 60, "ready", trimtab)
        found = 'persistentvolumeclaim "data" not found'
        trimtab_process.wait_for(lambda: found in condition(rig, "db"), 30, "the claim is looked for", trimtab)
    finally:
        trimtab.terminate()


def condition(rig: Rig, name: str) -> str:
    """The message of the pod's PodScheduled condition."""
    status = rig.admin.get(f"/api/v1/namespaces/default/pods/{name}")["status"]
    return next((each.get("message", "") for each in status.get("conditions", ())), "")


def test_nothing_is_scheduled_without_a_kind_that_any_pod_may_need(rig: Rig) -> None:
    """Without namespaces a replica is live, never takes the lease, and says in its log which role to apply."""
    role = rig.admin.get(ROLE)
    namespaces = [rule for rule in role["rules"] if "namespaces" in rule.get("resources", ())]
    assert namespaces
    for rule in namespaces:
        rule["resources"].remove("namespaces")
    rig.admin.patch(ROLE, {"rules": role["rules"]})
    rig.admin.raw("DELETE", f"{LEASES}/trimtab")
    rig.admin.create(pod("later", scheduler=trimtab_process.SCHEDULER))
    trimtab = trimtab_process.start(rig, "later")
    try:
        advice = "apply deploy/rbac.yaml, or disable InterPodAffinity"
        trimtab_process.wait_for(lambda: advice in trimtab.log_tail(), 40, "the role is named", trimtab)
        assert [] == rig.admin.list(LEASES)
        assert "later" not in trimtab_process.bound(rig)
        trimtab_process.install(rig, "rbac.yaml")
        trimtab_process.wait_for(lambda: "later" in trimtab_process.bound(rig), 60, "bound", trimtab)
    finally:
        trimtab.terminate()
