"""Moves stay unsent once they are paused or late, however long they waited in between, on a fake clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.kube.api_calls_harness import ApiCallsHarness, outcome
from tests.kube.fake_transport import FakeResponse, json_response
from trimtab.core.model.events import EvictFailed, SurgeFailed
from trimtab.core.model.instructions import Evict, StartSurge
from trimtab.kube.surge import TOO_LATE
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime
THROTTLED = json_response(b"Too many requests", 429, **{"Retry-After": "10"})
INCIDENT = "moves are paused: incident 17"


def evict(harness: ApiCallsHarness, seconds: float) -> Evict:
    return Evict("u1", "ns", "web", "hot", until=harness.now() + seconds)


async def test_a_throttled_eviction_is_sent_once_more() -> None:
    """Nobody has paused moves, and there is time."""
    harness = ApiCallsHarness(answer=lambda request: THROTTLED)
    event = await outcome(harness, evict(harness, 20.0))
    assert isinstance(event, EvictFailed) and event.sent
    assert 2 == len(harness.transport.sent)


async def test_a_pause_while_an_eviction_is_throttled() -> None:
    """It had to wait for ten seconds, and meanwhile somebody paused moves: it is not sent again."""
    harness = ApiCallsHarness(answer=lambda request: THROTTLED)
    asyncio.get_running_loop().call_later(5.0, setattr, harness, "paused", INCIDENT)
    event = await outcome(harness, evict(harness, 20.0))
    assert isinstance(event, EvictFailed)
    assert (1, INCIDENT, False) == (len(harness.transport.sent), event.message, event.sent)


async def test_an_eviction_that_was_throttled_for_too_long() -> None:
    """Its budget counts on it having been sent by now, or never."""
    harness = ApiCallsHarness(answer=lambda request: THROTTLED)
    event = await outcome(harness, evict(harness, 5.0))
    assert isinstance(event, EvictFailed)
    assert (1, TOO_LATE, False) == (len(harness.transport.sent), event.message, event.sent)


async def test_an_eviction_that_waited_for_a_connection_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials, the rate limit or a connection were slow: the time is checked where leadership is."""
    harness = ApiCallsHarness()
    send = harness.transport.send

    async def wait_and_send(*args: Any, **options: Any) -> FakeResponse:
        await asyncio.sleep(6.0)
        return await send(*args, **options)

    monkeypatch.setattr(harness.transport, "send", wait_and_send)
    event = await outcome(harness, evict(harness, 5.0))
    assert isinstance(event, EvictFailed)
    assert ([], TOO_LATE, False) == (harness.transport.sent, event.message, event.sent)


async def test_a_pause_while_the_workload_of_a_surge_is_read() -> None:
    """What speaks against a further replica is read first; a pause in that time still stops it."""

    def answer(request: Request) -> FakeResponse:
        if "resourcequotas" in request.path:
            harness.paused = INCIDENT
        if "deployments" not in request.path:
            return json_response({"items": []})
        meta = {"name": "web", "namespace": "ns", "uid": "d", "generation": 1, "resourceVersion": "1"}
        status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
        return json_response({"kind": "Deployment", "metadata": meta, "spec": {"replicas": 2}, "status": status})

    harness = ApiCallsHarness(answer=answer)
    event = await outcome(harness, StartSurge("u1", "ns", "Deployment", "web", harness.now() + 20.0))
    assert isinstance(event, SurgeFailed)
    assert (INCIDENT, False, False) == (event.message, event.unknown, event.impossible)
    assert ["GET"] * 3 == [request.method for _, request in harness.transport.sent]
