"""A right that the default profile needs was not granted: said by name, nothing decided, and healed when it is."""

from __future__ import annotations

import pytest

from tests.live import product
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
LEASES = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"


def test_a_missing_role_is_named_and_waited_for(rig: Rig) -> None:
    """Without rbac-volumes.yaml Trimtab is alive, not ready, and leaves the lease alone; with it the pod is placed."""
    product.install(rig, "rbac.yaml", "rbac-preemption.yaml")
    rig.admin.create(node("node"))
    rig.admin.create(pod("web", scheduler=product.SCHEDULER))
    trimtab = product.start(rig)
    try:
        advice = "apply deploy/rbac-volumes.yaml, or disable "
        product.wait_for(lambda: advice in trimtab.log_tail(), 40, "the role is named", trimtab)
        assert (200, 500) == (product.page(trimtab, "/livez")[0], product.page(trimtab, "/readyz")[0])
        assert "[-]informer-sync failed" in product.page(trimtab, "/readyz")[1]
        assert [] == rig.admin.list(LEASES)
        product.install(rig, "rbac-volumes.yaml")
        product.wait_for(lambda: product.is_ready(trimtab), 60, "ready", trimtab)
        product.wait_for(lambda: product.bound(rig) == {"web": "node"}, 30, "bound", trimtab)
    finally:
        trimtab.terminate()
