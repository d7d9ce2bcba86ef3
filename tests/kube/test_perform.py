"""Decides whether each instruction becomes the right request, and each outcome the right event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.kube.fake_transport import Answer, FakeTransport, answered
from trimtab.core.model.event import BindDone, BindFailed, Event, Fault, RereadDone, RereadFailed
from trimtab.core.model.instruction import Bind, Instruction, MarkUnscheduled, Reread, Tell
from trimtab.kube.perform import IN_FLIGHT, Performer
from trimtab.kube.transport import Unreachable
from trimtab.wire.pod import PodReader
from trimtab.wire.request import Request

pytestmark = pytest.mark.looptime
BIND = Bind("u1", "ns", "web", "node-1")
REREAD = Reread("u1", "ns", "web")
DONE = answered({"kind": "Status", "status": "Success", "code": 201}, 201)


def failure(code: int, reason: str = "", message: str = "") -> Answer:
    return answered({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}, code)


def pod(uid: str = "u1", node: str = "") -> dict[str, Any]:
    meta = {"uid": uid, "namespace": "ns", "name": "web", "resourceVersion": "7"}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": node, "containers": []}}


@dataclass
class Stage:
    """A performer with a pretend server and an open door."""

    answer: Callable[[Request], Any] = lambda request: DONE
    open: bool = True
    facts: list[Event] = field(default_factory=list)
    ahead: float = 0.0  # of the wall clock

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.transport = FakeTransport(lambda request: self.answer(request))
        self.performer = Performer(
            self.transport,
            self.facts.append,
            lambda: self.open,
            lambda: loop.time() + 1e9,
            Random(1),
            PodReader(),
            "host-1",
            wall=lambda: loop.time() + 1e9 + self.ahead,
        )


@asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[Performer]:
    task = asyncio.create_task(stage.performer.run())
    try:
        yield stage.performer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def outcome(stage: Stage, instruction: Instruction) -> Event:
    async with running(stage) as performer:
        performer.perform(instruction)
        assert await performer.drain(60.0)
    (fact,) = stage.facts
    return fact


async def test_a_bind_is_sent_with_its_uid_and_told_back() -> None:
    """The binding names pod, UID and node; the outcome comes back with the clock's time."""
    stage = Stage()
    assert BindDone("u1", "node-1", pytest.approx(1e9)) == await outcome(stage, BIND)
    request = stage.transport.sent[0][1]
    body = json.loads(request.body)
    assert ("POST", "/api/v1/namespaces/ns/pods/web/binding") == (request.method, request.path)
    assert ("u1", "node-1") == (body["metadata"]["uid"], body["target"]["name"])


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (failure(404, "NotFound"), Fault.GONE),
        (failure(409, "Conflict"), Fault.CONFLICT),
        (failure(403, "Forbidden"), Fault.REFUSED),
        (failure(500), Fault.UNKNOWN),
        (failure(504, "Timeout"), Fault.UNKNOWN),
        (answered(b"<html>log in</html>"), Fault.UNKNOWN),
        (Unreachable("cut", sent=True), Fault.UNKNOWN),
        (Unreachable("refused", sent=False), Fault.NOT_SENT),
    ],
)
async def test_every_failure_is_told_by_what_is_known(answer: Answer, fault: Fault) -> None:
    """Only a request that certainly had no effect is said to have had none."""
    fact = await outcome(Stage(answer=lambda request: answer), BIND)
    assert isinstance(fact, BindFailed)
    assert (fault, "u1", "node-1") == (fact.fault, fact.uid, fact.node)


async def test_who_does_not_lead_does_not_bind() -> None:
    """With the door closed nothing is sent, and the engine is told so."""
    stage = Stage(open=False)
    fact = await outcome(stage, BIND)
    assert isinstance(fact, BindFailed)
    assert (Fault.NOT_SENT, []) == (fact.fault, stage.transport.sent)


async def test_the_door_is_asked_when_the_bind_leaves_the_queue() -> None:
    """Binds that still wait when leadership is lost are not sent."""
    stage = Stage()

    async def slowly() -> Answer:
        await asyncio.sleep(1.0)
        stage.open = False
        return DONE

    stage.answer = lambda request: slowly()
    async with running(stage) as performer:
        for number in range(IN_FLIGHT + 5):
            performer.perform(Bind(f"u{number}", "ns", f"p{number}", "n"))
        assert await performer.drain(60.0)
    assert IN_FLIGHT == len(stage.transport.sent)
    assert 5 == sum(isinstance(fact, BindFailed) and fact.fault is Fault.NOT_SENT for fact in stage.facts)


