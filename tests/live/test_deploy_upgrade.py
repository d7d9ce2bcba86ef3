"""Upgrades under a leader that runs: to another lease, with a rollout that does not finish, and without the record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.deploy_commands import API, deploy, done, exists, writes
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.objects import node
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS, Rig

pytestmark = pytest.mark.live

LEASES = "/apis/coordination.k8s.io/v1/namespaces/mine/leases"
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/mine/roles/trimtab-lease"
OTHER_LEASE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceNamespace: kube-system, resourceName: other}
profiles: [{schedulerName: trimtab}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Rig]:
    """One node, the controllers of workloads, and the stock scheduler for Trimtab's own pods."""
    with Rig(controlplane_or_skip(), controllers=WORKLOADS, kwok=True) as rig:
        rig.ensure_namespace("kube-system")
        rig.ensure_namespace("mine")
        rig.admin.create(node("node-1"))
        rig.start_kube_scheduler()
        yield rig


@pytest.fixture
def leader(cluster: Rig, tmp_path: Path) -> Iterator[Process]:
    """A replica with the installed file and account, which holds the lease."""
    done(deploy(cluster, "install", "-n", "mine", "--yes"))
    config = tmp_path / "config.yaml"
    config.write_text(cluster.admin.get(f"{API}/namespaces/mine/configmaps/trimtab")["data"]["config.yaml"])
    process = trimtab_process.launch(cluster, config, "leader", namespace="mine")
    trimtab_process.wait_for(lambda: renewed(cluster), 40, "it leads", process)
    yield process
    process.terminate()
    done(deploy(cluster, "uninstall", "-n", "mine", "--yes"))


def renewed(rig: Rig) -> str:
    """When the first lease was renewed; empty if never."""
    return str((rig.admin.get(f"{LEASES}/trimtab").get("spec") or {}).get("renewTime", ""))


def allowed(rig: Rig) -> list[str]:
    names: list[str] = rig.admin.get(ROLE)["rules"][1]["resourceNames"]
    return names


def test_another_lease(cluster: Rig, leader: Process, tmp_path: Path) -> None:
    """The leader goes on until the new replicas run; a run that does not get there is completed by the next one."""
    for _ in range(3):
        with writes() as written:
            assert "no changes, " in done(deploy(cluster, "install", "-n", "mine", "--yes"))
        assert [] == written
    file = tmp_path / "f.yaml"
    file.write_text(OTHER_LEASE)
    upgrade = ("upgrade", "-n", "mine", "-c", str(file), "--yes")
    cluster.admin.patch(f"{API}/nodes/node-1", {"spec": {"unschedulable": True}})
    stuck = deploy(cluster, *upgrade, "--timeout", "2")
    assert (1, True) == (stuck.exit_code, "not available after 2 s" in stuck.stderr), stuck.output
    assert "note: f.yaml: the lease moves from kube-system/other to mine/other" in stuck.stdout
    assert "note: the lease mine/trimtab is replaced by mine/other" in stuck.stdout
    assert ["other", "trimtab"] == allowed(cluster)
    last = renewed(cluster)
    trimtab_process.wait_for(lambda: renewed(cluster) > last, 10, "it still leads", leader)
    assert leader.running()
    leader.terminate()
    cluster.admin.patch(f"{API}/nodes/node-1", {"spec": {"unschedulable": None}})
    assert "deleted Lease mine/trimtab" in done(deploy(cluster, *upgrade, "--timeout", "60"))
    assert (["other"], False) == (allowed(cluster), exists(cluster, f"{LEASES}/trimtab"))
    assert "no changes, " in done(deploy(cluster, *upgrade))
    _check_lost_record(cluster)


def _check_lost_record(cluster: Rig) -> None:
    """Status says what is missing, and an upgrade writes it again, with the settings that the objects have."""
    cluster.admin.delete(f"{API}/namespaces/mine/configmaps/trimtab-deploy")
    lost = deploy(cluster, "status", "-n", "mine")
    assert "ConfigMap mine/trimtab-deploy is missing: run trimtab deploy upgrade" in lost.stdout
    taken_over = done(deploy(cluster, "upgrade", "-n", "mine", "--yes"))
    assert "1 change, " in taken_over
    assert "created ConfigMap mine/trimtab-deploy" in taken_over
    assert "mine/other" in deploy(cluster, "status", "-n", "mine").stdout
