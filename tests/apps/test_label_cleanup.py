"""Labels of a dead labeller are removed, and never those of a live one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.label_cleanup import RBAC_REMEDY, CleanupOptions, CleanupResult, Clocks, Outcome, clean_up
from trimtab.config.trimtab.labeller import LEASE
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request, rfc3339_micro

pytestmark = pytest.mark.looptime
KEY = "pressure.trimtab.dev/cpu"
SOFT = {"key": KEY, "effect": "PreferNoSchedule"}
OTHERS = [{"key": "gpu", "effect": "NoSchedule"}, {"key": KEY, "effect": "NoSchedule"}]
PATH = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"
START = 1e9


def wall() -> float:
    return START + asyncio.get_running_loop().time()


class LabelledCluster:
    """Nodes and one lease; `lives` renews it as a labeller does, `refuse` lists nodes whose first patch fails."""

    def __init__(self, nodes: dict[str, dict[str, Any]], silent_for: float | None, holder: str = "dead") -> None:
        self.nodes, self.version, self.lives, self.refuse = nodes, 1, False, list[str]()
        self.lease = None if silent_for is None else self._spec(holder, silent_for)
        self.done: set[str] = set()
        self.transport = FakeTransport(self._answer)

    def _spec(self, holder: str, silent_for: float) -> dict[str, Any]:
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "renewTime": rfc3339_micro(START - silent_for),
        }

    def _answer(self, request: Request) -> FakeResponse:
        if request.path.startswith(PATH):
            return self._of_lease(request)
        name = request.path.removeprefix("/api/v1/nodes/")
        if request.method == "PATCH" and name in self.refuse:
            self.refuse.remove(name)
            return json_response({"kind": "Status", "message": "it has changed"}, 409)
        if request.method == "PATCH":
            self.done.add(name)
            return json_response({"kind": "Node"})
        return self._list()

    def _list(self) -> FakeResponse:
        items = [
            {"metadata": {"name": name, "uid": name, "resourceVersion": "3", "labels": node.get("labels", {})}}
            | {"spec": {"taints": node.get("taints", [])}}
            for name, node in self.nodes.items()
            if name not in self.done
        ]
        return json_response({"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": items})

    def _of_lease(self, request: Request) -> FakeResponse:
        if request.method == "GET" and self.lease is None:
            return json_response({"kind": "Status", "reason": "NotFound"}, 404)
        if request.method != "GET":
            self.lease = json.loads(request.body)["spec"]
        self.version += self.lives or request.method != "GET"
        meta = {"name": LEASE.name, "namespace": "trimtab", "resourceVersion": str(self.version)}
        body = {"kind": "Lease", "metadata": meta, "spec": self.lease}
        return json_response(body, 201 if request.method == "POST" else 200)

    def patches(self) -> list[Request]:
        return [request for _, request in self.transport.sent if request.method == "PATCH"]

    async def unmarked(self, *, after: float = 600.0, apply: bool = True, legacy: bool = False) -> CleanupResult:
        clocks = Clocks(wall, lambda: asyncio.get_running_loop().time())
        return await clean_up(
            CleanupOptions(LEASE, after, legacy, apply, "me"), ApiServer(self.transport, "https://x"), clocks
        )


MARKED = {"a": {"labels": {KEY: "high", "zone": "1"}}, "b": {"taints": [*OTHERS, SOFT]}, "c": {"labels": {"zone": "2"}}}


@pytest.mark.parametrize(("silent_for", "after"), [(601.0, 600.0), (86_400.0, 600.0), (-86_400.0, 600.0), (None, 0.0)])
async def test_marks_of_whoever_has_gone_are_taken_off(silent_for: float | None, after: float) -> None:
    """Only ours, by key and taint index; the lease is acquired and released."""
    server = LabelledCluster(dict(MARKED), silent_for)
    found = await server.unmarked(after=after)
    assert (("a: -pressure.trimtab.dev/cpu", f"b: -taint {KEY}", "cleaned up 2 nodes"), Outcome.REMOVED) == found
    label, taint = (json.loads(request.body) for request in server.patches())
    assert {"uid": "a", "labels": {KEY: None}} == label["metadata"]
    assert [{"op": "remove", "path": "/spec/taints/2"}] == [step for step in taint if step["op"] == "remove"]
    assert server.lease is not None and "" == server.lease["holderIdentity"]


@pytest.mark.parametrize(
    ("silent_for", "holder", "words"),
    [
        (599.0, "busy", "labelled: 2 nodes; busy renewed its lease 599 s ago"),
        (599.0, "", "a labeller released its lease 599 s ago"),
        (-30.0, "busy", "busy renewed its lease 0 s ago"),
    ],
)
async def test_a_labeller_that_was_there_lately_is_waited_for(silent_for: float, holder: str, words: str) -> None:
    """A restart or rollout has its time, also if clocks differ a little: labels stay, and the lease is not written."""
    server = LabelledCluster(dict(MARKED), silent_for, holder)
    found = await server.unmarked()
    assert (True, True) == (found.ok, words in found.lines[0])
    assert {"GET"} == {request.method for _, request in server.transport.sent}


@pytest.mark.parametrize("silent_for", [86_400.0, -86_400.0])
async def test_a_clock_that_is_wrong_takes_nothing_from_who_lives(silent_for: float) -> None:
    """Its renew time is long ago or in the future, but the lease keeps changing: it cannot be acquired."""
    server = LabelledCluster(dict(MARKED), silent_for, "lives")
    server.lives = True
    found = await server.unmarked()
    assert (("the lease is held: a labeller runs, and its labels stay",), Outcome.HELD) == found
    assert [] == server.patches()


@pytest.mark.parametrize("apply", [True, False])
async def test_no_lease_is_no_proof(apply: bool) -> None:
    """Labels imply a lease: it may be in another namespace, and renewed there."""
    server = LabelledCluster(dict(MARKED), None)
    found = await server.unmarked(apply=apply)
    assert not found.ok
    assert "no lease trimtab/trimtab-labeller" in found.lines[0] and "--lease-namespace" in found.lines[0]
    assert {"GET"} == {request.method for _, request in server.transport.sent}


@pytest.mark.parametrize("silent_for", [86_400.0, None])
async def test_a_lease_that_may_not_be_taken_is_no_labeller(silent_for: float | None) -> None:
    """A missing permission is an error, and not taken for a live labeller."""
    server = LabelledCluster(dict(MARKED), silent_for)
    forbidden = json_response({"kind": "Status", "message": "not yours"}, 403)
    obey = server._of_lease
    server._of_lease = lambda request: obey(request) if request.method == "GET" else forbidden  # type: ignore[method-assign]
    found = await server.unmarked(after=0.0)
    words = "lease trimtab/trimtab-labeller cannot be acquired: status 403: not yours: "
    assert (False, True) == (found.ok, found.lines[0].startswith(words))
    assert "deploy/components/labeller/labeller.yaml" in found.lines[0]
    assert [] == server.patches()


async def test_without_apply_it_only_says() -> None:
    """Neither nodes nor the lease are written."""
    server = LabelledCluster(dict(MARKED), 601.0)
    assert "would clean up 2 nodes: add --apply" == (await server.unmarked(apply=False)).lines[-1]
    assert {"GET"} == {request.method for _, request in server.transport.sent}


async def test_the_old_mark_only_where_asked() -> None:
    """Another program may set status=presure without a lease; another value is never ours."""
    nodes = {"a": {"labels": {"status": "presure"}}, "b": {"labels": {"status": "ok"}}}
    assert ("no node has a pressure label",) == (await LabelledCluster(dict(nodes), 601.0).unmarked()).lines
    server = LabelledCluster(dict(nodes), 601.0)
    assert ("a: -status", "cleaned up 1 node") == (await server.unmarked(legacy=True)).lines
    assert ["/api/v1/nodes/a"] == [request.path for request in server.patches()]


async def test_a_node_that_changed_in_between_is_met_again() -> None:
    """A rejected patch is retried, three times in all."""
    server = LabelledCluster(dict(MARKED), 601.0)
    server.refuse = ["a", "a"]
    assert (True, "cleaned up 2 nodes") == ((found := await server.unmarked()).ok, found.lines[-1])
    server = LabelledCluster(dict(MARKED), 601.0)
    server.refuse = ["a"] * 9
    found = await server.unmarked()
    assert (False, "a: it has changed") == (found.ok, found.lines[-2])
    assert "cleaned up 1 node, failed: 1" == found.lines[-1]


async def test_what_cannot_be_looked_at_is_said() -> None:
    """Without nodes, or without the lease, nothing is done."""
    server = LabelledCluster(dict(MARKED), None)
    forbidden = json_response({"kind": "Status", "message": "not yours"}, 403)
    blind = FakeTransport(lambda request: forbidden if request.path.startswith(PATH) else server._list())
    found = await clean_up(CleanupOptions(LEASE, 600.0, apply=True), ApiServer(blind, "https://x"))
    assert (f"lease trimtab/trimtab-labeller cannot be read: 403 not yours: {RBAC_REMEDY}",) == found.lines
    assert not found.ok
    gone = FakeTransport(lambda request: Unreachable("no route", sent=False))
    found = await clean_up(CleanupOptions(LEASE, 0.0), ApiServer(gone, "https://x"))
    assert ((f"nodes: cannot be listed: no route: {RBAC_REMEDY}",), Outcome.FAILED) == found