async def test_binds_in_flight_are_bounded() -> None:
    """Never more than the cap at once, however many are asked for."""
    stage = Stage()
    current, most = 0, 0

    async def counted() -> Answer:
        nonlocal current, most
        current += 1
        most = max(most, current)
        await asyncio.sleep(0.1)
        current -= 1
        return DONE

    stage.answer = lambda request: counted()
    async with running(stage) as performer:
        for number in range(100):
            performer.perform(Bind(f"u{number}", "ns", f"p{number}", "n"))
        assert 100 == performer.under_way
        assert await performer.drain(60.0)
        assert 0 == performer.under_way
    assert (IN_FLIGHT, 100) == (most, len(stage.facts))


async def test_a_busy_server_is_asked_once_more() -> None:
    """After a 429 of priority and fairness the bind waits as told, tries again, and then gives up as not sent."""
    stage = Stage(answer=lambda request: answered(b"Too many requests", 429, **{"Retry-After": "1"}))
    fact = await outcome(stage, BIND)
    assert isinstance(fact, BindFailed)
    assert Fault.NOT_SENT == fact.fault
    first, second = stage.transport.times()
    assert 1.0 <= second - first <= 1.25


@pytest.mark.parametrize("node", ["", "node-1"])
async def test_a_reread_brings_the_pod(node: str) -> None:
    """The pod as it is now, with its node if it has one."""
    stage = Stage(answer=lambda request: answered(pod(node=node)))
    fact = await outcome(stage, REREAD)
    assert isinstance(fact, RereadDone)
    assert fact.pod is not None
    assert (node, "/api/v1/namespaces/ns/pods/web") == (fact.pod.node, stage.transport.sent[0][1].path)


@pytest.mark.parametrize("answer", [failure(404, "NotFound"), answered(pod(uid="another"))])
async def test_a_reread_finds_that_the_pod_is_gone(answer: Answer) -> None:
    """No pod, or another one under its name: this UID is gone."""
    assert RereadDone("u1", None, pytest.approx(1e9)) == await outcome(Stage(answer=lambda request: answer), REREAD)


@pytest.mark.parametrize(
    "answer",
    [failure(500), failure(403, "Forbidden"), answered(b"<html>"), answered(b"no", 404), Unreachable("cut", sent=True)],
)
async def test_a_reread_that_says_nothing(answer: Answer) -> None:
    """Anything else leaves the outcome as unknown as it was."""
    assert RereadFailed("u1", pytest.approx(1e9)) == await outcome(Stage(answer=lambda request: answer), REREAD)


async def test_rereads_need_no_leadership() -> None:
    """Reading is always allowed."""
    assert isinstance(await outcome(Stage(answer=lambda request: answered(pod()), open=False), REREAD), RereadDone)


def mark(message: str, uid: str = "u1") -> MarkUnscheduled:
    return MarkUnscheduled(uid, "ns", "web", "Unschedulable", message)


def conditions(stage: Stage) -> list[dict[str, Any]]:
    return [json.loads(request.body)["status"]["conditions"][0] for _, request in stage.transport.sent]


async def test_what_is_written_is_stamped_by_the_wall_clock() -> None:
    """One that was set by an hour since the start: others read these times, while the engine is told its own."""
    stage = Stage(answer=lambda request: answered({}, 201), ahead=3600.0)
    async with running(stage) as performer:
        performer.perform(mark("one", "u2"))
        performer.perform(Tell("u2", "ns", "web", "Scheduled", "placed"))
        performer.perform(BIND)
        assert await performer.drain(60.0)
    bodies = [json.loads(request.body) for _, request in stage.transport.sent]
    marked = next(body["status"]["conditions"][0] for body in bodies if "status" in body)
    assert "2001-09-09T02:46:40Z" == marked["lastTransitionTime"]
    assert ["2001-09-09T02:46:40"] == [body["eventTime"][:19] for body in bodies if "eventTime" in body]
    assert [1e9] == [fact.at for fact in stage.facts]


async def test_a_condition_keeps_the_time_of_its_first_change() -> None:
    """The first mark says since when; a later one changes the message alone."""
    stage = Stage(answer=lambda request: answered({}))
    async with running(stage) as performer:
        for message in ("one", "two"):
            performer.perform(mark(message))
            assert await performer.drain(60.0)
    first, second = conditions(stage)
    assert ("False", "Unschedulable", "one") == (first["status"], first["reason"], first["message"])
    assert "2001-09-09T01:46:40Z" == first["lastTransitionTime"]
    assert "two" == second["message"]
    assert "lastTransitionTime" not in second


