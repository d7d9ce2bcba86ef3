"""Before a plan is carried out: it must be of this cluster, the ledger needs its namespace, and nobody has paused moves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.apply.cluster_checks import ApiServer, check_cluster, pause_reason
from trimtab.apps.apply.plan_file import CannotApply
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request

CREDENTIALS = Credentials(ClusterConfig(server="https://x:6443"), UserConfig(), "test")
SYSTEM, OURS = "/api/v1/namespaces/kube-system", "/api/v1/namespaces/trimtab"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"
NOT_FOUND = json_response({"kind": "Status", "reason": "NotFound", "message": "not found"}, 404)
FORBIDDEN = json_response({"kind": "Status", "reason": "Forbidden", "message": "ann may not get it"}, 403)


def named(name: str, uid: str = "u-1", **annotations: str) -> FakeResponse:
    metadata: dict[str, Any] = {"name": name, "namespace": "trimtab", "uid": uid, "resourceVersion": "1"}
    return json_response({"metadata": {**metadata, "annotations": annotations}})


def server(**pages: FakeResponse) -> ApiServer:
    """The plan's cluster with our namespace; leases and other namespaces by name."""
    found = {SYSTEM: named("kube-system"), OURS: named("trimtab", "u-2")}
    found |= {f"{LEASES}/{name.replace('_', '-')}": page for name, page in pages.items()}

    def answer(request: Request) -> FakeResponse:
        return found.get(request.path, NOT_FOUND)

    return ApiServer(FakeTransport(answer), CREDENTIALS)


def answering(path: str, response: FakeResponse) -> ApiServer:
    good = server()

    def answer(request: Request) -> FakeResponse:
        if request.path == path:
            return response
        return named("kube-system") if request.path == SYSTEM else NOT_FOUND

    return ApiServer(FakeTransport(answer), good.credentials)


async def test_the_right_cluster() -> None:
    """Nothing of ours needs to be installed but the namespace."""
    await check_cluster(server(), "u-1", "trimtab")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            answering(SYSTEM, named("kube-system", "u-9")),
            "the plan is of another cluster (its metadata.cluster is u-1, and",
        ),
        (answering(SYSTEM, FORBIDDEN), "so nobody knows which cluster this is: ann may not get it"),
        (answering(OURS, NOT_FOUND), "or name another with --namespace"),
        (server(trimtab=named("trimtab", **{"trimtab.dev/paused": "incident"})), "by lease trimtab/trimtab: incident"),
    ],
)
async def test_what_forbids_moves(asked: ApiServer, message: str) -> None:
    """Another cluster, an unknown one, no namespace, or a pause."""
    with pytest.raises(CannotApply) as error:
        await check_cluster(asked, "u-1", "trimtab")
    assert message in str(error.value)


async def test_an_unreachable_server() -> None:
    """Its address is named."""

    def answer(request: Request) -> FakeResponse:
        raise Unreachable("refused", sent=False)

    with pytest.raises(CannotApply, match="cannot be reached: refused"):
        await check_cluster(ApiServer(FakeTransport(answer), CREDENTIALS), "u-1", "trimtab")


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        ({}, ""),
        ({"trimtab": named("trimtab")}, ""),
        ({"trimtab": named("trimtab", **{"trimtab.dev/paused": "false"})}, ""),
        (
            {"trimtab_rescheduler": named("trimtab-rescheduler", **{"trimtab.dev/paused": "why"})},
            "moves are paused by lease trimtab/trimtab-rescheduler: why",
        ),
        (
            {"trimtab": FORBIDDEN},
            "the kill switch on lease trimtab/trimtab cannot be read: ann may not get it: grant get of leases",
        ),
    ],
)
async def test_the_kill_switch(pages: dict[str, FakeResponse], reason: str) -> None:
    """Of the leases of a rescheduler and of a scheduler with one; one that cannot be read might be set."""
    assert reason == await pause_reason(server(**pages), "trimtab")
