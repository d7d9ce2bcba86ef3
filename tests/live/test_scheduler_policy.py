"""The admission policies for the scheduler's account on a real API server: preemption and volume binding, and nothing else.

With permissions beyond the shipped ones, so that the policies alone refuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import pytest

from tests.live import trimtab_process
from tests.live.account_client import STRATEGIC, Account, annotated, assert_refused, grant_too_much, labelled
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.test_volumes import claim, storage_class, volume
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig
from trimtab.core.model.instructions import BindVolume, Nominate, Preempt, SelectNode, SetUnschedulable
from trimtab.wire.requests import (
    bind_volume_request,
    delete_pod_request,
    disruption_target_request,
    pod_status_request,
    select_node_request,
)

pytestmark = pytest.mark.live

PODS = "/api/v1/namespaces/default/pods"
WEB, CRITICAL = f"{PODS}/web", "/api/v1/namespaces/kube-system/pods/critical"
CLAIM, VOLUME = "/api/v1/namespaces/default/persistentvolumeclaims/data", "/api/v1/persistentvolumes/disk"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
CLAIM_REF = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "other", "uid": "their-uid"}
TOO_MUCH = {
    "": (
        *("pods", "pods/status", "persistentvolumes", "persistentvolumes/status"),
        *("persistentvolumeclaims", "persistentvolumeclaims/status"),
    )
}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Without controllers, so that nothing else writes; the shipped account, with extra permissions."""
    with Rig(controlplane_or_skip()) as running:
        trimtab_process.install(running)
        grant_too_much(running, "trimtab", TOO_MUCH)
        running.ensure_namespace("kube-system")
        running.admin.create(storage_class("local", "kubernetes.io/no-provisioner"))
        running.admin.create_many([node("node"), node("probe")])
        yield running


@pytest.fixture(scope="module")
def account(rig: Rig) -> Iterator[Account]:
    """Waits until each policy is in force, which takes a moment."""
    made, values = Account(rig, "trimtab"), count()
    rig.admin.create_many([pod("probe", nodeName="probe"), claim("probe", "local"), volume("probe", "local", "probe")])
    for path in (f"{PODS}/probe/status", CLAIM.replace("data", "probe"), VOLUME.replace("disk", "probe")):
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
    now = json.dumps({"gracePeriodSeconds": 0}).encode()
    for path in (CLAIM, VOLUME):
        rig.admin.raw("PATCH", path, b'{"metadata": {"finalizers": null}}', "application/merge-patch+json")
    for path in (WEB, f"{PODS}/waiting", CRITICAL, CLAIM, VOLUME):
        rig.admin.raw("DELETE", path, now)
    rig.admin.create_many([pod("web", nodeName="node"), pod("waiting"), claim("data", "local")])
    rig.admin.create(volume("disk", "local", "node"))


# --- preemption


def victim(rig: Rig, path: str) -> Preempt:
    metadata = rig.admin.get(path)["metadata"]
    return Preempt(metadata["uid"], metadata["namespace"], metadata["name"], "preemptor", "trimtab")


def test_a_victim_is_deleted_after_its_condition(account: Account, rig: Rig) -> None:
    """By the scheduler's own two requests; the second one alone is refused."""
    preempt = victim(rig, WEB)
    assert 403 == account.sends(delete_pod_request(preempt))
    assert 200 == account.sends(disruption_target_request(preempt, "2026-01-01T00:00:00Z"))
    assert 200 == account.sends(delete_pod_request(preempt))
    assert "deletionTimestamp" in rig.admin.get(WEB)["metadata"]


