"""Preemption takes two requests, a nomination one; what each answer means."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.kube.api_calls_harness import ApiCallsHarness, failure, running, unschedulable
from tests.kube.fake_transport import FakeResponse, json_response
from trimtab.core.model.events import Event, PreemptDone, PreemptFailed
from trimtab.core.model.instructions import Bind, Nominate, Preempt
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime
PREEMPT = Preempt("u1", "ns", "web", "u2", "trimtab")
POD = json_response({"kind": "Pod", "metadata": {}})


def answers(**by_method: FakeResponse) -> Callable[[Request], FakeResponse]:
    return lambda request: by_method.get(request.method.lower(), POD)


async def outcome(harness: ApiCallsHarness) -> Event:
    async with running(harness) as api_calls:
        api_calls.submit(PREEMPT)
        assert await api_calls.drain(60.0)
    (event,) = harness.events
    return event


def methods(harness: ApiCallsHarness) -> list[str]:
    return [request.method for _, request in harness.transport.sent]


async def test_a_victim_gets_its_condition_before_it_is_deleted() -> None:
    """The condition is there when the kubelet and its controller hear of the deletion."""
    harness = ApiCallsHarness(answer=answers())
    event = await outcome(harness)
    assert isinstance(event, PreemptDone)
    assert ("u1", "u2") == (event.uid, event.preemptor)
    assert ["PATCH", "DELETE"] == methods(harness)


async def test_without_the_condition_nothing_is_deleted() -> None:
    """A pod whose status cannot be patched is left alone, and the failure is reported."""
    harness = ApiCallsHarness(answer=answers(patch=failure(500, "", "etcd is down")))
    event = await outcome(harness)
    assert isinstance(event, PreemptFailed)
    assert ("etcd is down", False) == (event.message, event.forbidden)
    assert ["PATCH"] == methods(harness)


@pytest.mark.parametrize("method", ["patch", "delete"])
async def test_a_victim_that_is_gone_is_as_good_as_deleted(method: str) -> None:
    """A 404 from the API server means that the pod is gone."""
    assert isinstance(await outcome(ApiCallsHarness(answer=answers(**{method: failure(404, "NotFound")}))), PreemptDone)


@pytest.mark.parametrize(
    ("method", "words", "event"),
    [
        ("delete", "Precondition failed: UID in precondition: u1, UID in object meta: u9", PreemptDone),
        ("delete", "the object has been modified", PreemptFailed),
        ("patch", "the object has been modified", PreemptFailed),
    ],
)
async def test_a_conflict_is_as_good_only_where_the_name_is_anothers(method: str, words: str, event: type) -> None:
    """After any other conflict the victim is still there, and must not be reported as preempted."""
    found = await outcome(ApiCallsHarness(answer=answers(**{method: failure(409, "Conflict", words)})))
    assert event is type(found)


@pytest.mark.parametrize(
    ("answer", "forbidden"),
    [
        (failure(403, "Forbidden", "may not delete pods"), True),
        (failure(500), False),
        (json_response(b"404 page not found", 404), False),
        (Unreachable("cut", sent=True), False),
    ],
)
async def test_a_failed_delete_is_reported(answer: FakeResponse, forbidden: bool) -> None:
    """The engine hears of it, and whether it is for want of a permission."""
    event = await outcome(ApiCallsHarness(answer=answers(delete=answer)))
    assert isinstance(event, PreemptFailed)
    assert ("u1", "u2", forbidden) == (event.uid, event.preemptor, event.forbidden)


async def test_nobody_is_deleted_without_the_lease() -> None:
    """Without leadership nothing is sent, and the engine hears of it."""
    harness = ApiCallsHarness(open=False)
    assert isinstance(await outcome(harness), PreemptFailed)
    assert [] == methods(harness)


async def test_condition_and_nomination_go_out_in_one_patch() -> None:
    """What is queued for one pod is sent in one patch, the newest of each."""
    harness = ApiCallsHarness(answer=answers())
    async with running(harness) as api_calls:
        api_calls.submit(Nominate("u1", "ns", "web", "n-1"))
        api_calls.submit(unschedulable("no room"))
        api_calls.submit(Nominate("u1", "ns", "web", "n-2"))
        assert await api_calls.drain(60.0)
    (body,) = [json.loads(request.body) for _, request in harness.transport.sent]
    assert ("n-2", "no room") == (body["status"]["nominatedNodeName"], body["status"]["conditions"][0]["message"])


async def test_a_pod_that_gets_its_node_needs_no_nomination() -> None:
    """A nomination that waits is dropped when the pod is bound."""
    harness = ApiCallsHarness(answer=answers())
    harness.api_calls.submit(Nominate("u1", "ns", "web", "n-1"))
    harness.api_calls.submit(Bind("u1", "ns", "web", "n-1"))
    async with running(harness) as api_calls:
        assert await api_calls.drain(60.0)
    assert ["POST"] == methods(harness)
