"""Extra kinds are watched wherever they are served, and errors say what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeStream, FakeTransport, json_response
from trimtab.core.model.events import Event, KindForbidden, ObjectDeleted, ObjectUpserted, Synced
from trimtab.core.model.objects import PodGroup, Service
from trimtab.core.model.selectors import LabelSelector
from trimtab.kube.informers import Informers
from trimtab.kube.kinds import EXTRA_KINDS, IfForbidden, UnknownKind, extra_kinds
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime
NEW, OLD = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups", "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups"
SERVICES = "/api/v1/services"
FORBIDDEN = json_response({"kind": "Status", "code": 403, "message": "services is forbidden"}, 403)


def an_object(name: str, version: int, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def listing(version: int, *items: dict[str, Any]) -> FakeResponse:
    return json_response({"kind": "List", "metadata": {"resourceVersion": str(version)}, "items": list(items)})


@dataclass
class InformersHarness:
    """Informers on a fake transport; unknown paths are 404 until the test adds them."""

    kinds: tuple[str, ...]
    answers: dict[str, FakeResponse] = field(default_factory=dict)
    if_forbidden: IfForbidden = IfForbidden.WAIT
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.transport = FakeTransport(self.answer, self.open)
        followed = [kind for name in self.kinds for kind in extra_kinds(name, ("One", "Other"), self.if_forbidden)]
        clock = asyncio.get_running_loop().time
        self.informers = Informers(self.transport, followed, self.events.append, clock, Random(1))

    def answer(self, request: Request) -> FakeResponse:
        missing = json_response({"kind": "Status", "code": 404, "message": "the server could not find it"}, 404)
        return self.answers.get(request.path.partition("?")[0], missing)

    def open(self, request: Request) -> FakeStream:
        served = request.path.partition("?")[0] in self.answers
        return FakeStream() if served else FakeStream(status=404, text=b"{}")

    def seen(self) -> list[str]:
        return [f"+{event.object.name}" for event in self.events if isinstance(event, ObjectUpserted)]


@asynccontextmanager
async def running(harness: InformersHarness) -> AsyncIterator[InformersHarness]:
    task = asyncio.create_task(harness.informers.run())
    await asyncio.sleep(0.01)
    try:
        yield harness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_listed_watched_and_gone() -> None:
    """An object is a event when it is listed, when it changes, and when it goes: by kind, key, UID and version."""
    harness = InformersHarness(("services",), {SERVICES: listing(10, an_object("web", 7, selector={"app": "web"}))})
    async with running(harness):
        stream = harness.transport.streams[-1]
        stream.push({"type": "ADDED", "object": an_object("db", 11)})
        stream.push({"type": "DELETED", "object": an_object("web", 12)})
        await asyncio.sleep(0.01)
    web = Service(name="web", namespace="shop", uid="u-web", version=7, selector=LabelSelector((("app", "web"),)))
    db = Service(name="db", namespace="shop", uid="u-db", version=11)
    at = pytest.approx(0.0, abs=0.1)
    expected = [
        ObjectUpserted(web, at),
        Synced("services", at),
        ObjectUpserted(db, at),
        ObjectDeleted("services", "shop/web", at, "u-web", 12),
    ]
    assert expected == harness.events


async def test_silence_grows_until_something_is_received() -> None:
    """Seconds since the last line of a watch; before the first list there is nothing to tell."""
    harness = InformersHarness(("services",), {SERVICES: listing(10)})
    assert {} == harness.informers.silences()
    async with running(harness):
        await asyncio.sleep(20.0)
        assert {"services": pytest.approx(20.0, abs=0.1)} == harness.informers.silences()
        harness.transport.streams[-1].push({"type": "ADDED", "object": an_object("db", 11)})
        await asyncio.sleep(0.01)
        assert {"services": pytest.approx(0.0, abs=0.1)} == harness.informers.silences()


async def test_a_kind_that_is_not_installed(caplog: pytest.LogCaptureFixture) -> None:
    """It is complete without objects, one line says so, and once installed it is found within minutes."""
    caplog.set_level("INFO")
    async with running(InformersHarness(("podgroups",))) as harness:
        assert ["podgroups"] == [event.kind for event in harness.events if isinstance(event, Synced)]
        assert harness.informers.unsynced() is None
        assert 1 == caplog.text.count("not served, treated as empty: kind=podgroups")
        harness.answers[NEW] = listing(50, an_object("gang", 49, minMember=3))
        await asyncio.sleep(170.0)
        assert [] == harness.seen()
        await asyncio.sleep(15.0)
        assert ["+gang"] == harness.seen()
        assert (1, 0) == (caplog.text.count("not served"), caplog.text.count("deprecated"))


async def test_both_api_groups_are_watched(caplog: pytest.LogCaptureFixture) -> None:
    """A kind served under both of its groups is complete when both are listed, and the older one is remarked on."""
    late: asyncio.Future[FakeResponse] = asyncio.get_running_loop().create_future()
    harness = InformersHarness(
        ("podgroups",), {NEW: listing(10, an_object("new", 9)), OLD: listing(12, an_object("old", 8))}
    )
    held = harness.answers.pop(OLD)
    harness.transport.answer = lambda request: late if request.path.startswith(OLD) else harness.answer(request)
    async with running(harness):
        assert (["+new"], "podgroups: not listed yet") == (harness.seen(), harness.informers.unsynced())
        assert not any(isinstance(event, Synced) for event in harness.events)
        harness.answers[OLD] = held
        late.set_result(held)
        await asyncio.wait_for(harness.informers.wait_synced(), 1.0)
    assert ["+new", "+old"] == harness.seen()
    assert 1 == sum(isinstance(event, Synced) for event in harness.events)
    assert f"{OLD} is deprecated; use {NEW}" in caplog.text
    assert 2 == harness.informers.counts()["podgroups"]["lists"]


async def test_a_definition_that_is_removed() -> None:
    """When the server no longer knows the kind, what it had is gone."""
    async with running(InformersHarness(("podgroups",), {NEW: listing(10, an_object("gang", 9))})) as harness:
        del harness.answers[NEW]
        harness.transport.streams[-1].end()
        await asyncio.sleep(5.0)
        at = pytest.approx(2.0, abs=3.0)
        assert ObjectDeleted("podgroups", "shop/gang", at, "u-gang", 10) == harness.events[-1]
        assert 1 == sum(isinstance(event, Synced) for event in harness.events)


async def test_refresh_asks_for_what_is_not_there() -> None:
    """Whoever starts to lead asks again at once, also for a kind that was not served."""
    async with running(InformersHarness(("podgroups",))) as harness:
        harness.answers[NEW] = listing(50, an_object("gang", 49))
        await asyncio.wait_for(harness.informers.refresh(), 1.0)
        assert ["+gang"] == harness.seen()


async def test_a_kind_that_may_not_be_listed(caplog: pytest.LogCaptureFixture) -> None:
    """It stays incomplete, and both log and health say which role to apply or which plugins to disable."""
    async with running(InformersHarness(("services",), {SERVICES: FORBIDDEN})) as harness:
        advice = "403 services is forbidden; apply deploy/rbac.yaml, or disable One and Other"
        await asyncio.sleep(20.0)
        assert f"services: list: {advice}" == harness.informers.unsynced()
        assert advice in caplog.text
        assert [] == harness.events
        harness.answers[SERVICES] = listing(10)
        await asyncio.wait_for(harness.informers.wait_synced(), 31.0)
        assert harness.informers.unsynced() is None


ALICE = 'podgroups.scheduling.x-k8s.io is forbidden: User "alice" cannot list resource "podgroups"'
REFUSED = json_response({"kind": "Status", "code": 403, "message": ALICE}, 403)


async def test_a_kind_that_some_pods_need_may_be_forbidden() -> None:
    """It is reported once with the account, holds up neither lease nor refresh, and is not ready until Synced."""
    harness = InformersHarness(("podgroups", "services"), {NEW: REFUSED, SERVICES: listing(10)}, IfForbidden.REPORT)
    remedy = "grant it to alice, as deploy/components/gang/rbac-gang.yaml does for Trimtab's service account"
    async with running(harness):
        await asyncio.wait_for(harness.informers.wait_synced(), 1.0)
        await asyncio.wait_for(harness.informers.refresh(), 5.0)
        await asyncio.sleep(60.0)
        (event,) = [event for event in harness.events if isinstance(event, KindForbidden)]
        assert ("podgroups", f"list: 403 {ALICE}; {remedy}, or disable One and Other") == (event.kind, event.problem)
        assert f"podgroups: {event.problem}" == harness.informers.unsynced()
        assert ["services"] == [event.kind for event in harness.events if isinstance(event, Synced)]
        harness.answers[NEW] = listing(50, an_object("gang", 49))
        await asyncio.sleep(31.0)
        assert (["+gang"], None) == (harness.seen(), harness.informers.unsynced())
        assert Synced("podgroups", pytest.approx(90.0, abs=30.0)) == harness.events[-1]


async def test_a_permission_that_is_revoked() -> None:
    """What was listed before may be out of date: pods that need it wait from then on."""
    harness = InformersHarness(("podgroups",), {NEW: listing(10, an_object("gang", 9))}, IfForbidden.REPORT)
    async with running(harness):
        harness.answers[NEW] = REFUSED
        harness.transport.open = lambda request: FakeStream(status=403, text=REFUSED.body)
        for stream in harness.transport.streams:
            stream.end()
        await asyncio.sleep(10.0)
        assert ["podgroups"] == [event.kind for event in harness.events if isinstance(event, KindForbidden)]


async def test_a_dispensable_kind_is_done_without(caplog: pytest.LogCaptureFixture) -> None:
    """As one that is not served: it counts as empty, one line says why, and it is listed again within minutes."""
    path = "/apis/storage.k8s.io/v1/volumeattachments"
    async with running(InformersHarness(("volumeattachments",), {path: REFUSED})) as harness:
        assert [Synced("volumeattachments", pytest.approx(0.0, abs=0.1))] == harness.events
        assert harness.informers.unsynced() is None
        assert 1 == caplog.text.count("forbidden, treated as empty: kind=volumeattachments")
        assert 'User "alice" cannot list' in caplog.text
        harness.answers[path] = listing(50)
        await asyncio.sleep(185.0)
        assert 2 == harness.informers.counts()["volumeattachments"]["lists"]


def test_a_kind_that_cannot_be_watched() -> None:
    """A plugin that looks at it is named, with what there is to look at."""
    with pytest.raises(UnknownKind, match=r"Mine needs elephants, but only .*namespaces, .* can be watched"):
        extra_kinds("elephants", ("Mine",))


@pytest.mark.parametrize("name", EXTRA_KINDS)
def test_each_kind_is_called_what_its_path_says(name: str) -> None:
    """The name that plugins watch by is the plural at the end of the path."""
    assert {name} == {kind.path.rpartition("/")[2] for kind in extra_kinds(name, ("One",))}


def test_a_pod_group_is_deleted_by_its_key() -> None:
    """The key of a deletion is the one under which the core keeps the object."""
    gang = PodGroup(name="gang", namespace="shop", uid="u", version=3)
    event = extra_kinds("podgroups", ("One",))[0].deleted(gang, 9, 1.0)
    assert ObjectDeleted(gang.kind, gang.key, 1.0, "u", 9) == event
