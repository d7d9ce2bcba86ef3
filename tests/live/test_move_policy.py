"""The admission policies for the rescheduler's account on a real API server: what a move takes, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count

import pytest

from tests.live import trimtab_process
from tests.live.account_client import STRATEGIC, Account, annotated, assert_refused, grant_too_much, labelled
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig
from trimtab.core.model.events import ResizeDone, SurgeDone
from trimtab.core.model.instructions import EndSurge, Evict, LabelNode, Nominate, ResizePod, StartSurge, WriteLedger
from trimtab.core.model.ledger import Ledger
from trimtab.core.model.pod import RESIZE
from trimtab.core.rescheduling.remedies import HOT_TAINT
from trimtab.kube.resize import resize_pod
from trimtab.kube.surge import end_surge, start_surge
from trimtab.wire.ledger import write_ledger_request
from trimtab.wire.requests import evict_request, label_request, pod_status_request
from trimtab.wire.surge import DELETION_COST, SURGE, SURGE_REPLICAS

pytestmark = pytest.mark.live

NAMESPACE = "default"
PODS, APPS = f"/api/v1/namespaces/{NAMESPACE}/pods", f"/apis/apps/v1/namespaces/{NAMESPACE}"
NODE, POD, MAPS = "/api/v1/nodes/node", f"{PODS}/web", "/api/v1/namespaces/trimtab/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
ACCOUNT = "trimtab-rescheduler"
TOO_MUCH = {
    "": ("nodes", "nodes/status", "pods", "pods/status", "pods/resize", "pods/binding", "pods/exec", "configmaps"),
    "apps": tuple(f"{kind}{part}" for kind in ("deployments", "replicasets") for part in ("", "/scale", "/status")),
}
WORKLOADS = {"Deployment": f"{APPS}/deployments/web", "ReplicaSet": f"{APPS}/replicasets/web"}
SOFT = {"key": HOT_TAINT.key, "effect": HOT_TAINT.effect}
FOREIGN = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def workload(kind: str) -> Document:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": NAMESPACE, "labels": {"team": "a"}, "annotations": {"note": "theirs"}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def resizable_pod() -> Document:
    made = pod("web", cpu="1", memory="1Gi", labels={"app": "web"}, nodeName="node")
    made["metadata"]["annotations"] = {RESIZE: "requests", "note": "theirs"}
    made["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "4"}
    return made


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Without controllers, so that nothing else writes; the shipped account, with extra permissions."""
    with Rig(controlplane_or_skip()) as running:
        parts = ("rescheduler.yaml", "policies.yaml")
        trimtab_process.install(running, "rbac.yaml", *(f"components/rescheduler/{part}" for part in parts))
        grant_too_much(running, ACCOUNT, TOO_MUCH)
        yield running


@pytest.fixture(scope="module")
def account(rig: Rig) -> Iterator[Account]:
    """Waits until each policy is in force, which takes a moment."""
    made, values = Account(rig, ACCOUNT), count()
    rig.admin.create(node("probe"))
    rig.admin.create(pod("probe", nodeName="probe"))
    rig.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "namespace": "trimtab"}})
    probe = workload("ReplicaSet")
    rig.admin.create({**probe, "metadata": {"name": "probe", "namespace": NAMESPACE}})
    for path in ("/api/v1/nodes/probe", f"{PODS}/probe", f"{MAPS}/probe", f"{APPS}/replicasets/probe"):
        trimtab_process.wait_for(
            lambda path=path: made.patches(path, labelled(probe=str(next(values))))[0] == 403,  # type: ignore[misc]
            60,
            f"the policy for {path}",
        )
    yield made
    made.client.close()


@pytest.fixture(autouse=True)
def clean(rig: Rig) -> None:
    """Reset the objects before each test."""
    now = {"gracePeriodSeconds": 0}
    for path in (NODE, POD, *WORKLOADS.values(), f"{MAPS}/trimtab-moves"):
        rig.admin.raw("DELETE", path, json.dumps(now).encode())
    rig.admin.create(node("node", taints=[FOREIGN]))
    for kind in WORKLOADS:
        rig.admin.create(workload(kind))
    rig.admin.create(resizable_pod())


def surge(replicas: int, mark: str = "3", **labels: str) -> Document:
    return {**labelled(**{SURGE: "uid", SURGE_REPLICAS: mark, **labels}), "spec": {"replicas": replicas}}


# --- what a move takes


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_replica_is_added_and_taken_back(account: Account, rig: Rig, kind: str) -> None:
    """By the rescheduler's own requests, with the deletion cost of the pod that leaves."""
    path = WORKLOADS[kind]
    rig.admin.patch(f"{path}/status", {"status": settled(rig, path)})
    begun = asyncio.run(start_surge(StartSurge("uid", NAMESPACE, kind, "web", until=1.0), account.send, float))
    assert SurgeDone("uid", 0.0) == begun
    assert 4 == rig.admin.get(path)["spec"]["replicas"]
    ended = asyncio.run(end_surge(EndSurge("uid", NAMESPACE, kind, "web", "web"), account.send, float))
    assert SurgeDone("uid", 0.0, ended=True) == ended
    found = rig.admin.get(path)
    assert (3, {"team": "a"}) == (found["spec"]["replicas"], found["metadata"]["labels"])
    assert DELETION_COST in rig.admin.get(POD)["metadata"]["annotations"]