def test_a_pod_that_another_component_disrupts_is_not_deleted(account: Account, rig: Rig) -> None:
    """The reason counts, not the type of the condition alone."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    rig.admin.patch(f"{WEB}/status", {"status": {"conditions": [condition]}})
    status, message = account.asks("DELETE", WEB)
    assert (403, True) == (status, "may only delete pods that it preempts" in message), message


def test_no_pod_of_the_highest_priority_is_deleted(account: Account, rig: Rig) -> None:
    """Also not with the condition: no pod could preempt it."""
    made = pod("critical", nodeName="node", priorityClassName="system-node-critical")
    made["metadata"]["namespace"] = "kube-system"
    rig.admin.create(made)
    preempt = victim(rig, CRITICAL)
    assert 200 == account.sends(disruption_target_request(preempt, "2026-01-01T00:00:00Z"))
    status, message = account.asks("DELETE", CRITICAL)
    assert (403, True) == (status, "system-node-critical" in message), message


def test_all_pods_at_once_are_not_deleted(account: Account, rig: Rig) -> None:
    """Not by a collection either, had the account that verb: each of its pods is judged."""
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/too-much"
    rules = rig.admin.get(role)["rules"]
    rig.admin.patch(role, {"rules": [{**each, "verbs": [*each["verbs"], "deletecollection"]} for each in rules]})
    words = "may only delete pods that it preempts"
    trimtab_process.wait_for(lambda: words in account.asks("DELETE", PODS)[1], 20, "refused by the policy")
    assert "deletionTimestamp" not in rig.admin.get(WEB)["metadata"]


def test_a_pending_pod_gets_its_condition_and_nomination(account: Account, rig: Rig) -> None:
    """By the scheduler's own requests, and the nomination is taken back."""
    path, uid = f"{PODS}/waiting", rig.admin.get(f"{PODS}/waiting")["metadata"]["uid"]
    reason = SetUnschedulable(uid, "default", "waiting", "Unschedulable", "0/1 nodes are available")
    for name in ("node", ""):
        asked = pod_status_request(reason, Nominate(uid, "default", "waiting", name), "2026-01-01T00:00:00Z")
        assert 200 == account.sends(asked)
        found = rig.admin.get(path)["status"]
        assert (name, "PodScheduled") == (found.get("nominatedNodeName", ""), found["conditions"][0]["type"])


def test_a_condition_beside_those_of_others(account: Account, rig: Rig) -> None:
    """They stay, in whatever order the API server merges them."""
    theirs = [{"type": kind, "status": "True"} for kind in ("Ready", "Initialized", "example.com/gate")]
    rig.admin.patch(f"{WEB}/status", {"status": {"conditions": theirs}})
    assert 200 == account.sends(disruption_target_request(victim(rig, WEB), "2026-01-01T00:00:00Z"))
    kinds = {each["type"] for each in rig.admin.get(WEB)["status"]["conditions"]}
    assert {"Ready", "Initialized", "example.com/gate", "DisruptionTarget"} == kinds


READY = {"type": "Ready", "status": "False"}
ONLY_STATUS, ONLY_CONDITIONS = "only change conditions and the nominated node", "PodScheduled and DisruptionTarget"
REFUSED_STATUSES: dict[str, tuple[Document, str]] = {
    "the phase": ({"status": {"phase": "Failed"}}, ONLY_STATUS),
    "an address": ({"status": {"podIP": "10.0.0.1"}}, ONLY_STATUS),
    "a message": ({"status": {"message": "stopped"}}, ONLY_STATUS),
    "readiness": ({"status": {"conditions": [READY]}}, ONLY_CONDITIONS),
    "a gate": ({"status": {"conditions": [{"type": "example.com/gate", "status": "True"}]}}, ONLY_CONDITIONS),
    "a label": (labelled(app="other"), "neither labels, annotations nor finalizers"),
    "an annotation": (annotated(note="ours"), "neither labels, annotations nor finalizers"),
    "a finalizer": ({"metadata": {"finalizers": ["example.com/never"]}}, "neither labels, annotations nor finalizers"),
}


@pytest.mark.parametrize("case", REFUSED_STATUSES)
def test_no_other_change_of_a_status(account: Account, rig: Rig, case: str) -> None:
    """403, and the pod is unchanged."""
    rig.admin.patch(f"{WEB}/status", {"status": {"conditions": [{**READY, "status": "True"}]}})
    change, words = REFUSED_STATUSES[case]
    assert_refused(account, rig, f"{WEB}/status", change, words, STRATEGIC)


# --- volumes


def bind_volume(rig: Rig) -> BindVolume:
    version = int(rig.admin.get(VOLUME)["metadata"]["resourceVersion"])
    return BindVolume("pod-uid", "disk", version, "default", "data", rig.admin.get(CLAIM)["metadata"]["uid"])


def test_a_free_volume_is_bound(account: Account, rig: Rig) -> None:
    """By the scheduler's own request, with the annotation for the volume controller."""
    assert 200 == account.sends(bind_volume_request(bind_volume(rig)))
    assert "data" == rig.admin.get(VOLUME)["spec"]["claimRef"]["name"]


