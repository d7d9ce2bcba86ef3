"""Observing the pods of a check on a server that refuses, or ends, what it is asked for."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.kube.fake_transport import FakeResponse, FakeStream, FakeTransport, json_response
from trimtab.apps.deploy.api_client import ApiClient, DeployError
from trimtab.apps.deploy.probe_pods import Bindings, ProbeOptions, probe_namespace, watch_bindings
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime
OPTIONS = ProbeOptions("mine", "trimtab", "x")
EMPTY = json_response({"metadata": {"resourceVersion": "5"}, "items": []})
FORBIDDEN = json_response({"kind": "Status", "message": "pods is forbidden"}, 403)


def ended() -> FakeStream:
    stream = FakeStream()
    stream.end()
    return stream


@pytest.mark.parametrize("listed", [EMPTY, json_response({"kind": "Status"}, 503)])
@pytest.mark.parametrize("refused", [True, False])
async def test_a_watch_that_ends_at_once_is_not_asked_for_without_a_pause(listed: FakeResponse, refused: bool) -> None:
    """One list per second, whether the watch was refused or only ended, and also while lists fail."""
    transport = FakeTransport(lambda request: listed, lambda request: FakeStream(403) if refused else ended())
    with suppress(TimeoutError):
        async with asyncio.timeout(2.5):
            await watch_bindings(ApiClient(transport), OPTIONS, Bindings())
    assert [0.0, 1.0, 2.0] == transport.times()


async def test_a_refused_list_is_what_the_user_reads() -> None:
    """At once, and not that the pod is still pending after five minutes."""

    def answer(request: Request) -> FakeResponse:
        if request.path == "/api/v1":
            kinds = ({"name": "namespaces", "kind": "Namespace"}, {"name": "pods", "kind": "Pod", "namespaced": True})
            return json_response({"resources": kinds})
        if request.path == "/api/v1/namespaces/mine":
            return json_response({"kind": "Namespace", "metadata": {"name": "mine"}})
        return EMPTY if request.method == "DELETE" or deleting else FORBIDDEN

    deleting = False
    with pytest.raises(DeployError, match="cannot list pods in mine: 403 pods is forbidden: use an account that may"):
        async with probe_namespace(ApiClient(FakeTransport(answer)), OPTIONS) as bindings:
            try:
                await bindings.wait_for(["one"], 300.0)
            finally:
                deleting = True
    assert asyncio.get_running_loop().time() < 10.0
