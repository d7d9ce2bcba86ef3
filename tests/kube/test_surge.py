"""One replica more for a while, request by request: what forbids it, and that it is taken back once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trimtab.core.model.events import SurgeDone, SurgeFailed
from trimtab.core.model.instructions import EndSurge, StartSurge
from trimtab.kube.surge import TOO_LATE, end_surge, start_surge
from trimtab.wire.outcomes import Reply
from trimtab.wire.requests import Request
from trimtab.wire.surge import DELETION_COST, SURGE, SURGE_REPLICAS

START = StartSurge("u1", "shop", "Deployment", "web", until=100.0)
END = EndSurge("u1", "shop", "Deployment", "web", "web-x")
WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
MARKS = {SURGE: "u1", SURGE_REPLICAS: "2"}


def workload(replicas: int = 2, ready: int | None = None, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
    template = {"spec": {"containers": [{"resources": resources}]}}
    status = {"observedGeneration": 3, "replicas": replicas, "readyReplicas": replicas if ready is None else ready}
    return {
        "metadata": {"resourceVersion": "7", "generation": 3, **metadata},
        "spec": {"replicas": replicas, "template": template, **(spec or {})},
        "status": status,
    }


class Server:
    """Answers by the end of the path; remembers what was patched."""

    def __init__(self, found: dict[str, Any], **answers: Any) -> None:
        self.answers = {
            "web": found,
            "horizontalpodautoscalers": {"items": []},
            "resourcequotas": {"items": []},
            **answers,
        }
        self.patched: dict[str, Any] = {}
        self.at = 50.0
        self.patch = Reply(200, b"{}")

    async def send(self, request: Request) -> Reply:
        name = request.path.rpartition("/")[2]
        if request.method == "PATCH":
            self.patched[name] = json.loads(request.body or b"")
            return self.patch if name == "web" else Reply(200, b"{}")
        answer = self.answers[name]
        return answer if isinstance(answer, Reply) else Reply(200, json.dumps(answer).encode())

    async def start(self) -> SurgeDone | SurgeFailed:
        return await start_surge(START, self.send, lambda: self.at)

    async def end(self, surge: EndSurge = END) -> SurgeDone | SurgeFailed:
        return await end_surge(surge, self.send, lambda: self.at)


async def test_a_further_replica() -> None:
    """Written with the annotation, and only if nothing has changed since it was read."""
    server = Server(workload())
    assert SurgeDone("u1", 50.0) == await server.start()
    metadata = {"resourceVersion": "7", "labels": MARKS}
    assert {"web": {"metadata": metadata, "spec": {"replicas": 3}}} == server.patched


async def test_a_further_replica_that_is_there_already() -> None:
    """After a lost answer it is not added twice."""
    server = Server(workload(3, labels=MARKS))
    assert SurgeDone("u1", 50.0) == await server.start()
    assert {} == server.patched


def _quota(**hard: str) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": "small"}, "status": {"hard": hard, "used": {"pods": "2", "cpu": "2"}}}]}


HPA = {"items": [{"metadata": {"name": "h"}, "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}}]}


@pytest.mark.parametrize(
    ("server", "reason", "impossible"),
    [
        (lambda: Server(workload(labels={"argocd.argoproj.io/instance": "a"})), "Argo CD manages it", True),
        (lambda: Server(workload(annotations={"kustomize.toolkit.fluxcd.io/name": "a"})), "Flux manages it", True),
        (
            lambda: Server(workload(ownerReferences=[{"kind": "Rollout", "name": "r", "controller": True}])),
            "Rollout r",
            True,
        ),
        (lambda: Server(workload(spec={"paused": True})), "paused", True),
        (lambda: Server(workload(), horizontalpodautoscalers=HPA), "HorizontalPodAutoscaler h", True),
        (lambda: Server(workload(), resourcequotas=_quota(pods="2")), "quota small has no room", True),
        (lambda: Server(workload(), resourcequotas=_quota(**{"requests.memory": "1Gi", "cpu": "9"})), "", False),
        (lambda: Server(workload(), resourcequotas=_quota(**{"requests.memory": "1Mi"})), "requests.memory", True),
        (lambda: Server(workload(), resourcequotas=_quota(**{"limits.cpu": "1m"})), "", False),
        (lambda: Server(workload(), resourcequotas=_quota(pods="many")), "cannot be read", False),
        (lambda: Server(workload(labels={SURGE: "u2"})), "another pod of it is being replaced", False),
        (lambda: Server(workload(ready=1)), "1 of its 2 replicas are ready", False),
        (lambda: Server(workload(generation=4)), "replicas are ready", False),
        (lambda: Server(Reply(0, error="cut")), "cannot be read: cut", False),
        (lambda: Server(Reply(403)), "cannot be read", True),
        (lambda: Server(workload(), horizontalpodautoscalers=Reply(500)), "cannot be listed", False),
        (lambda: Server(workload(), resourcequotas=Reply(403)), "cannot be listed", True),
        (lambda: Server(workload(), resourcequotas=Reply(429)), "cannot be listed", False),
    ],
)
async def test_what_speaks_against_it(server: Callable[[], Server], reason: str, impossible: bool) -> None:
    """Nothing is written; the pod may be evicted instead only where it will not work another time either."""
    found = server()
    answer = await found.start()
    if not reason:
        assert isinstance(answer, SurgeDone)
        return
    assert isinstance(answer, SurgeFailed) and reason in answer.message and {} == found.patched
    assert (impossible, False) == (answer.impossible, answer.unknown)


async def test_paused_moves() -> None:
    """Nothing was read, so nothing is said of the workload."""
    server = Server(Reply(0, error="moves are paused: maintenance", sent=False))
    assert SurgeFailed("u1", "moves are paused: maintenance", 50.0) == await server.start()
    assert {} == server.patched


async def test_too_late() -> None:
    """Whoever charged the move counts on its not being sent any more."""
    server = Server(workload())
    server.at = 100.5
    assert SurgeFailed("u1", TOO_LATE, 100.5) == await server.start()
    assert {} == server.patched


@pytest.mark.parametrize(
    ("reply", "unknown", "impossible"),
    [
        (Reply(409), False, False),
        (Reply(403), False, True),
        (Reply(500), True, False),
        (Reply(408), True, False),
        (Reply(0, error="cut"), True, False),
        (Reply(0, error="refused", sent=False), False, False),
    ],
)
async def test_the_outcome_of_the_write(reply: Reply, unknown: bool, impossible: bool) -> None:
    """Whether it may have taken place."""
    server = Server(workload())
    server.patch = reply
    answer = await server.start()
    assert isinstance(answer, SurgeFailed) and (unknown, impossible) == (answer.unknown, answer.impossible)


async def test_the_replica_is_taken_back() -> None:
    """The pod that is to leave is marked first; then the number is as before, without marks."""
    server = Server(workload(3, labels=MARKS))
    assert SurgeDone("u1", 50.0, ended=True) == await server.end()
    assert ["web-x", "web"] == list(server.patched)
    assert str(-(1 << 31) + 1) == server.patched["web-x"]["metadata"]["annotations"][DELETION_COST]
    removed = {"resourceVersion": "7", "labels": {SURGE: None, SURGE_REPLICAS: None}}
    assert {"metadata": removed, "spec": {"replicas": 2}} == server.patched["web"]


async def test_somebody_scaled_meanwhile() -> None:
    """Their number stays."""
    server = Server(workload(9, labels=MARKS))
    await server.end()
    assert "spec" not in server.patched["web"]


@pytest.mark.parametrize("found", [workload(3), workload(3, labels={SURGE: "u2"}), "gone"])
async def test_taking_it_back_twice_takes_it_back_once(found: Any) -> None:
    """Nor anything of another move; a workload that is gone needs nothing."""
    gone = Reply(404, b'{"kind": "Status", "reason": "NotFound"}')
    server = Server(gone if found == "gone" else found)  # type: ignore[arg-type]
    assert SurgeDone("u1", 50.0, ended=True) == await server.end()
    assert {} == server.patched


@pytest.mark.parametrize(
    "reply", [Reply(404, b"no such page"), Reply(500), Reply(0, error="cut"), Reply(200, b"<html>")]
)
async def test_it_is_not_taken_back_on_doubt(reply: Reply) -> None:
    """It will be tried again."""
    server = Server(reply)  # type: ignore[arg-type]
    assert isinstance(await server.end(), SurgeFailed)
