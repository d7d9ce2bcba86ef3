"""A missing role of the default profile: reported by name, nothing is scheduled, and it recovers once granted."""

from __future__ import annotations

import pytest

from tests.live import trimtab_process
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
LEASES = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"


def test_a_missing_role_is_reported_until_it_is_granted(rig: Rig) -> None:
    """Without rbac-volumes.yaml Trimtab is live but not ready, and does not take the lease; with it the pod is bound."""
    trimtab_process.install(rig, "rbac.yaml", "rbac-preemption.yaml")
    rig.admin.create(node("node"))
    rig.admin.create(pod("web", scheduler=trimtab_process.SCHEDULER))
    trimtab = trimtab_process.start(rig)
    try:
        advice = "apply deploy/rbac-volumes.yaml, or disable "
        trimtab_process.wait_for(lambda: advice in trimtab.log_tail(), 40, "the role is named", trimtab)
        assert (200, 500) == (trimtab_process.page(trimtab, "/livez")[0], trimtab_process.page(trimtab, "/readyz")[0])
        assert "[-]informer-sync failed" in trimtab_process.page(trimtab, "/readyz")[1]
        assert [] == rig.admin.list(LEASES)
        trimtab_process.install(rig, "rbac-volumes.yaml")
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(trimtab), 60, "ready", trimtab)
        trimtab_process.wait_for(lambda: trimtab_process.bound(rig) == {"web": "node"}, 30, "bound", trimtab)
    finally:
        trimtab.terminate()
