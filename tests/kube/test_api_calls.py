"""Each instruction becomes the right request, and each answer the right event."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.kube.api_calls_harness import DONE, ApiCallsHarness, failure, outcome, pod, running, unschedulable
from tests.kube.fake_transport import FakeResponse, json_response
from trimtab.core.model.events import BindDone, BindFailed, BindFailure, GetPodDone, GetPodFailed
from trimtab.core.model.instructions import Bind, EmitEvent, GetPod, Nominate
from trimtab.kube.api_calls import MAX_IN_FLIGHT
from trimtab.kube.transport import Unreachable

pytestmark = pytest.mark.looptime
BIND = Bind("u1", "ns", "web", "node-1")
GET_POD = GetPod("u1", "ns", "web")


async def test_a_bind_is_sent_with_its_uid_and_its_outcome_reported() -> None:
    """The binding names pod, UID and node; the outcome comes back with the clock's time."""
    harness = ApiCallsHarness()
    assert BindDone("u1", "node-1", pytest.approx(1e9)) == await outcome(harness, BIND)
    request = harness.transport.sent[0][1]
    body = json.loads(request.body)
    assert ("POST", "/api/v1/namespaces/ns/pods/web/binding") == (request.method, request.path)
    assert ("u1", "node-1") == (body["metadata"]["uid"], body["target"]["name"])


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (failure(404, "NotFound"), BindFailure.GONE),
        (failure(409, "Conflict"), BindFailure.CONFLICT),
        (failure(403, "Forbidden"), BindFailure.REFUSED),
        (failure(500), BindFailure.UNKNOWN),
        (failure(504, "Timeout"), BindFailure.UNKNOWN),
        (json_response(b"<html>log in</html>"), BindFailure.UNKNOWN),
        (Unreachable("cut", sent=True), BindFailure.UNKNOWN),
        (Unreachable("refused", sent=False), BindFailure.NOT_SENT),
    ],
)
async def test_failures_are_classified_by_what_is_known(answer: FakeResponse, fault: BindFailure) -> None:
    """Only a request that certainly had no effect is reported as not sent."""
    event = await outcome(ApiCallsHarness(answer=lambda request: answer), BIND)
    assert isinstance(event, BindFailed)
    assert (fault, "u1", "node-1") == (event.reason, event.uid, event.node)


async def test_a_replica_that_does_not_lead_does_not_bind() -> None:
    """Without leadership nothing is sent, and the engine hears of it."""
    harness = ApiCallsHarness(open=False)
    event = await outcome(harness, BIND)
    assert isinstance(event, BindFailed)
    assert (BindFailure.NOT_SENT, []) == (event.reason, harness.transport.sent)


async def test_leadership_is_checked_when_the_bind_leaves_the_queue() -> None:
    """Binds that still wait when leadership is lost are not sent."""
    harness = ApiCallsHarness()

    async def slowly() -> FakeResponse:
        await asyncio.sleep(1.0)
        harness.open = False
        return DONE

    harness.answer = lambda request: slowly()
    async with running(harness) as api_calls:
        for number in range(MAX_IN_FLIGHT + 5):
            api_calls.submit(Bind(f"u{number}", "ns", f"p{number}", "n"))
        assert await api_calls.drain(60.0)
    assert MAX_IN_FLIGHT == len(harness.transport.sent)
    assert 5 == sum(isinstance(event, BindFailed) and event.reason is BindFailure.NOT_SENT for event in harness.events)


async def test_binds_in_flight_are_bounded() -> None:
    """Never more than the limit at once, however many are submitted."""
    harness = ApiCallsHarness()
    current, most = 0, 0

    async def counted() -> FakeResponse:
        nonlocal current, most
        current += 1
        most = max(most, current)
        await asyncio.sleep(0.1)
        current -= 1
        return DONE

    harness.answer = lambda request: counted()
    async with running(harness) as api_calls:
        for number in range(100):
            api_calls.submit(Bind(f"u{number}", "ns", f"p{number}", "n"))
        assert 100 == api_calls.in_flight
        assert await api_calls.drain(60.0)
        assert 0 == api_calls.in_flight
    assert (MAX_IN_FLIGHT, 100) == (most, len(harness.events))


async def test_a_throttled_bind_is_retried_once() -> None:
    """After a 429 of priority and fairness the bind waits for Retry-After, is sent again, and then counts as not sent."""
    harness = ApiCallsHarness(answer=lambda request: json_response(b"Too many requests", 429, **{"Retry-After": "1"}))
    event = await outcome(harness, BIND)
    assert isinstance(event, BindFailed)
    assert BindFailure.NOT_SENT == event.reason
    first, second = harness.transport.times()
    assert 1.0 <= second - first <= 1.25


