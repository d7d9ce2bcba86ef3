"""Gangs on a real API server: placed or left pending as a whole, and completed by the next leader after a crash."""

from collections.abc import Iterator

import pytest

from tests.live import trimtab_process
from tests.live.binding_webhook import BindingWebhook
from tools.controlplane.client import ApiError, Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"
PROFILE = {  # as the scheduler-plugins project documents it
    "schedulerName": trimtab_process.SCHEDULER,
    "plugins": {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    },
}
LEASE = {"leaderElect": True, "leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}


def group(name: str, least: int, seconds: int = 60) -> Document:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least, "scheduleTimeoutSeconds": seconds},
    }


def members(name: str, count: int) -> list[Document]:
    labels = {LABEL: name}
    return [pod(f"{name}-{i}", cpu="1", labels=labels, scheduler=trimtab_process.SCHEDULER) for i in range(count)]


@pytest.fixture(scope="module")
def gang_rig(rig: Rig) -> Rig:
    """The shipped CRD of PodGroups and the role to watch them."""
    trimtab_process.install(rig, *trimtab_process.ROLES, "components/gang/rbac-gang.yaml")
    rig.apply(trimtab_process.ROOT / "deploy" / "crd-podgroup.yaml")
    trimtab_process.wait_for(lambda: _served(rig), 30, "PodGroups are served")
    return rig


@pytest.fixture(autouse=True)
def only_nodes(gang_rig: Rig) -> Iterator[None]:
    """Every test starts with three empty nodes for two pods each."""
    gang_rig.admin.create_many(node(f"node-{i}", cpu="2", memory="8Gi") for i in range(3))
    yield
    gang_rig.admin.delete_many((f"/api/v1/namespaces/default/pods/{name}" for name in _names(gang_rig)), 0)
    gang_rig.admin.delete_many(f"/api/v1/nodes/node-{i}" for i in range(3))


def test_a_gang_is_bound_completely_or_not_at_all(gang_rig: Rig) -> None:
    """All five of one are bound; none of the other, of which two would fit, and each says how many would."""
    gang_rig.admin.create_many([group("fits", 5), group("wide", 3, seconds=3)])
    trimtab = trimtab_process.start(gang_rig, profiles=[PROFILE])
    try:
        gang_rig.admin.create_many(members("fits", 5))
        trimtab_process.wait_for(lambda: len(trimtab_process.bound(gang_rig)) == 5, 60, "five are bound", trimtab)
        gang_rig.admin.create_many(members("wide", 3))
        words = "pod group default/wide: 1 of 3 members fit; "
        trimtab_process.wait_for(
            lambda: words in gang_rig.kubectl("describe", "pod", "wide-2"), 30, "an Event", trimtab
        )
        late = "was not scheduled within 3 s"
        trimtab_process.wait_for(lambda: late in gang_rig.kubectl("get", "events"), 30, "another Event", trimtab)
        assert {f"fits-{i}" for i in range(5)} == set(trimtab_process.bound(gang_rig))
    finally:
        trimtab.terminate()
    assert () == trimtab_process.check_audit_log(gang_rig).violations


def test_the_next_leader_completes_a_gang_first(gang_rig: Rig) -> None:
    """The leader is killed between the second and third of five binds; six pods fit, and three others come first by name."""
    gang_rig.admin.create(group("half", 5))
    leader = trimtab_process.start(gang_rig, "first", profiles=[PROFILE], leaderElection=LEASE)
    follower: Process | None = None
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(leader), 40, "ready", leader)
        with BindingWebhook(gang_rig, pass_first=2) as point:
            gang_rig.admin.create_many(members("half", 5))
            assert point.held.wait(40), leader.log_tail()
            trimtab_process.wait_for(lambda: len(trimtab_process.bound(gang_rig)) == 2, 20, "two are bound", leader)
            leader.kill()
            point.deny()
        half = trimtab_process.bound(gang_rig)
        gang_rig.admin.create_many(pod(f"a-{i}", cpu="1", scheduler=trimtab_process.SCHEDULER) for i in range(3))
        follower = trimtab_process.start(gang_rig, "second", profiles=[PROFILE], leaderElection=LEASE)
        trimtab_process.wait_for(lambda: len(trimtab_process.bound(gang_rig)) == 6, 60, "the room is taken", follower)
        bound = trimtab_process.bound(gang_rig)
    finally:
        leader.terminate()
        if follower is not None:
            follower.terminate()
    assert 2 <= len(half) < 5, "the leader died too late to leave a gang half bound"
    assert {f"half-{i}" for i in range(5)} == {name for name in bound if name.startswith("half-")}
    assert half.items() <= bound.items()
    assert () == trimtab_process.check_audit_log(gang_rig).violations


def _served(rig: Rig) -> bool:
    try:
        return rig.admin.list(GROUPS) == []
    except ApiError:
        return False


def _names(rig: Rig) -> list[str]:
    return [each["metadata"]["name"] for each in trimtab_process.pods(rig)]