async def test_only_the_newest_mark_of_a_pod_is_sent() -> None:
    """Marks that wait are replaced, not queued up."""
    stage = Stage(answer=lambda request: answered({}))
    for message in ("one", "two", "three"):
        stage.performer.perform(mark(message))
    async with running(stage) as performer:
        assert await performer.drain(60.0)
    assert ["three"] == [condition["message"] for condition in conditions(stage)]


async def test_a_bind_cancels_the_mark_that_waits() -> None:
    """A pod that is bound while its mark waits for a lull is never called unschedulable; one that is not bound is."""
    stage = Stage()

    async def slowly() -> Answer:
        await asyncio.sleep(0.1)
        return DONE

    stage.answer = lambda request: slowly()
    async with running(stage) as performer:
        for number in range(IN_FLIGHT):
            performer.perform(Bind(f"u{number}", "ns", f"p{number}", "n"))
        for uid in ("bound", "not"):
            performer.perform(mark(uid, uid))
        performer.perform(Bind("bound", "ns", "web", "n"))
        assert await performer.drain(60.0)
    patched = [json.loads(request.body) for _, request in stage.transport.sent if request.method == "PATCH"]
    assert ["not"] == [body["metadata"]["uid"] for body in patched]


async def test_a_bind_waits_for_the_patch_of_its_own_pod_only() -> None:
    """A patch under way could arrive after the bind, so that bind goes out after the answer; others do not wait."""
    stage = Stage()

    async def slowly() -> Answer:
        await asyncio.sleep(3.0)
        return answered({})

    stage.answer = lambda request: slowly() if request.method == "PATCH" else DONE
    async with running(stage) as performer:
        performer.perform(mark("one"))
        await asyncio.sleep(1.0)
        for uid in ("u1", "u2"):
            performer.perform(Bind(uid, "ns", "web", "n"))
        assert await performer.drain(60.0)
    assert [(0.0, "PATCH"), (1.0, "POST"), (3.0, "POST")] == [
        (round(at, 1), request.method) for at, request in stage.transport.sent
    ]
    assert ["u2", "u1"] == [fact.uid for fact in stage.facts if isinstance(fact, BindDone)]


async def test_a_failed_mark_is_counted() -> None:
    """A condition that could not be set is counted, and the next one is tried."""
    stage = Stage(answer=lambda request: failure(500))
    async with running(stage) as performer:
        performer.perform(mark("one"))
        assert await performer.drain(60.0)
        stage.answer = lambda request: answered({})
        performer.perform(mark("two"))
        assert await performer.drain(60.0)
    assert 1 == stage.performer.patches_failed
    assert all("lastTransitionTime" in condition for condition in conditions(stage))


async def test_events_go_out_after_binds() -> None:
    """With many binds waiting, an Event told first is written when the rush is over."""
    stage = Stage()

    async def slowly() -> Answer:
        await asyncio.sleep(0.01)
        return DONE

    stage.answer = lambda request: slowly()
    async with running(stage) as performer:
        performer.perform(Tell("u0", "ns", "p0", "Scheduled", "note"))
        for number in range(200):
            performer.perform(Bind(f"u{number}", "ns", f"p{number}", "n"))
        assert await performer.drain(60.0)
    order = ["events" in request.path for _, request in stage.transport.sent]
    assert 200 - IN_FLIGHT // 2 <= order.index(True)


async def test_draining_has_an_end() -> None:
    """A server that never answers does not keep the process: the drain says that it did not finish."""
    stage = Stage()

    async def never() -> Answer:
        await asyncio.sleep(1_000.0)
        return DONE

    stage.answer = lambda request: never()
    async with running(stage) as performer:
        performer.perform(BIND)
        assert await performer.drain(20.0) is False
        await performer.drain_binds(10.0)
        assert 30.0 == pytest.approx(asyncio.get_running_loop().time(), abs=0.1)
        assert not performer.settled


async def test_binds_are_drained_without_waiting_for_lesser_writes() -> None:
    """Binds answered is all that a drain of binds waits for; a patch under way still counts as unsettled."""
    stage = Stage()

    async def slowly() -> Answer:
        await asyncio.sleep(5.0)
        return answered({})

    stage.answer = lambda request: slowly() if request.method == "PATCH" else DONE
    async with running(stage) as performer:
        performer.perform(mark("one", "another"))
        await asyncio.sleep(0.1)
        performer.perform(BIND)
        await performer.drain_binds(20.0)
        assert 0.1 == pytest.approx(asyncio.get_running_loop().time(), abs=0.1)
        assert (0, False) == (performer.under_way, performer.settled)
        assert await performer.drain(20.0)
        assert performer.settled