@pytest.mark.parametrize("node", ["", "node-1"])
async def test_get_pod_returns_the_pod(node: str) -> None:
    """The pod as it is now, with its node if it has one."""
    harness = ApiCallsHarness(answer=lambda request: json_response(pod(node=node)))
    event = await outcome(harness, GET_POD)
    assert isinstance(event, GetPodDone)
    assert event.pod is not None
    assert (node, "/api/v1/namespaces/ns/pods/web") == (event.pod.node, harness.transport.sent[0][1].path)


@pytest.mark.parametrize("answer", [failure(404, "NotFound"), json_response(pod(uid="another"))])
async def test_get_pod_finds_that_the_pod_is_gone(answer: FakeResponse) -> None:
    """No pod, or another one under its name: this UID is gone."""
    assert GetPodDone("u1", None, pytest.approx(1e9)) == await outcome(
        ApiCallsHarness(answer=lambda request: answer), GET_POD
    )


@pytest.mark.parametrize(
    "answer",
    [
        failure(500),
        failure(403, "Forbidden"),
        json_response(b"<html>"),
        json_response(b"no", 404),
        Unreachable("cut", sent=True),
    ],
)
async def test_get_pod_without_a_usable_answer(answer: FakeResponse) -> None:
    """Anything else leaves the outcome as unknown as it was."""
    assert GetPodFailed("u1", pytest.approx(1e9)) == await outcome(
        ApiCallsHarness(answer=lambda request: answer), GET_POD
    )


async def test_get_pod_needs_no_leadership() -> None:
    """Reading is always allowed."""
    assert isinstance(
        await outcome(ApiCallsHarness(answer=lambda request: json_response(pod()), open=False), GET_POD), GetPodDone
    )


def conditions(harness: ApiCallsHarness) -> list[dict[str, Any]]:
    return [json.loads(request.body)["status"]["conditions"][0] for _, request in harness.transport.sent]


async def test_written_times_are_of_the_wall_clock() -> None:
    """Also after it was set forward by an hour: written times are for others, event times are the engine's own."""
    harness = ApiCallsHarness(answer=lambda request: json_response({}, 201), ahead=3600.0)
    async with running(harness) as api_calls:
        api_calls.submit(unschedulable("one", "u2"))
        api_calls.submit(EmitEvent("u2", "ns", "web", "Scheduled", "placed"))
        api_calls.submit(BIND)
        assert await api_calls.drain(60.0)
    bodies = [json.loads(request.body) for _, request in harness.transport.sent]
    marked = next(body["status"]["conditions"][0] for body in bodies if "status" in body)
    assert "2001-09-09T02:46:40Z" == marked["lastTransitionTime"]
    assert ["2001-09-09T02:46:40"] == [body["eventTime"][:19] for body in bodies if "eventTime" in body]
    assert [1e9] == [event.at for event in harness.events]


async def test_a_condition_keeps_the_time_of_its_first_change() -> None:
    """The first patch sets lastTransitionTime; a later one changes only the message."""
    harness = ApiCallsHarness(answer=lambda request: json_response({}))
    async with running(harness) as api_calls:
        for message in ("one", "two"):
            api_calls.submit(unschedulable(message))
            assert await api_calls.drain(60.0)
    first, second = conditions(harness)
    assert ("False", "Unschedulable", "one") == (first["status"], first["reason"], first["message"])
    assert "2001-09-09T01:46:40Z" == first["lastTransitionTime"]
    assert "two" == second["message"]
    assert "lastTransitionTime" not in second


async def test_only_the_newest_condition_of_a_pod_is_sent() -> None:
    """Queued conditions are replaced, not accumulated."""
    harness = ApiCallsHarness(answer=lambda request: json_response({}))
    for message in ("one", "two", "three"):
        harness.api_calls.submit(unschedulable(message))
    async with running(harness) as api_calls:
        assert await api_calls.drain(60.0)
    assert ["three"] == [condition["message"] for condition in conditions(harness)]


async def test_a_bind_drops_the_queued_condition() -> None:
    """A pod that is bound while its condition waits at the gate is never reported unschedulable; another one is."""
    harness = ApiCallsHarness()

    async def slowly() -> FakeResponse:
        await asyncio.sleep(0.1)
        return DONE

    harness.answer = lambda request: slowly()
    async with running(harness) as api_calls:
        for number in range(MAX_IN_FLIGHT):
            api_calls.submit(Bind(f"u{number}", "ns", f"p{number}", "n"))
        for uid in ("bound", "not"):
            api_calls.submit(unschedulable(uid, uid))
        api_calls.submit(Bind("bound", "ns", "web", "n"))
        assert await api_calls.drain(60.0)
    patched = [json.loads(request.body) for _, request in harness.transport.sent if request.method == "PATCH"]
    assert ["not"] == [body["metadata"]["uid"] for body in patched]


