"""Two thousand pods of more than twenty kinds on 300 nodes: all schedulable ones are placed correctly, the others say why.

The same pods are created in two new clusters, one with kube-scheduler and one with Trimtab. The expectation is fixed
beforehand, so the two agree on every pod if both meet it.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from urllib.parse import quote

import pytest

from tests.live import trimtab_process
from tests.live.checker.cluster_objects import ClusterObjects, full_name
from tests.live.checker.rules import violations
from tests.live.mixed_workload.nodes import TEAMS, classes, csi_nodes, nodes
from tests.live.mixed_workload.schedulable import schedulable_pods
from tests.live.mixed_workload.storage import storage
from tests.live.mixed_workload.unschedulable import UnschedulablePod, after_the_others, from_the_start
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
BINDER = "persistentvolume-binder-controller"
SECONDS = 120.0


def kube_scheduler(rig: Rig) -> Process:
    """The real one, without rate limit."""
    connection = {"qps": 5000, "burst": 5000}
    return rig.start_kube_scheduler(
        {"clientConnection": connection, "profiles": [{"schedulerName": trimtab_process.SCHEDULER}]}
    )


def trimtab(rig: Rig) -> Process:
    """Ours, with all shipped roles."""
    for file in sorted((trimtab_process.ROOT / "deploy").glob("rbac*.yaml"), reverse=True):
        rig.apply(file)
    return trimtab_process.start(rig)


@pytest.mark.parametrize("scheduler", [pytest.param(kube_scheduler, marks=pytest.mark.soak), trimtab])
def test_mixed_workload(scheduler: Callable[[Rig], Process]) -> None:
    """Every schedulable pod is bound without violations, no other is, and none is preempted."""
    early, late = list(from_the_start()), list(after_the_others())
    schedulable = {full_name(pod) for pod in schedulable_pods()}
    with Rig(controlplane_or_skip(), controllers=[BINDER], audited=False) as rig:
        create_cluster(rig)
        process = scheduler(rig)
        try:
            created = create_pods(rig, [*schedulable_pods(), *(pod for pod, _ in early)])
            wait_until_none(lambda: schedulable & without_node(rig), "is not bound", process)
            created += create_pods(rig, [pod for pod, _ in late])
            wait_until_none(lambda: without_expected_event(rig, [*early, *late]), "has no expected Event", process)
        finally:
            process.terminate()
        assert {full_name(pod) for pod, _ in (*early, *late)} == without_node(rig)
        assert uids(created) == uids(everything(rig, "pods"))
        assert [] == violations(cluster_objects(rig))


def create_cluster(rig: Rig) -> None:
    """Create namespaces, classes, nodes and storage."""
    for team, labels in TEAMS.items():
        rig.ensure_namespace(team)
        rig.admin.patch(f"/api/v1/namespaces/{team}", {"metadata": {"labels": dict(labels)}})
    for things in (classes(), nodes(), csi_nodes(), storage()):
        rig.admin.create_many(things)


def create_pods(rig: Rig, pods: Iterable[Document]) -> list[Document]:
    """Create the pods in a random order that is always the same."""
    mixed = sorted(pods, key=full_name)
    random.Random(4).shuffle(mixed)
    for pod in mixed:
        pod["spec"]["schedulerName"] = trimtab_process.SCHEDULER
    return rig.admin.create_many(mixed)


def wait_until_none(left: Callable[[], set[str]], what: str, process: Process) -> None:
    """Wait until nothing is left; a failure names some of them, and the end of the scheduler's log."""
    deadline = time.monotonic() + SECONDS
    while names := left():
        if time.monotonic() > deadline or not process.running():
            some = "\n".join(sorted(names)[:30])
            pytest.fail(f"{len(names)} times something {what}:\n{some}\n---\n{process.log_tail()}", pytrace=False)
        time.sleep(1)


def everything(rig: Rig, resource: str, version: str = "/api/v1", **fields: str) -> list[Document]:
    """All objects of a resource with these field values, in all namespaces."""
    chosen = ",".join(f"{field}={value}" for field, value in fields.items())
    return rig.admin.list(f"{version}/{resource}?fieldSelector={quote(chosen)}")


def without_node(rig: Rig) -> set[str]:
    return {full_name(pod) for pod in everything(rig, "pods", **{"spec.nodeName": ""})}


def without_expected_event(rig: Rig, unschedulable: Iterable[UnschedulablePod]) -> set[str]:
    """Pods without the expected Event, with their Events instead."""
    notes: dict[str, list[str]] = defaultdict(list)
    for event in everything(rig, "events", "/apis/events.k8s.io/v1", reason="FailedScheduling"):
        notes[f"{event['regarding']['namespace']}/{event['regarding']['name']}"].append(event.get("note", ""))
    left = (
        (full_name(pod), why) for pod, why in unschedulable if not any(why in note for note in notes[full_name(pod)])
    )
    return {f"{pod}: {why}; said was {notes[pod]}" for pod, why in left}


def uids(pods: Iterable[Document]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def cluster_objects(rig: Rig) -> ClusterObjects:
    """The objects of the API server at the end."""
    return ClusterObjects(
        pods=everything(rig, "pods"),
        nodes=everything(rig, "nodes"),
        namespaces=everything(rig, "namespaces"),
        claims=everything(rig, "persistentvolumeclaims"),
        volumes=everything(rig, "persistentvolumes"),
        csi_nodes=everything(rig, "csinodes", "/apis/storage.k8s.io/v1"),
    )
