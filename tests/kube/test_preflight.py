"""A server that cannot be used becomes an error that says what to do."""

from __future__ import annotations

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig
from trimtab.kube.preflight import PreflightError, check_access, check_permission
from trimtab.kube.transport import Unreachable

GOOD = json_response({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": []})


def credentials() -> Credentials:
    return Credentials(ClusterConfig(server="https://x:6443"), UserConfig(token="canary"), "context 'c' of file")


async def test_a_usable_server_passes() -> None:
    """One pod and one node are listed, no more."""
    transport = FakeTransport(lambda request: GOOD)
    await check_access(transport, credentials())
    assert ["/api/v1/pods?limit=1", "/api/v1/nodes?limit=1"] == [request.path for _, request in transport.sent]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Unreachable("connection refused", sent=False), "cannot be reached: connection refused. Check its address"),
        (
            json_response({"kind": "Status", "message": "Unauthorized"}, 401),
            "rejects our credentials: Unauthorized. Renew",
        ),
        (
            json_response({"kind": "Status", "message": "cannot list"}, 403),
            "forbids listing /api/v1/pods: cannot list. Apply deploy/rbac.yaml and use its service account",
        ),
        (
            json_response(
                {"kind": "Status", "message": 'pods is forbidden: User "ann" cannot list resource "pods"'}, 403
            ),
            "Grant it to ann, as deploy/rbac.yaml does for Trimtab's service account, or use that one",
        ),
        (json_response(b"<html>hello</html>"), "does not answer like an API server: status 200, '<html>hello</html>'"),
        (json_response(b"nothing here", 404), "does not answer like an API server: status 404"),
    ],
)
async def test_errors_say_what_to_do(answer: FakeResponse, sentence: str) -> None:
    """The sentence names the server, where its address came from, what happened, and what to do."""
    with pytest.raises(PreflightError) as failure:
        await check_access(FakeTransport(lambda request: answer), credentials())
    assert sentence in str(failure.value)
    assert "https://x:6443 (context 'c' of file)" in str(failure.value)
    assert "canary" not in str(failure.value)


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (json_response({"status": {"allowed": True}}, 201), True),
        (json_response({"status": {"allowed": False}}, 201), False),
        (json_response({"kind": "Status", "message": "no reviews here"}, 403), True),
        (Unreachable("connection refused", sent=False), True),
    ],
)
async def test_only_a_denied_permission_is_an_error(answer: FakeResponse, passes: bool) -> None:
    """A server that does not answer an access review gets the benefit of the doubt: the write itself will tell."""
    checking = check_permission(FakeTransport(lambda request: answer), credentials(), "patch", "nodes", "deploy/x.yaml")
    if passes:
        await checking
        return
    with pytest.raises(PreflightError, match=r"forbids this account to patch nodes. Apply deploy/x.yaml"):
        await checking
