"""A leader that gets no more memory in the middle of a batch: it ends, its successor binds the rest, and no pod twice."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.binding_webhook import BindingWebhook
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
PODS, LARGE, BEFORE = 80, 20, 20
ELECTION = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "1s"}


def allow_no_more_memory(process: Process) -> None:
    """The kernel refuses every further page to it (RLIMIT_AS), as it does above a container's limit without killing it."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    size = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmSize:"))
    resource.prlimit(process.pid, resource.RLIMIT_AS, (size, size))


def test_the_leader_runs_out_of_memory_during_a_batch(rig: Rig) -> None:
    """After twenty binds its memory is limited to what it has, while more pods arrive."""
    trimtab_process.install(rig)
    rig.admin.create_many(node(f"node-{number}") for number in range(20))
    leader = trimtab_process.start(rig, "first", leaderElection=ELECTION)
    trimtab_process.wait_for(lambda: trimtab_process.is_ready(leader) and leads(rig, "first"), 40, "leads", leader)
    follower = trimtab_process.start(rig, "second", leaderElection=ELECTION)
    trimtab_process.wait_for(lambda: trimtab_process.is_ready(follower), 40, "stands by", follower)
    try:
        with BindingWebhook(rig, pass_first=BEFORE) as point:
            create_pods(rig, "early", PODS)
            assert point.held.wait(30), leader.log_tail()
            allow_no_more_memory(leader)
            create_pods(rig, "late", PODS)
            create_pods(rig, "large", LARGE, "x" * 200_000)
            point.release()
        trimtab_process.wait_for(lambda: not leader.running(), 40, "the leader ends", leader)
        trimtab_process.wait_for(
            lambda: len(trimtab_process.bound(rig)) == 2 * PODS + LARGE, 60, "the successor binds the rest", follower
        )
        assert leads(rig, "second")
    finally:
        leader.kill()
        follower.terminate()
    assert () == trimtab_process.check_audit_log(rig).violations


def create_pods(rig: Rig, prefix: str, count: int, padding: str = "") -> None:
    """With an annotation of this size, to be read by whoever watches."""
    made = [pod(f"{prefix}-{number}", scheduler=trimtab_process.SCHEDULER) for number in range(count)]
    for each in made:
        each["metadata"]["annotations"] = {"padding": padding}
    rig.admin.create_many(made)


def leads(rig: Rig, name: str) -> bool:
    leases = rig.admin.list("/apis/coordination.k8s.io/v1/namespaces/trimtab/leases")
    return any(each["spec"].get("holderIdentity", "").startswith(name) for each in leases)
