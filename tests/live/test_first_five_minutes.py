"""The first five minutes, read-only: `trimtab plan` beside kube-scheduler and metrics-server, with nothing of ours there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.reader_account import AGGREGATION, install_reader, requests_of, run_command
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.test_moves import HOT, app, cordon
from tests.live.test_plan import may_list
from tools.controlplane.client import Document
from tools.controlplane.metrics_server import usage_annotations, with_usage
from tools.controlplane.objects import pod
from tools.controlplane.rig import WORKLOADS

pytestmark = pytest.mark.live
APPS, REPLICAS = 3, 2
QUICK = "apiVersion: trimtab.dev/v1alpha1\nkind: TrimtabConfiguration\nrescheduling: {minPodAge: 0s, settleTime: 0s}\n"


def stock_app(name: str) -> Document:
    """Its pods are kube-scheduler's, and use twice what they request."""
    found = app(name, REPLICAS)
    template = found["spec"]["template"]
    del template["spec"]["schedulerName"]
    template["metadata"]["annotations"] = usage_annotations("1200m", "1Gi")
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "600m"
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """kube-scheduler has placed all pods on one of three nodes, which uses 90 % of its CPU; the others were cordoned."""
    asked = MeteredCluster(controlplane_or_skip(), 3, controllers=(*WORKLOADS, AGGREGATION), metrics_server=True)
    with asked as running:
        running.rig.start_kube_scheduler()
        for name in running.exporters.names:
            cordon(running, name, name != HOT)
        running.rig.admin.create_many(stock_app(f"app-{number}") for number in range(APPS))
        others = [name for name in running.exporters.names if name != HOT]  # metrics-server leaves out idle nodes
        running.rig.admin.create_many(with_usage(pod(f"agent-{name}", nodeName=name), "200m", "1Gi") for name in others)
        trimtab_process.wait_for(lambda: APPS * REPLICAS == stage.by_node(running)[HOT], 60, "pods on one node")
        for name in running.exporters.names:
            cordon(running, name, False)
        running.start_metrics_server()
        trimtab_process.wait_for(lambda: measured(running) == APPS * REPLICAS + 2, 60, "metrics of all pods")
        install_reader(running.rig)
        trimtab_process.wait_for(lambda: may_list(running), 40, "the view role has rules")
        yield running


def measured(cluster: MeteredCluster) -> int:
    return len(cluster.rig.admin.list("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"))


def test_plan(cluster: MeteredCluster, tmp_path: Path) -> None:
    """Without any file young pods stay, with the reason. Where they may be young, a pod of the hot node would go to either of
    the others, whichever kube-scheduler chooses. Nothing was written."""
    reader = ("--kubeconfig", str(install_reader(cluster.rig)))
    young = run_command(cluster.rig, "plan", "--why-not", *reader)
    assert 0 == young.returncode, young.stdout + young.stderr
    assert "Nothing to move despite 1 node above the limit of cpu" in young.stdout and "minimum age (6)" in young.stdout
    file = tmp_path / "trimtab.yaml"
    file.write_text(QUICK)
    found = run_command(cluster.rig, "plan", "--why-not", "--config", str(file), *reader)
    assert 2 == found.returncode, found.stdout + found.stderr
    assert f"{HOT} → node-" in found.stdout and "its scheduler could choose any" in found.stdout
    assert {"get", "list"} == {each["verb"] for each in requests_of(cluster.rig)}
