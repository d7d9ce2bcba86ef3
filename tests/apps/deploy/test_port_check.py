"""The secure port of the replicas, asked through the API server's proxy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.deploy.api_client import ApiClient
from trimtab.apps.deploy.port_check import check_port
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request

KINDS = {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]}
HTTPS = {"name": "https", "containerPort": 10259}
NOT_READY = json_response(b"[-]informer-sync failed: not synced", 500)
REFUSED = json_response(
    {
        "kind": "Status",
        "message": "error trying to reach service: dial tcp 10.1.0.7:10259: connect: connection refused",
    },
    503,
)
NO_TUNNEL = json_response(
    {
        "kind": "Status",
        "message": "error trying to reach service: dial tcp 127.0.0.1:8131: connect: connection refused",
    },
    503,
)
NO_WAY = json_response({"kind": "Status", "message": "error trying to reach service: dial tcp: i/o timeout"}, 503)


def replica(name: str, *ports: dict[str, Any]) -> dict[str, Any]:
    status = {"podIP": "10.1.0.7", "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {"containers": [{"ports": list(ports)}]}
    return {"metadata": {"name": name, "namespace": "mine"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("answers", "expected", "message"),
    [
        ([], None, "no replica in namespace mine"),
        ([json_response(b"ok"), json_response(b"ok")], True, "2 of 2 replicas answer /readyz"),
        ([json_response(b"ok"), NOT_READY], False, "pod-1: 500 [-]informer-sync failed: not synced"),
        ([NO_WAY, NO_WAY], None, "cannot be asked through the API server: pod-0: 503 error trying to reach service"),
        ([Unreachable("no response within 3 s", sent=True)], None, "pod-0: 504 no response within 3 s"),
        ([NO_WAY, NOT_READY], False, "pod-1: 500"),
        ([json_response(b"ok"), REFUSED], False, "pod-1: 503 error trying to reach service: dial tcp 10.1.0.7:10259"),
        ([NO_TUNNEL], None, "cannot be asked through the API server: pod-0: 503"),
    ],
)
async def test_what_the_replicas_answer(answers: list[FakeResponse], expected: bool | None, message: str) -> None:
    """All ready is a pass, one that is not a failure, and so is a ready one that refuses; no way to the pods, or a tunnel
    that is down, proves nothing. A CronJob's pod is not asked."""
    pods = [replica(f"pod-{index}", HTTPS) for index in range(len(answers))]

    def answer(request: Request) -> FakeResponse:
        if request.path == "/api/v1":
            return json_response(KINDS)
        if "/proxy/" not in request.path:
            return json_response({"items": [*pods, replica("unmark")]})
        name = request.path.removeprefix("/api/v1/namespaces/mine/pods/https:").removesuffix(":10259/proxy/readyz")
        return answers[int(name.removeprefix("pod-"))]

    passed, said = await check_port(ApiClient(FakeTransport(answer)), "mine")
    assert (expected, True) == (passed, message in said), said
