"""Objects on the API server: a busy server is asked again, and refusals are sentences."""

from __future__ import annotations

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.deploy.api_client import BUSY_TRIES, ApiClient, DeployError, ObjectRef
from trimtab.wire.requests import Request

KINDS = {"resources": [{"name": "secrets", "kind": "Secret", "namespaced": True}, {"name": "secrets/x", "kind": "Y"}]}
SECRET = ObjectRef("v1", "Secret", "a", "mine")
BUSY = json_response({"kind": "Status", "message": "too many requests"}, 429, **{"Retry-After": "2"})


def server(*answers: FakeResponse) -> FakeTransport:
    """Discovery, and then these answers one after the other; the last one for ever."""
    left = list(answers)

    def answer(request: Request) -> FakeResponse:
        if request.path == "/api/v1":
            return json_response(KINDS)
        return left.pop(0) if len(left) > 1 else left[0]

    return FakeTransport(answer)


@pytest.mark.looptime
async def test_a_busy_server_is_asked_again() -> None:
    """After the time it asks for; but not for ever."""
    transport = server(BUSY, BUSY, json_response({"kind": "Secret"}))
    assert {"kind": "Secret"} == await ApiClient(transport).read(SECRET)
    assert [0.0, 0.0, 2.0, 4.0] == transport.times()
    with pytest.raises(DeployError, match="cannot read Secret mine/a: 429 too many requests: try again later"):
        await ApiClient(transport := server(BUSY)).read(SECRET)
    assert 1 + BUSY_TRIES == len(transport.sent)


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "renew the token or certificate of the kubeconfig"),
        (403, "use an account that may, or ask an administrator"),
        (500, "see the API server's log"),
    ],
)
async def test_refusals_have_a_remedy(status: int, remedy: str) -> None:
    """What could not be done, the status, the server's words, and what to do."""
    refused = server(json_response({"kind": "Status", "message": "no."}, status))
    with pytest.raises(DeployError) as error:
        await ApiClient(refused).read(SECRET)
    assert f"cannot read Secret mine/a: {status} no: {remedy}" == str(error.value)


async def test_what_does_not_exist() -> None:
    """An object, a kind that the server does not have or has no more, are none; a path of such a kind is an error."""
    client = ApiClient(server(json_response({"kind": "Status"}, 404)))
    assert (None, []) == (await client.read(SECRET), await client.list_kind("v1", "Secret", "mine"))
    missing = ObjectRef("v1", "Unknown", "a")
    assert (None, []) == (await client.read(missing), await client.list_kind("v1", "Unknown"))
    with pytest.raises(DeployError, match="the cluster has no kind Unknown of v1"):
        await client.path(missing)