def settled(rig: Rig, path: str) -> Document:
    generation = rig.admin.get(path)["metadata"]["generation"]
    return {"observedGeneration": generation, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3}


def test_a_replacement_is_nominated(account: Account, rig: Rig) -> None:
    """By the rescheduler's own request, and the nomination is taken back."""
    uid = rig.admin.create(pod("replacement"))["metadata"]["uid"]
    for name in ("node", ""):
        assert 200 == account.sends(pod_status_request(None, Nominate(uid, NAMESPACE, "replacement", name)))
        assert name == rig.admin.get(f"{PODS}/replacement")["status"].get("nominatedNodeName", "")


def test_a_pod_is_resized_and_evicted(account: Account, rig: Rig) -> None:
    """By the rescheduler's own requests."""
    uid = rig.admin.get(POD)["metadata"]["uid"]
    resized = asyncio.run(resize_pod(ResizePod(uid, NAMESPACE, "web", 2000), account.send, float))
    assert ResizeDone(uid, 0.0) == resized
    assert "2" == rig.admin.get(POD)["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    assert 201 == account.sends(evict_request(Evict(uid, NAMESPACE, "web", "hot")))


def test_the_soft_taint_is_added_and_removed(account: Account, rig: Rig) -> None:
    """By the rescheduler's own patches; a foreign taint stays."""
    for change, expected in (
        ({"add_taints": (HOT_TAINT,)}, [FOREIGN, SOFT]),
        ({"remove_taints": ((1, HOT_TAINT.key),)}, [FOREIGN]),
    ):
        meta = rig.admin.get(NODE)["metadata"]
        patch = LabelNode("node", meta["uid"], int(meta["resourceVersion"]), **change)  # type: ignore[arg-type]
        assert 200 == account.sends(label_request(patch))
        assert expected == rig.admin.get(NODE)["spec"]["taints"]


def test_the_ledger_is_written(account: Account, rig: Rig) -> None:
    """Created, and updated at the version that was read."""
    assert 201 == account.sends(write_ledger_request(WriteLedger(Ledger(), ""), "trimtab"))
    version = rig.admin.get(f"{MAPS}/trimtab-moves")["metadata"]["resourceVersion"]
    assert 200 == account.sends(write_ledger_request(WriteLedger(Ledger(), version), "trimtab"))


# --- everything else

ONE_REPLICA = "may only add one replica"
OTHER_FIELDS = "only change the replicas and labels"
REFUSED_WORKLOADS: dict[str, tuple[Document, str]] = {
    "two replicas more": (surge(5), ONE_REPLICA),
    "one less": (surge(2), ONE_REPLICA),
    "none": ({"spec": {"replicas": 0}}, ONE_REPLICA),
    "one more without the marks": ({"spec": {"replicas": 4}}, ONE_REPLICA),
    "another number before": (surge(4, "9"), ONE_REPLICA),
    "another label": (surge(4, team="b"), "may only change the labels"),
    "a label gone": (labelled(team=None), "may only change the labels"),
    "an annotation": (annotated(note="ours"), OTHER_FIELDS),
    "an owner": ({"metadata": {"finalizers": ["example.com/never"]}}, OTHER_FIELDS),
    "the image": ({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil"}]}}}}, OTHER_FIELDS),
    "the readiness time": ({"spec": {"minReadySeconds": 9}}, OTHER_FIELDS),
}


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize("case", REFUSED_WORKLOADS)
def test_no_other_change_of_a_workload(account: Account, rig: Rig, kind: str, case: str) -> None:
    """403, and the object is unchanged."""
    change, words = REFUSED_WORKLOADS[case]
    assert_refused(account, rig, WORKLOADS[kind], change, words, STRATEGIC)


def test_no_second_replica(account: Account, rig: Rig) -> None:
    """A surge must end before the next one; and what is taken back is what was added."""
    path = WORKLOADS["Deployment"]
    assert (200, "") == account.patches(path, surge(4))
    assert_refused(account, rig, path, surge(5, "4"), ONE_REPLICA)
    ended: Document = {**labelled(**{SURGE: None, SURGE_REPLICAS: None}), "spec": {"replicas": 2}}
    assert_refused(account, rig, path, ended, ONE_REPLICA)


@pytest.mark.parametrize("part", ["scale", "status"])
def test_no_subresource_of_a_workload(account: Account, rig: Rig, part: str) -> None:
    """The scale would bypass the marks."""
    assert_refused(account, rig, f"{WORKLOADS['Deployment']}/{part}", {"spec": {"replicas": 9}}, "not their scale or")


REFUSED_PODS: dict[str, tuple[str, Document, str]] = {
    "an annotation": ("", annotated(note="ours"), "pod-deletion-cost"),
    "the opt-in to be resized": ("", annotated(**{RESIZE: None}), "pod-deletion-cost"),
    "a label": ("", labelled(app="other"), "neither the spec nor the labels"),
    "a finalizer": ("", {"metadata": {"finalizers": ["example.com/never"]}}, "neither the spec nor the labels"),
    "the image": ("", {"spec": {"containers": [{"name": "main", "image": "evil"}]}}, "neither the spec nor the labels"),
    "a deadline": ("", {"spec": {"activeDeadlineSeconds": 60}}, "neither the spec nor the labels"),
    "the phase": ("/status", {"status": {"phase": "Failed"}}, "only change the nominated node"),
    "a condition": ("/status", {"status": {"conditions": [{"type": "A", "status": "True"}]}}, "the nominated node"),
    "a label by the status": ("/status", labelled(app="other"), "neither the spec nor the labels"),
    "the deletion cost by the status": ("/status", annotated(**{DELETION_COST: "1"}), "pod-deletion-cost"),
    "less CPU": ("/resize", {}, "may only raise CPU requests"),
    "more memory": ("/resize", {}, "may only raise CPU requests"),
    "another limit": ("/resize", {}, "may only raise CPU requests"),
}
RESIZES = {
    "less CPU": {"requests": {"cpu": "500m"}},
    "more memory": {"requests": {"memory": "2Gi"}},
    "another limit": {"limits": {"cpu": "8"}},
}


@pytest.mark.parametrize("case", REFUSED_PODS)
def test_no_other_change_of_a_pod(account: Account, rig: Rig, case: str) -> None:
    """403, and the pod is unchanged."""
    part, change, words = REFUSED_PODS[case]
    if case in RESIZES:
        change = {"spec": {"containers": [{"name": "main", "resources": RESIZES[case]}]}}
    assert_refused(account, rig, POD + part, change, words, STRATEGIC)


def test_no_pod_is_resized_that_did_not_ask_for_it(account: Account, rig: Rig) -> None:
    """The annotation is its owner's."""
    rig.admin.patch(POD, annotated(**{RESIZE: None}))
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    assert_refused(account, rig, f"{POD}/resize", change, "may only raise CPU requests", STRATEGIC)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", POD, None),
        ("POST", PODS, pod("another")),
        ("POST", f"{POD}/exec?command=sh&stdout=true", None),
        (
            "POST",
            f"{POD}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "web"},
                "target": {"kind": "Node", "name": "x"},
            },
        ),
    ],
    ids=["delete", "create", "exec", "bind"],
)
def test_pods_are_neither_deleted_created_entered_nor_bound(
    account: Account, method: str, path: str, body: Document | None
) -> None:
    """Even with the permissions to do so."""
    status, message = account.asks(method, path, body)
    assert (403, True) == (status, "may only evict pods" in message), message


