"""Carrying out a plan against a server that refuses something after the namespace exists."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.deploy.api_client import ApiClient, DeployError, ref_of
from trimtab.apps.deploy.install import carry_out
from trimtab.apps.deploy.plan import ObjectChange, Plan
from trimtab.apps.deploy.release import Release
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
