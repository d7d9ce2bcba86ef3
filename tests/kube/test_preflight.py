"""A server that cannot be used becomes an error that says what to do."""

from __future__ import annotations

import asyncio

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, Exec, UserConfig
from trimtab.kube.preflight import (
    ApiServerUnavailable,
    PreflightError,
    check_access,
    check_permission,
    wait_for_api_server,
)
from trimtab.kube.transport import AiohttpTransport, NoCredentials, PooledTransport, Unreachable

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
            NoCredentials("the exec plugin p failed", sent=False),
            "(context 'c' of file): the exec plugin p failed. Check the user of the kubeconfig",
        ),
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


@pytest.mark.parametrize("transport", [AiohttpTransport, PooledTransport])
async def test_a_missing_exec_plugin_ends_the_start(transport: type[AiohttpTransport]) -> None:
    """It is not the server that cannot be reached, and waiting does not help."""
    plugin = Exec(command="no-such-plugin", api_version="client.authentication.k8s.io/v1")
    given = Credentials(ClusterConfig(server="http://127.0.0.1:1"), UserConfig(exec=plugin), "test")
    async with transport(given) as connection:
        with pytest.raises(
            PreflightError, match=r"^no credentials for .*no-such-plugin cannot be run: No such"
        ) as failure:
            await check_access(connection, given)
    assert not isinstance(failure.value, ApiServerUnavailable)


REFUSED = PreflightError("forbidden")
OUTAGE = ApiServerUnavailable("no connection")


async def answers(*script: Exception | None, every: float = 1.0) -> tuple[float, Exception | None]:
    """How long it was waited for an API server with these answers, one after the other, and what came of it."""
    remaining = [*script]

    async def check() -> None:
        if (error := remaining.pop(0)) is not None:
            raise error

    loop = asyncio.get_running_loop()
    before = loop.time()
    try:
        await wait_for_api_server(check, lambda now: every)
    except PreflightError as error:
        return loop.time() - before, error
    return loop.time() - before, None


@pytest.mark.looptime
async def test_an_unavailable_server_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """However long it takes, and each error is logged once; a server that refuses us ends it at once."""
    assert (300.0, None) == await answers(*([OUTAGE] * 300), None)
    assert 1 == caplog.text.count("waiting for the API server")
    assert (0.0, REFUSED) == await answers(REFUSED)
    caplog.clear()
    assert (4.0, None) == await answers(OUTAGE, OUTAGE, ApiServerUnavailable("no credentials"), OUTAGE, None)
    logged = [record.getMessage().rpartition("=")[2] for record in caplog.records if "waiting" in record.getMessage()]
    assert ["no connection", "no credentials", "no connection"] == logged


@pytest.mark.looptime
async def test_a_server_that_has_just_started_may_refuse_for_a_while() -> None:
    """It answers 403 until it has read its roles: for 30 s after an outage that is waited for, and no longer."""
    assert (6.0, None) == await answers(OUTAGE, *([REFUSED] * 5), None)
    assert (30.0, REFUSED) == await answers(OUTAGE, *([REFUSED] * 40))


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (Unreachable("connection refused", sent=False), True),
        (Unreachable("the certificate is not trusted", sent=False, permanent=True), False),
        (json_response(b"busy", 429), True),
        (json_response(b"etcdserver: request timed out", 500), True),
        (json_response(b"", 503), True),
        (json_response({"kind": "Status", "message": "no"}, 401), False),
        (json_response({"kind": "Status", "message": "no"}, 403), False),
        (json_response(b"<html>hello</html>"), False),
    ],
)
async def test_what_may_pass_by_itself(answer: FakeResponse, passes: bool) -> None:
    """No answer, 429 and 5xx; not what an administrator has to mend."""
    with pytest.raises(PreflightError) as failure:
        await check_access(FakeTransport(lambda request: answer), credentials())
    assert passes == isinstance(failure.value, ApiServerUnavailable)


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
