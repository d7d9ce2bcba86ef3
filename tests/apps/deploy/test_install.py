"""Carrying out a plan against a server that refuses something after the namespace exists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.deploy.api_client import ApiClient, DeployError, ref_of
from trimtab.apps.deploy.install import carry_out
from trimtab.apps.deploy.plan import ObjectChange, Plan
from trimtab.apps.deploy.release import Inventory, Release, inventory_ref, to_config_map
from trimtab.wire.requests import Request

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "mine"}}
KINDS = [
    {"name": "namespaces", "kind": "Namespace", "namespaced": False},
    {"name": "secrets", "kind": "Secret", "namespaced": True},
]
REFUSAL = {"kind": "Status", "message": "Secret is invalid: data.x: too long", "reason": "Invalid"}


def answer(request: Request) -> FakeResponse:
    """A server whose admission refuses the Secret."""
    if request.path == "/api/v1":
        return json_response({"resources": KINDS})
    if request.method == "DELETE":
        return json_response({"kind": "Status"})
    if "/secrets/" in request.path:
        return json_response(REFUSAL, 422)
    return json_response({**NAMESPACE, "metadata": {"name": "mine", "uid": "u"}}, 201)


async def test_what_is_refused_in_a_new_namespace_leaves_nothing() -> None:
    """The rest is tried right after the namespace exists; a refusal removes the namespace, and nothing else was written."""
    transport = FakeTransport(answer)
    changes = tuple(ObjectChange(ref_of(each), None, each, each) for each in (NAMESPACE, SECRET))
    plan = Plan(Release("mine", "0.1.0", "default", ""), changes, None)
    said: list[Any] = []
    with pytest.raises(DeployError, match=r"422 Secret is invalid.*Namespace mine was removed again") as refused:
        await carry_out(ApiClient(transport), plan, said.append, timeout=1.0)
    assert "correct the field; Namespace mine was removed again, and nothing else was written" in str(refused.value)
    writes = [
        (each.method, each.path.split("?")[0], "dryRun" in each.path)
        for _, each in transport.sent
        if each.method != "GET"
    ]
    assert [
        ("PATCH", "/api/v1/namespaces/mine", False),
        ("PATCH", "/api/v1/namespaces/mine/secrets/s", True),
        ("DELETE", "/api/v1/namespaces/mine", False),
    ] == writes
    assert [] == said


LEASES = "/apis/coordination.k8s.io/v1"
SERVED = {
    "/api/v1": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}, {"name": "pods", "kind": "Pod"}],
    LEASES: [{"name": "leases", "kind": "Lease", "namespaced": True}],
    "/apis/rbac.authorization.k8s.io/v1": [{"name": "roles", "kind": "Role", "namespaced": True}],
    "/apis/apps/v1": [{"name": "deployments", "kind": "Deployment", "namespaced": True}],
}


class Rollout:
    """A server whose Deployment has rolled out once it has been read so often."""

    def __init__(self, reads: int) -> None:
        self.reads = reads

    def __call__(self, request: Request) -> FakeResponse:
        path = request.path.split("?")[0]
        if path in SERVED:
            return json_response({"resources": SERVED[path]})
        if request.method != "GET":
            return json_response({"metadata": {"uid": "u"}})
        self.reads -= 1
        status = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 0 if self.reads > 0 else 1}
        return json_response({"metadata": {}, "spec": {"replicas": 1}, "status": status, "items": []})


def lease_plan() -> Plan:
    """The lease `old` is replaced by `new`."""

    def item(version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "mine"}, **fields}

    def role(lease: str) -> dict[str, Any]:
        named = {"resources": ["leases"], "resourceNames": [lease], "verbs": ["get", "update"]}
        return item("rbac.authorization.k8s.io/v1", "Role", "r", rules=[{"resources": ["leases"]}, named])

    new, old = role("new"), item("coordination.k8s.io/v1", "Lease", "old")
    pods = item("apps/v1", "Deployment", "trimtab")
    record = to_config_map(Inventory((ref_of(new),), leases=("mine/new",)), "mine")
    changes = (
        ObjectChange(inventory_ref("mine"), {}, record, record),
        ObjectChange(ref_of(new), role("old"), new, new),
        ObjectChange(ref_of(pods), {}, pods, pods),
        ObjectChange(ref_of(old), {**old, "metadata": {**old["metadata"], "uid": "u"}}, None),
    )
    installed = Inventory((ref_of(old),), leases=("mine/old",))
    return Plan(Release("mine", "0.1.0", "default", ""), changes, installed)


def written(transport: FakeTransport) -> list[tuple[str, str]]:
    """The kind of each write, and the leases that it allows or lists."""
    found = []
    for request in (each for _, each in transport.sent if each.method != "GET"):
        kind = request.path.split("?")[0].split("/")[-2]
        body = json.loads(request.body or b"{}")
        leases = [name for rule in body.get("rules", ()) for name in rule.get("resourceNames", ())]
        listed = json.loads(body["data"]["settings"])["leases"] if kind == "configmaps" else []
        found.append((f"{request.method} {kind}", " ".join([*leases, *listed])))
    return found


@pytest.mark.looptime
async def test_the_old_leader_keeps_its_lease_until_the_rollout_is_done() -> None:
    """Both leases are allowed and recorded meanwhile; then the old right, the old lease and its record go."""
    transport = FakeTransport(Rollout(3))
    await carry_out(ApiClient(transport), lease_plan(), lambda line: None, timeout=60.0)
    begin = [("PATCH configmaps", "mine/new mine/old"), ("PATCH roles", "new old"), ("PATCH deployments", "")]
    end = [("PATCH roles", "new"), ("DELETE leases", ""), ("PATCH configmaps", "mine/new")]
    assert [*begin, *end] == written(transport)
    failed = FakeTransport(Rollout(10**6))
    with pytest.raises(DeployError, match="not available after 5 s"):
        await carry_out(ApiClient(failed), lease_plan(), lambda line: None, timeout=5.0)
    assert begin == written(failed)
