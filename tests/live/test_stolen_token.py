"""What a thief tries with the token of each shipped account on a real API server: all of it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.live import trimtab_process
from tests.live.account_client import STRATEGIC, Account
from tests.live.account_rights import install
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Client, Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

SCHEDULER, LABELLER, RESCHEDULER = ACCOUNTS = ("trimtab", "trimtab-labeller", "trimtab-rescheduler")
DEFAULT, OURS, SYSTEM = (f"/api/v1/namespaces/{name}" for name in ("default", "trimtab", "kube-system"))
LEASES, RBAC = "/apis/coordination.k8s.io/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1"
ADMISSION, FLOW = "/apis/admissionregistration.k8s.io/v1", "/apis/flowcontrol.apiserver.k8s.io/v1"
IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "trimtab", "image": "evil"}]}}}}
BINDING: Document = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "waiting"},
    "target": {"kind": "Node", "name": "node"},
}
EVICTION: Document = {
    "apiVersion": "policy/v1",
    "kind": "Eviction",
    "metadata": {"name": "victim", "namespace": "default"},
}
ADMIN: Document = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "admin"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "trimtab", "namespace": "trimtab"}],
}


class Attempt(NamedTuple):
    """A request, and the accounts that may make it: all others must not."""

    method: str
    path: str
    body: Any = None
    allowed: tuple[str, ...] = ()


ATTEMPTS = {
    "read a Secret": Attempt("GET", f"{DEFAULT}/secrets/password"),
    "list all Secrets": Attempt("GET", "/api/v1/secrets"),
    "list our own Secrets": Attempt("GET", f"{OURS}/secrets"),
    "create a pod": Attempt("POST", f"{DEFAULT}/pods", pod("miner")),
    "delete a pod": Attempt("DELETE", f"{DEFAULT}/pods/victim"),
    "delete all pods": Attempt("DELETE", f"{DEFAULT}/pods"),
    "run a command in a pod": Attempt("POST", f"{DEFAULT}/pods/victim/exec?command=sh&stdout=true"),
    "debug a pod": Attempt("PATCH", f"{DEFAULT}/pods/victim/ephemeralcontainers", {"spec": {}}),
    "replace a pod's image": Attempt(
        "PATCH", f"{DEFAULT}/pods/victim", {"spec": {"containers": [{"name": "main", "image": "evil"}]}}
    ),
    "declare a pod failed": Attempt("PATCH", f"{DEFAULT}/pods/victim/status", {"status": {"phase": "Failed"}}),
    "bind a pod": Attempt("POST", f"{DEFAULT}/pods/waiting/binding", BINDING, (SCHEDULER,)),
    "evict a pod": Attempt("POST", f"{DEFAULT}/pods/victim/eviction", EVICTION, (RESCHEDULER,)),
    "read a pod's logs": Attempt("GET", f"{DEFAULT}/pods/victim/log"),
    "cordon a node": Attempt("PATCH", "/api/v1/nodes/node", {"spec": {"unschedulable": True}}),
    "delete a node": Attempt("DELETE", "/api/v1/nodes/node"),
    "reach a kubelet": Attempt("GET", "/api/v1/nodes/node/proxy/pods"),
    "read kube-scheduler's lease": Attempt(
        "GET", f"{LEASES}/kube-system/leases/kube-scheduler", allowed=(RESCHEDULER,)
    ),
    "take kube-scheduler's lease": Attempt(
        "PATCH", f"{LEASES}/kube-system/leases/kube-scheduler", {"spec": {"holderIdentity": "thief"}}
    ),
    "take a lease of another name": Attempt("PATCH", f"{LEASES}/trimtab/leases/other", {"spec": {}}),
    "list leases": Attempt("GET", f"{LEASES}/trimtab/leases"),
    "read our configuration": Attempt("GET", f"{OURS}/configmaps/trimtab"),
    "change our configuration": Attempt("PATCH", f"{OURS}/configmaps/trimtab", {"data": {"config.yaml": ""}}),
    "write a ConfigMap": Attempt(
        "POST", f"{OURS}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    ),
    "replace our image": Attempt("PATCH", "/apis/apps/v1/namespaces/trimtab/deployments/trimtab", IMAGE),
    "scale us away": Attempt(
        "PATCH", "/apis/apps/v1/namespaces/trimtab/deployments/trimtab", {"spec": {"replicas": 0}}
    ),
    "become cluster-admin": Attempt("POST", f"{RBAC}/clusterrolebindings", ADMIN),
    "widen our role": Attempt("PATCH", f"{RBAC}/clusterroles/trimtab-scheduler", {"rules": []}),
    "get another token": Attempt(
        "POST", f"{OURS}/serviceaccounts/trimtab/token", {"spec": {"expirationSeconds": 9999}}
    ),
    "remove our policy": Attempt("DELETE", f"{ADMISSION}/validatingadmissionpolicies/trimtab-scheduler-pods"),
    "add a webhook": Attempt("POST", f"{ADMISSION}/mutatingwebhookconfigurations", {"metadata": {"name": "mine"}}),
    "remove our FlowSchema": Attempt("DELETE", f"{FLOW}/flowschemas/trimtab-writes"),
    "patch a claim": Attempt("PATCH", f"{DEFAULT}/persistentvolumeclaims/data", {"spec": {"volumeName": "theirs"}}),
    "delete a claim": Attempt("DELETE", f"{DEFAULT}/persistentvolumeclaims/data"),
    "read kube-system's ConfigMaps": Attempt("GET", f"{SYSTEM}/configmaps"),
}


# What roles allow, and policies refuse: one attempt for each policy.
BY_POLICY = {
    SCHEDULER: ("delete a pod", "patch a claim"),
    LABELLER: ("cordon a node",),
    RESCHEDULER: ("cordon a node", "replace a pod's image", "replace our image", "write a ConfigMap"),
}
# Without kubelets there is nobody to answer.
UNSERVED = {("run a command in a pod", 400), ("reach a kubelet", 500), ("read a pod's logs", 500)}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Everything as shipped, and what a thief would like."""
    with Rig(controlplane_or_skip()) as running:
        install(running)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password", "namespace": "default"}}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        for namespace, name in (("kube-system", "kube-scheduler"), ("trimtab", "other")):
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
            running.admin.call("POST", f"{LEASES}/{namespace}/leases", lease)
        running.admin.create_many([node("node"), secret, claim, pod("victim", nodeName="node"), pod("waiting")])
        yield running