async def test_a_bind_waits_for_the_patch_of_its_own_pod_only() -> None:
    """A patch under way could arrive after the bind, so that bind goes out after the answer; others do not wait."""
    harness = ApiCallsHarness()

    async def slowly() -> FakeResponse:
        await asyncio.sleep(3.0)
        return json_response({})

    harness.answer = lambda request: slowly() if request.method == "PATCH" else DONE
    async with running(harness) as api_calls:
        api_calls.submit(unschedulable("one"))
        await asyncio.sleep(1.0)
        for uid in ("u1", "u2"):
            api_calls.submit(Bind(uid, "ns", "web", "n"))
        assert await api_calls.drain(60.0)
    assert [(0.0, "PATCH"), (1.0, "POST"), (3.0, "POST")] == [
        (round(at, 1), request.method) for at, request in harness.transport.sent
    ]
    assert ["u2", "u1"] == [event.uid for event in harness.events if isinstance(event, BindDone)]


async def test_a_failed_status_patch_is_counted() -> None:
    """A condition that could not be set is counted, and the next one is tried."""
    harness = ApiCallsHarness(answer=lambda request: failure(500))
    async with running(harness) as api_calls:
        api_calls.submit(unschedulable("one"))
        assert await api_calls.drain(60.0)
        harness.answer = lambda request: json_response({})
        api_calls.submit(unschedulable("two"))
        assert await api_calls.drain(60.0)
    assert 1 == harness.api_calls.patches_failed
    assert all("lastTransitionTime" in condition for condition in conditions(harness))


async def test_a_nomination_that_comes_too_late_is_no_failure() -> None:
    """Another scheduler was faster: the API server refuses the node of a pod that has one."""
    harness = ApiCallsHarness(answer=lambda request: failure(422))
    async with running(harness) as api_calls:
        api_calls.submit(Nominate("one", "default", "one", "node-1"))
        assert await api_calls.drain(60.0)
    assert 0 == harness.api_calls.patches_failed


async def test_events_go_out_after_binds() -> None:
    """With many binds waiting, an Event submitted first is written after them."""
    harness = ApiCallsHarness()

    async def slowly() -> FakeResponse:
        await asyncio.sleep(0.01)
        return DONE

    harness.answer = lambda request: slowly()
    async with running(harness) as api_calls:
        api_calls.submit(EmitEvent("u0", "ns", "p0", "Scheduled", "note"))
        for number in range(200):
            api_calls.submit(Bind(f"u{number}", "ns", f"p{number}", "n"))
        assert await api_calls.drain(60.0)
    order = ["events" in request.path for _, request in harness.transport.sent]
    assert 200 - MAX_IN_FLIGHT // 2 <= order.index(True)


async def test_draining_has_an_end() -> None:
    """A server that never answers does not keep the process: the drain says that it did not finish."""
    harness = ApiCallsHarness()

    async def never() -> FakeResponse:
        await asyncio.sleep(1_000.0)
        return DONE

    harness.answer = lambda request: never()
    async with running(harness) as api_calls:
        api_calls.submit(BIND)
        assert await api_calls.drain(20.0) is False
        await api_calls.drain_binds(10.0)
        assert 30.0 == pytest.approx(asyncio.get_running_loop().time(), abs=0.1)
        assert not api_calls.idle


async def test_binds_are_drained_without_waiting_for_status_patches() -> None:
    """Binds answered is all that a drain of binds waits for; a patch under way still counts as unsettled."""
    harness = ApiCallsHarness()

    async def slowly() -> FakeResponse:
        await asyncio.sleep(5.0)
        return json_response({})

    harness.answer = lambda request: slowly() if request.method == "PATCH" else DONE
    async with running(harness) as api_calls:
        api_calls.submit(unschedulable("one", "another"))
        await asyncio.sleep(0.1)
        api_calls.submit(BIND)
        await api_calls.drain_binds(20.0)
        assert 0.1 == pytest.approx(asyncio.get_running_loop().time(), abs=0.1)
        assert (0, False) == (api_calls.in_flight, api_calls.idle)
        assert await api_calls.drain(20.0)
        assert api_calls.idle


@pytest.mark.parametrize(("node", "in_a_row"), [("node-1", 0), ("", 5)])
async def test_binds_without_an_answer_that_worked_after_all(node: str, in_a_row: int) -> None:
    """The pod that is read back has its node: binds work, although the last five had no answer."""
    harness = ApiCallsHarness(answer=lambda request: Unreachable("cut", sent=True))
    async with running(harness) as api_calls:
        for _ in range(5):
            api_calls.submit(BIND)
        assert await api_calls.drain(60.0)
        harness.answer = lambda request: json_response(pod(node=node))
        api_calls.submit(GET_POD)
        assert await api_calls.drain(60.0)
    assert in_a_row == harness.api_calls.bind_refusals.in_a_row
