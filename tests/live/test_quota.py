"""A ResourceQuota is enforced by the API server: what exceeds it never becomes a pod, and the user sees why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import ApiError, Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS, Rig

pytestmark = pytest.mark.live
TEAM = "team"
QUOTA = f"/api/v1/namespaces/{TEAM}/resourcequotas/compute-resources"
# The guide's example, as it stands.
HARD = {"requests.cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi"}
ASKS = {"requests": {"cpu": "400m", "memory": "256Mi"}, "limits": {"cpu": "800m", "memory": "512Mi"}}


@pytest.fixture(scope="module")
def quota_rig() -> Iterator[Rig]:
    """A control plane with the controllers for Deployments and quotas."""
    with Rig(controlplane_or_skip(), controllers=(*WORKLOADS, "resourcequota-controller")) as running:
        trimtab_process.install(running, "rbac.yaml")
        running.ensure_namespace(TEAM)
        running.admin.create_many(node(f"node-{number}") for number in range(3))
        quota = {"metadata": {"name": "compute-resources", "namespace": TEAM}, "spec": {"hard": HARD}}
        running.admin.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        trimtab_process.wait_for(
            lambda: running.admin.get(QUOTA).get("status", {}).get("hard") == HARD, 60, "quota counted"
        )
        yield running


@pytest.fixture(scope="module")
def trimtab(quota_rig: Rig) -> Iterator[Process]:
    process = trimtab_process.start(quota_rig, profiles=[trimtab_process.WITHOUT_OPTIONAL])
    try:
        yield process
    finally:
        process.terminate()


def limited(name: str) -> Document:
    """A pod with the requests and limits that the quota requires."""
    wanted = pod(name, TEAM, scheduler=trimtab_process.SCHEDULER)
    wanted["spec"]["containers"][0]["resources"] = ASKS
    return wanted


def deployment(replicas: int) -> Document:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": limited("web")["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": TEAM},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def notes(rig: Rig, reason: str) -> list[str]:
    events = rig.admin.list(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events")
    return [event["note"] for event in events if event["reason"] == reason]


def test_a_deployment_larger_than_the_quota(quota_rig: Rig, trimtab: Process) -> None:
    """Two of three pods fit and are bound. The third is never created; the ReplicaSet's FailedCreate says why."""
    quota_rig.admin.create(deployment(3))
    trimtab_process.wait_for(lambda: len(trimtab_process.bound(quota_rig, TEAM)) == 2, 60, "two are bound", trimtab)
    trimtab_process.wait_for(lambda: notes(quota_rig, "FailedCreate"), 30, "the third is refused", trimtab)
    assert any("exceeded quota: compute-resources" in note for note in notes(quota_rig, "FailedCreate"))
    assert 2 == len(trimtab_process.pods(quota_rig, TEAM))
    assert [] == notes(quota_rig, "FailedScheduling")
    used: dict[str, Any] = quota_rig.admin.get(QUOTA)["status"]["used"]
    assert {"requests.cpu": "800m", "requests.memory": "512Mi", "limits.cpu": "1600m", "limits.memory": "1Gi"} == used


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (limited("bare"), "exceeded quota: compute-resources, requested: limits.cpu=800m,requests.cpu=400m"),
        (pod("vague", TEAM, scheduler=trimtab_process.SCHEDULER), "must specify limits.cpu for: main"),
    ],
)
def test_a_bare_pod_over_the_quota(quota_rig: Rig, trimtab: Process, wanted: Document, words: str) -> None:
    """Its creation fails with a 403 that names the quota; so does that of a pod without limits."""
    with pytest.raises(ApiError, match="403") as refused:
        quota_rig.admin.create(wanted)
    assert words in str(refused.value)


def test_a_raised_quota_lets_the_rest_in(quota_rig: Rig, trimtab: Process) -> None:
    """The controller then creates the missing pod, and it is bound like any other."""
    quota_rig.admin.patch(QUOTA, {"spec": {"hard": {"requests.cpu": "2", "limits.cpu": "4"}}})
    trimtab_process.wait_for(
        lambda: len(trimtab_process.bound(quota_rig, TEAM)) == 3, 120, "the third is bound", trimtab
    )
