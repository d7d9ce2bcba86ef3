"""Many pods on a real API server, checked by its audit log; and a leader that dies in the middle."""

import time

import pytest

from tests.live import trimtab_process
from tests.live.binding_webhook import BindingWebhook
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

NODES, PODS = 200, 1000


def test_a_thousand_pods_are_bound_correctly(rig: Rig) -> None:
    """1,000 pods on 200 nodes: each bound once, no node overcommitted, no foreign pod touched."""
    trimtab_process.install(rig)
    rig.admin.create_many(node(f"node-{i}") for i in range(NODES))
    rig.admin.create_many(
        pod(f"pod-{i}", cpu=f"{100 + i % 7 * 200}m", memory="256Mi", scheduler=trimtab_process.SCHEDULER)
        for i in range(PODS)
    )
    rig.admin.create_many(pod(f"foreign-{i}", scheduler="somebody-else") for i in range(20))
    trimtab = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(lambda: len(trimtab_process.bound(rig)) == PODS, 90, "all pods bound", trimtab)
    finally:
        trimtab.terminate()
    verdict = trimtab_process.check_audit_log(rig)
    assert () == verdict.violations
    assert PODS == len(verdict.bound)


def test_another_client_binds_first(rig: Rig) -> None:
    """A lost race is accepted: the pod counts on its node, and we write no Event."""
    trimtab_process.install(rig)
    rig.ensure_namespace("contested")
    # A taint keeps us from choosing the node on which the other puts the pod.
    rig.admin.create_many([node("open"), node("theirs", taints=[{"key": "theirs", "effect": "NoSchedule"}])])
    trimtab = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(trimtab), 40, "ready", trimtab)
        with BindingWebhook(rig) as point:
            rig.admin.create(pod("wanted", "contested", scheduler=trimtab_process.SCHEDULER))
            assert point.held.wait(40), trimtab.log_tail()
            target = {"apiVersion": "v1", "kind": "Node", "name": "theirs"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "wanted"}, "target": target}
            rig.admin.call("POST", "/api/v1/namespaces/contested/pods/wanted/binding", binding)
            point.release()
        trimtab_process.wait_for(
            lambda: trimtab_process.check_audit_log(rig).answers.get(409), 30, "our bind is refused", trimtab
        )
    finally:
        trimtab.terminate()
    assert "theirs" == trimtab_process.bound(rig, "contested")["wanted"]
    assert () == trimtab_process.check_audit_log(rig).violations
    assert [] == rig.admin.list("/apis/events.k8s.io/v1/namespaces/contested/events")
    assert "" == _holder(rig), "the lease was given back"


def test_the_leader_dies_in_the_middle_of_a_batch(rig: Rig) -> None:
    """Two replicas; the leader is killed after 20 binds; the other one takes over and binds the rest, none twice."""
    trimtab_process.install(rig)
    rig.ensure_namespace("batch")
    rig.admin.create_many(node(f"fresh-{i}") for i in range(20))
    leader = trimtab_process.start(rig, "first")
    trimtab_process.wait_for(
        lambda: trimtab_process.is_ready(leader) and _holder(rig).startswith("first"), 40, "first leads", leader
    )
    follower = trimtab_process.start(rig, "second")
    trimtab_process.wait_for(lambda: trimtab_process.is_ready(follower), 40, "second stands by", follower)
    try:
        with BindingWebhook(rig, pass_first=20) as point:
            rig.admin.create_many(pod(f"pod-{i}", "batch", scheduler=trimtab_process.SCHEDULER) for i in range(60))
            assert point.held.wait(30), leader.log_tail()
            leader.kill()
            point.release()
        trimtab_process.wait_for(
            lambda: len(trimtab_process.bound(rig, "batch")) == 60, 60, "the successor binds the rest", follower
        )
        assert _holder(rig).startswith("second")
    finally:
        follower.terminate()
    assert () == trimtab_process.check_audit_log(rig).violations


def _holder(rig: Rig) -> str:
    leases = rig.admin.list("/apis/coordination.k8s.io/v1/namespaces/trimtab/leases")
    return leases[0]["spec"].get("holderIdentity", "") if leases else ""


def test_the_node_is_deleted_while_a_bind_is_held(rig: Rig) -> None:
    """The pod is bound to a node that no longer exists: that is reported, and no resources are leaked."""
    trimtab_process.install(rig)
    rig.ensure_namespace("race")
    rig.admin.create(node("doomed", labels={"race": "yes"}))
    trimtab = trimtab_process.start(rig)
    trimtab_process.wait_for(lambda: trimtab_process.is_ready(trimtab), 40, "ready", trimtab)
    try:
        with BindingWebhook(rig) as point:
            rig.admin.create(pod("orphan", "race", scheduler=trimtab_process.SCHEDULER, nodeSelector={"race": "yes"}))
            assert point.held.wait(40), trimtab.log_tail()
            rig.admin.delete("/api/v1/nodes/doomed")
            time.sleep(1)  # under load the watch of nodes may come behind that of pods
            point.release()
        trimtab_process.wait_for(lambda: "no longer exists" in _notes(rig), 30, "the orphan is reported of", trimtab)
        rig.admin.create(node("heir", cpu="1", labels={"race": "yes"}))
        rig.admin.create(
            pod("next", "race", cpu="900m", scheduler=trimtab_process.SCHEDULER, nodeSelector={"race": "yes"})
        )
        trimtab_process.wait_for(
            lambda: trimtab_process.bound(rig, "race").get("next") == "heir", 30, "the next pod lands", trimtab
        )
        assert "trimtab_orphaned_pods_total 1.0" in trimtab_process.page(trimtab, "/metrics")[1]
    finally:
        trimtab.terminate()


def _notes(rig: Rig) -> str:
    return " ".join(event.get("note", "") for event in rig.admin.list("/apis/events.k8s.io/v1/namespaces/race/events"))
