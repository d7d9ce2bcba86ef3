"""Rescheduler's own ConfigMap runs as it stands on a real API server, in a cluster that measures nothing."""

import pytest

from tests.live import trimtab_process
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

NAME = "rescheduler-scheduler"
CONFIG_MAP = f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: rescheduler-config-production
  namespace: kube-system
data:
  config.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration

    leaderElection:
      leaderElect: true
      leaseDuration: 30s
      renewDeadline: 20s
      retryPeriod: 5s

    profiles:
      - schedulerName: {NAME}
        plugins:
          filter:
            enabled: [name: Rescheduler]
          score:
            enabled: [name: Rescheduler]
        pluginConfig:
        - name: Rescheduler
          args:
            reschedulingInterval: "0s"
            cpuThreshold: 80.0
            memoryThreshold: 80.0
            enableReschedulingController: false
"""
THERE = {"kubernetes.io/hostname": "full"}


def test_thresholds_hold_by_requests(rig: Rig) -> None:
    """Without metrics a node above the threshold by requests gets no pod, the Event says by what, and others do."""
    trimtab_process.install(rig, *trimtab_process.ROLES, "rbac-metrics.yaml")
    rig.admin.create_many(node(name, cpu="10", labels={"kubernetes.io/hostname": name}) for name in ("full", "free"))
    rig.admin.create(pod("big", cpu="8500m", scheduler="other", nodeName="full"))
    file = rig.workspace / "configmap.yaml"
    file.write_text(CONFIG_MAP)
    trimtab = trimtab_process.launch(rig, file)
    try:
        rig.admin.create(pod("any", cpu="100m", scheduler=NAME))
        trimtab_process.wait_for(lambda: trimtab_process.bound(rig).get("any"), 60, "a pod bound", trimtab)
        rig.admin.create(pod("bent", cpu="100m", scheduler=NAME, nodeSelector=THERE))
        words = "1 node(s) had requests for more than 80% of their CPU"
        trimtab_process.wait_for(lambda: words in rig.kubectl("describe", "pod", "bent"), 20, "the reason", trimtab)
    finally:
        code = trimtab.terminate()
    assert (0, "free") == (code, trimtab_process.bound(rig)["any"])
    assert "so Rescheduler reads metrics-server" in (rig.workspace / "trimtab.log").read_text()
