"""The API server crashes during a batch; Trimtab continues by itself when it is back."""

import time
from pathlib import Path

import pytest
import yaml

from tests.live import trimtab_process
from tests.live.audit_checker import grants
from tests.live.binding_webhook import BindingWebhook
from tests.live.requires_controlplane import controlplane_or_skip
from tests.serve.exposition import Exposition
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

PODS = 400


def test_the_api_server_crashes_during_a_batch(rig: Rig) -> None:
    """Killed and restarted mid-batch: every pod is bound in the end, none twice, and the process never ended.

    What became of the binds under way is read back, so afterwards every right of deploy/rbac.yaml was used, and no other.
    """
    trimtab_process.install(rig, "rbac.yaml")
    rig.admin.create(pod("giant", cpu="64", scheduler=trimtab_process.SCHEDULER))
    rig.admin.create_many(node(f"node-{i}", cpu="32", memory="64Gi") for i in range(20))
    # A lease that outlasts the outage: what is tried here is the scheduler's work, not a change of leaders.
    patient = {"leaseDuration": "90s", "renewDeadline": "60s", "retryPeriod": "2s"}
    lease = {"leaderElect": True, **patient}
    trimtab = trimtab_process.start(rig, profiles=[trimtab_process.WITHOUT_OPTIONAL], leaderElection=lease)
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(trimtab), 40, "ready", trimtab)
        with BindingWebhook(rig, pass_first=50) as point:
            rig.admin.create_many(pod(f"pod-{i}", scheduler=trimtab_process.SCHEDULER) for i in range(PODS))
            assert point.held.wait(40), trimtab.log_tail()
            rig.kill_apiserver()
            assert 200 == trimtab_process.page(trimtab, "/livez")[0]
            rig.start_apiserver()
            assert len(trimtab_process.bound(rig)) < PODS, "the outage came too late to disturb anything"
            point.release()
        trimtab_process.wait_for(lambda: len(trimtab_process.bound(rig)) == PODS, 90, "all are bound", trimtab)
        assert trimtab.running()
        trimtab_process.wait_for(lambda: _series(rig), 70, "a series of events", trimtab)
    finally:
        trimtab.terminate()
    verdict = trimtab_process.check_audit_log(rig)
    # A server that has just started answers 403 until its own cache of roles is filled; that is no fault of ours.
    assert [] == [each for each in verdict.violations if not each.startswith("refused with 403")]
    assert grants(yaml.safe_load_all((trimtab_process.ROOT / "deploy" / "rbac.yaml").read_text())) == verdict.used


def _series(rig: Rig) -> bool:
    """The huge pod failed more than once: its Event has become a series, which needs permission to patch it."""
    return any(event.get("series") for event in rig.admin.list("/apis/events.k8s.io/v1/namespaces/default/events"))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_api_server_crashes_at_size() -> None:
    """F1: with 5,000 nodes, when half of 50,000 pods are bound: the rest follows, and memory is at most twice as large."""
    with Rig(controlplane_or_skip()) as rig:
        trimtab_process.install(rig, "rbac.yaml")
        rig.admin.create_many(node(f"node-{i}", cpu="32", memory="64Gi") for i in range(5_000))
        rig.admin.create_many(pod(f"pod-{i}", scheduler=trimtab_process.SCHEDULER) for i in range(50_000))
        unlimited = {"qps": 5_000, "burst": 10_000}
        trimtab = trimtab_process.start(rig, profiles=[trimtab_process.WITHOUT_OPTIONAL], clientConnection=unlimited)
        try:
            trimtab_process.wait_for(lambda: trimtab_process.is_ready(trimtab), 90, "ready", trimtab)
            trimtab_process.wait_for(lambda: _bound(trimtab) >= 25_000, 300, "half are bound", trimtab)
            steady, before = _resident(trimtab), _bound(trimtab)
            rig.kill_apiserver()
            assert before < 50_000, "the outage came too late to disturb anything"
            rig.start_apiserver()
            began, most = time.monotonic(), steady
            while _unbound(rig) and time.monotonic() < began + 300:
                most = max(most, _resident(trimtab))
            print(f"bound before {before}, all after {time.monotonic() - began:.0f} s, {steady} → {most} MiB")
            assert [] == _unbound(rig)
            assert trimtab.running()
            assert most <= 2 * steady
        finally:
            trimtab.terminate()
        verdict = trimtab_process.check_audit_log(rig)
        assert [] == [each for each in verdict.violations if not each.startswith("refused with 403")]


def _bound(trimtab: Process) -> float:
    """How many pods it has bound, by its own count."""
    attempts = Exposition(trimtab_process.page(trimtab, "/metrics")[1]).families["scheduler_schedule_attempts_total"]
    return sum(each.value for each in attempts.samples if each.labels["result"] == "scheduled")


def _unbound(rig: Rig) -> list[Document]:
    return rig.admin.list("/api/v1/pods?fieldSelector=spec.nodeName%3D")


def _resident(trimtab: Process) -> int:
    """MiB."""
    status = Path(f"/proc/{trimtab.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) >> 10


def test_the_lease_of_kube_scheduler_is_shared_with_it(rig: Rig) -> None:
    """A profile called default-scheduler takes kube-scheduler's own lease, so the two never lead together."""
    trimtab_process.install(rig)
    rig.apply(trimtab_process.ROOT / "deploy" / "components/default-scheduler/rbac-default-scheduler.yaml")
    trimtab = trimtab_process.start(rig, "ours", profiles=[{"schedulerName": "default-scheduler"}])
    try:
        trimtab_process.wait_for(lambda: _holder(rig).startswith("ours"), 40, "we lead", trimtab)
        rival = rig.start_kube_scheduler({"leaderElection": {"leaderElect": True}})
        rig.ensure_namespace("shared")
        rig.admin.create(pod("one", "shared"))
        trimtab_process.wait_for(lambda: trimtab_process.bound(rig, "shared"), 30, "our bind", trimtab)
        trimtab.terminate()
        trimtab_process.wait_for(
            lambda: _holder(rig) and not _holder(rig).startswith("ours"), 40, "the rival leads", rival
        )
    finally:
        if trimtab.running():
            trimtab.terminate()


def _holder(rig: Rig) -> str:
    leases = rig.admin.list("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
    return next(
        (each["spec"].get("holderIdentity") or "" for each in leases if each["metadata"]["name"] == "kube-scheduler"),
        "",
    )