ONLY_TAINTS, ONLY_SOFT = "only change a node's taints", "soft taint (PreferNoSchedule) trimtab.dev/hot"
REFUSED_NODES: dict[str, tuple[str, Document, str]] = {
    "a cordon": ("", {"spec": {"unschedulable": True}}, ONLY_TAINTS),
    "a label": ("", labelled(zone="b"), ONLY_TAINTS),
    "an annotation": ("", annotated(a="b"), ONLY_TAINTS),
    "a foreign taint": ("", {"spec": {"taints": [FOREIGN, {**SOFT, "key": "x"}]}}, ONLY_SOFT),
    "a foreign taint gone": ("", {"spec": {"taints": None}}, ONLY_SOFT),
    "a hard taint": ("", {"spec": {"taints": [FOREIGN, {**SOFT, "effect": "NoExecute"}]}}, ONLY_SOFT),
    "the status": ("/status", {"status": {"capacity": {"cpu": "1000"}}}, "not their status"),
}


@pytest.mark.parametrize("case", REFUSED_NODES)
def test_no_other_change_of_a_node(account: Account, rig: Rig, case: str) -> None:
    """403, and the node is unchanged."""
    part, change, words = REFUSED_NODES[case]
    assert_refused(account, rig, NODE + part, change, words)


def test_no_other_config_map(account: Account, rig: Rig) -> None:
    """The configuration of the scheduler is in one, in the same namespace."""
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trimtab", "namespace": "trimtab"}}
    words = "ConfigMap trimtab-moves"
    status, message = account.asks("POST", MAPS, other)
    assert (403, True) == (status, words in message), message
    assert_refused(account, rig, f"{MAPS}/probe", {"data": {"config.yaml": "x"}}, words)


def test_other_accounts_are_not_affected(rig: Rig, account: Account) -> None:
    """An administrator may still change anything."""
    for path in (NODE, POD, *WORKLOADS.values()):
        rig.admin.patch(path, labelled(zone="b"))
        assert "b" == rig.admin.get(path)["metadata"]["labels"]["zone"]


def test_the_expressions_fit_the_kinds(rig: Rig, account: Account) -> None:
    """The API server checks the types of every field that they name, and has found nothing."""
    ours = [each for each in rig.admin.list(POLICIES) if each["metadata"]["name"].startswith("trimtab-rescheduler")]
    assert 4 == len(ours)
    assert [] == [each["status"]["typeChecking"] for each in ours if each.get("status", {}).get("typeChecking")]
