"""`trimtab whatif` on a live cluster: it only reads, and what it predicts of a drain is what the drain then does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.live import trimtab_process
from tests.live.metering.load_scenario import ready_process
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node
from tools.controlplane.rig import WORKLOADS, Rig

pytestmark = pytest.mark.live
READER = "what-if"
DRAINED = "node-2"
NODES = 6
Expected = Counter[tuple[str, str]]  # pending pods by workload and message


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Six nodes of four cores, with kubelets and controllers."""
    with Rig(controlplane_or_skip(), controllers=(*WORKLOADS, "daemonset-controller"), kwok=True) as running:
        trimtab_process.install(running)
        running.admin.create_many(node(f"node-{number}", cpu="4") for number in range(NODES))
        running.apply(almighty_reader())
        yield running


def almighty_reader() -> list[Document]:
    """A service account, whose requests are all in the audit log, and which may do anything."""
    account = {"name": READER, "namespace": "default"}
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": READER},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, binding]


def workload(name: str, cpu: str, replicas: int | None, kind: str = "Deployment", **spec: object) -> Document:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    template = {"schedulerName": trimtab_process.SCHEDULER, "containers": [container], **spec}
    fields: Document = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": template},
        **({} if replicas is None else {"replicas": replicas}),
        **({"serviceName": name} if kind == "StatefulSet" else {}),
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": fields}


def workloads() -> Iterator[Document]:
    """Pods that fit on no other node, pods that may run on one node only, and pods that find room."""
    yield workload("agent", "50m", None, "DaemonSet")
    yield workload("wide", "2500m", NODES)
    yield workload("pinned", "100m", 2, nodeSelector={"kubernetes.io/hostname": DRAINED})
    yield workload("web", "150m", 12)
    yield workload("guarded", "100m", 8)
    yield workload("queue", "100m", 3, "StatefulSet")
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guarded", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }


def test_a_drain_leaves_those_pods_pending_that_were_predicted(rig: Rig) -> None:
    """The same pods, by workload, with the same message; the prediction itself only got and listed."""
    with ready_process(trimtab_process.start(rig)) as trimtab:
        rig.admin.create_many(workloads())
        every = NODES + NODES + 2 + 12 + 8 + 3
        trimtab_process.wait_for(lambda: every == len(ready_pods(rig)), 60, f"{every} pods", trimtab)
        trimtab_process.wait_for(lambda: 1 == allowed_disruptions(rig), 20, "the budget's status", trimtab)
        before = ready_pods(rig)
        expected, evicted = predicted(rig)
        assert before == ready_pods(rig)
        rig.kubectl("drain", DRAINED, "--ignore-daemonsets", "--timeout=50s")
        trimtab_process.wait_for(lambda: every == len(decided_pods(rig)), 30, "the new pods", trimtab)
    assert {"wide": 1, "pinned": 2} == Counter(name.rpartition("-")[0] for name, _ in expected.elements())
    assert expected == pending(rig)
    assert evicted == len(before.keys() - ready_pods(rig).keys())
    assert {"get", "list"} == verbs_of(rig, f"system:serviceaccount:default:{READER}")


def predicted(rig: Rig) -> tuple[Expected, int]:
    """The pending pods and the number of evictions, by the command, as a user of its own."""
    kubeconfig = rig.service_account_kubeconfig("default", READER)
    command = [sys.executable, "-m", "trimtab", "whatif", "--drain", DRAINED, "--json", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=trimtab_process.ROOT, timeout=60, check=False)
    assert 1 == done.returncode, done.stderr
    after = json.loads(done.stdout)["after"]
    assert ([], []) == (after["blocked"], after["lost"])
    pods = Counter((each["workload"].removeprefix("default/"), each["reason"]) for each in after["pending"])
    return pods, after["evictions"]


def ready_pods(rig: Rig) -> dict[str, str]:
    """The nodes of the pods that are ready and not terminating, by UID."""
    return {
        each["metadata"]["uid"]: each["spec"]["nodeName"]
        for each in standing(rig)
        if "True" == condition(each, "Ready")
    }


def decided_pods(rig: Rig) -> list[Document]:
    """Pods that are ready, or that Trimtab has found unschedulable."""
    pods = standing(rig)
    return [each for each in pods if "True" == condition(each, "Ready") or "False" == condition(each, "PodScheduled")]


def standing(rig: Rig) -> list[Document]:
    return [each for each in trimtab_process.pods(rig) if not each["metadata"].get("deletionTimestamp")]


def condition(pod: Document, kind: str, field: str = "status") -> str:
    conditions: Iterable[Document] = pod["status"].get("conditions", ())
    return next((each.get(field, "") for each in conditions if each["type"] == kind), "")


def pending(rig: Rig) -> Expected:
    """Pending pods by owner, with the message of their condition."""
    found = [each for each in standing(rig) if not each["spec"].get("nodeName")]
    return Counter(
        (each["metadata"]["ownerReferences"][0]["name"], condition(each, "PodScheduled", "message")) for each in found
    )


def allowed_disruptions(rig: Rig) -> int:
    budget = rig.admin.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/guarded")
    return int(budget["status"].get("disruptionsAllowed", 0))


def verbs_of(rig: Rig, user: str) -> set[str]:
    """What the user did, by the audit log."""
    return {event["verb"] for event in rig.audit_events() if event["user"]["username"] == user}