@pytest.fixture(scope="module")
def thieves(rig: Rig) -> Iterator[dict[str, Account]]:
    """Waits until each policy is in force, which takes a moment."""
    made = {name: Account(rig, name) for name in ACCOUNTS}
    for account, attempts in BY_POLICY.items():
        for what in attempts:
            trimtab_process.wait_for(
                lambda account=account, what=what: send(made[account].client, ATTEMPTS[what])[0] == 403,  # type: ignore[misc]
                60,
                f"{account} may not {what}",
            )
    yield made
    for each in made.values():
        each.client.close()


def send(client: Client, attempt: Attempt) -> tuple[int, str]:
    """As a dry run, which passes the same authorization and admission; status and text."""
    path = attempt.path if attempt.method == "GET" else f"{attempt.path}{'&' if '?' in attempt.path else '?'}dryRun=All"
    body = None if attempt.body is None else json.dumps(attempt.body).encode()
    status, answer = client.raw(attempt.method, path, body, STRATEGIC if attempt.method == "PATCH" else "")
    return status, answer.decode()


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("what", ATTEMPTS)
def test_a_stolen_token_is_refused(thieves: dict[str, Account], account: str, what: str) -> None:
    """403, unless it is what the account is for."""
    attempt = ATTEMPTS[what]
    status, answer = send(thieves[account].client, attempt)
    if account in attempt.allowed:
        assert status in (200, 201), answer
    else:
        assert (403, True) == (status, "forbidden" in answer), (status, answer)


@pytest.mark.parametrize("what", ATTEMPTS)
def test_an_administrator_is_not_refused(rig: Rig, what: str) -> None:
    """So that no attempt of the others is refused merely because it is malformed."""
    status, answer = send(rig.admin, ATTEMPTS[what])
    assert status in (200, 201) or (what, status) in UNSERVED, answer


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("group", ["", "system:masters"])
def test_nobody_is_impersonated(rig: Rig, account: str, group: str) -> None:
    """Neither an administrator nor a group of theirs."""
    as_another = {"Impersonate-User": "admin", **({"Impersonate-Group": group} if group else {})}
    thief = Account(rig, account, as_another)
    status, message = thief.asks("GET", "/api/v1/nodes")
    assert (403, True) == (status, "cannot impersonate" in message), message
    thief.client.close()