def test_a_volume_that_is_reserved_by_name_is_bound(account: Account, rig: Rig) -> None:
    """To that claim; and to another one it is not."""
    rig.admin.patch(VOLUME, {"spec": {"claimRef": {"namespace": "default", "name": "other"}}})
    assert 403 == account.sends(bind_volume_request(bind_volume(rig)))
    rig.admin.patch(VOLUME, {"spec": {"claimRef": {"namespace": "default", "name": "data"}}})
    assert 200 == account.sends(bind_volume_request(bind_volume(rig)))


def test_a_node_is_selected_for_a_claim(account: Account, rig: Rig) -> None:
    """By the scheduler's own request."""
    version = int(rig.admin.get(CLAIM)["metadata"]["resourceVersion"])
    assert 200 == account.sends(select_node_request(SelectNode("pod-uid", "default", "data", version, "node")))
    assert "node" in rig.admin.get(CLAIM)["metadata"]["annotations"].values()


ONLY_FREE, ONLY_CLAIM_REF = "bound to no claim, or reserved for this one", "only change the claimRef"
REFUSED_VOLUMES: dict[str, tuple[Document, str]] = {
    "a bound volume": ({"spec": {"claimRef": {"name": "data", "uid": None}}}, ONLY_FREE),
    "a bound volume's UID": ({"spec": {"claimRef": {"uid": "another"}}}, ONLY_FREE),
    "a bound volume set free": ({"spec": {"claimRef": None}}, ONLY_FREE),
    "the reclaim policy": ({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, ONLY_CLAIM_REF),
    "the capacity": ({"spec": {"capacity": {"storage": "9Gi"}}}, ONLY_CLAIM_REF),
    "a label": (labelled(zone="b"), ONLY_CLAIM_REF),
    "a finalizer": ({"metadata": {"finalizers": None}}, ONLY_CLAIM_REF),
    "an annotation": (annotated(note="ours"), "pv.kubernetes.io/bound-by-controller"),
}


@pytest.mark.parametrize("case", REFUSED_VOLUMES)
def test_no_other_change_of_a_volume(account: Account, rig: Rig, case: str) -> None:
    """403, and the volume stays with its claim."""
    rig.admin.patch(VOLUME, {"spec": {"claimRef": CLAIM_REF}})
    change, words = REFUSED_VOLUMES[case]
    assert_refused(account, rig, VOLUME, change, words)


REFUSED_CLAIMS: dict[str, tuple[Document, str]] = {
    "an annotation": (annotated(note="ours"), "volume.kubernetes.io/selected-node"),
    "the volume": ({"spec": {"volumeName": "disk"}}, "neither the spec nor the labels"),
    "a label": (labelled(app="other"), "neither the spec nor the labels"),
    "a finalizer": ({"metadata": {"finalizers": None}}, "neither the spec nor the labels"),
}


@pytest.mark.parametrize("case", REFUSED_CLAIMS)
def test_no_other_change_of_a_claim(account: Account, rig: Rig, case: str) -> None:
    """403, and the claim is unchanged."""
    change, words = REFUSED_CLAIMS[case]
    assert_refused(account, rig, CLAIM, change, words)


@pytest.mark.parametrize("path", [CLAIM, VOLUME])
def test_neither_status_nor_existence(account: Account, path: str) -> None:
    """A claim or volume is not deleted, and not declared bound."""
    assert (403, True) == refused(*account.asks("DELETE", path))
    assert (403, True) == refused(*account.patches(f"{path}/status", {"status": {"phase": "Bound"}}))


def refused(status: int, message: str) -> tuple[int, bool]:
    return status, "not their status, and not create or delete them" in message


def test_other_accounts_are_not_affected(rig: Rig, account: Account) -> None:
    """An administrator may still change anything."""
    for path in (WEB, CLAIM, VOLUME):
        rig.admin.patch(path, labelled(zone="b"))
        assert "b" == rig.admin.get(path)["metadata"]["labels"]["zone"]
    rig.admin.delete(WEB, grace_seconds=0)


def test_the_expressions_fit_the_kinds(rig: Rig, account: Account) -> None:
    """The API server checks the types of every field that they name, and has found nothing."""
    ours = [each for each in rig.admin.list(POLICIES) if each["metadata"]["name"].startswith("trimtab-scheduler")]
    assert 3 == len(ours)
    assert [] == [each["status"]["typeChecking"] for each in ours if each.get("status", {}).get("typeChecking")]
