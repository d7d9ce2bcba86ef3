"""Events are written once, counted when repeated, dropped when too many, and delayed behind binds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.core.model.instructions import EmitEvent
from trimtab.kube.event_recorder import MAX_SERIES, QUEUE_SIZE, EventRecorder
from trimtab.kube.transport import Unreachable
from trimtab.kube.writer import LowPriorityGate, Writer
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime


def tell(name: str = "web", note: str = "0/3 nodes are available", reason: str = "FailedScheduling") -> EmitEvent:
    return EmitEvent(f"u-{name}", "ns", name, reason, note, warning=True)


@dataclass
class RecorderHarness:
    """An EventRecorder on a fake transport."""

    answer: Callable[[Request], FakeResponse] = lambda request: json_response({}, 201)
    open: bool = True
    capacity: int = QUEUE_SIZE

    def __post_init__(self) -> None:
        self.transport = FakeTransport(lambda request: self.answer(request))
        self.lull = LowPriorityGate(2)
        writer = Writer(self.transport, lambda: self.open, Random(1))
        clock = lambda: asyncio.get_running_loop().time() + 1e9  # noqa: E731
        self.recorder = EventRecorder(writer, clock, self.lull, "host-1", self.capacity)

    def written(self) -> list[tuple[float, str, dict[str, Any]]]:
        return [(round(at, 2), request.method, json.loads(request.body)) for at, request in self.transport.sent]

    def methods(self) -> list[str]:
        return [method for _, method, _ in self.written()]


@asynccontextmanager
async def running(harness: RecorderHarness) -> AsyncIterator[EventRecorder]:
    task = asyncio.create_task(harness.recorder.run())
    try:
        yield harness.recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_recorded_event_is_written() -> None:
    """An Event about the pod, by its UID, with our instance and the time of telling."""
    harness = RecorderHarness()
    async with running(harness) as recorder:
        recorder.record(tell())
        await recorder.wait_drained()
    (_, method, body) = harness.written()[0]
    assert ("POST", "u-web", "host-1", "Warning") == (
        method,
        body["regarding"]["uid"],
        body["reportingInstance"],
        body["type"],
    )
    assert "2001-09-09T01:46:40.000000Z" == body["eventTime"]
    assert 1 == recorder.written


async def test_no_two_events_share_a_name() -> None:
    """Different Events about one pod at one moment have different names."""
    harness = RecorderHarness()
    async with running(harness) as recorder:
        for number in range(5):
            recorder.record(tell(note=f"note {number}"))
        await recorder.wait_drained()
    assert 5 == len({body["metadata"]["name"] for _, _, body in harness.written()})


async def test_repeats_are_counted_in_a_series() -> None:
    """The second time at once, later ones at most every five minutes, always with the full count."""
    harness = RecorderHarness()
    async with running(harness) as recorder:
        for _ in range(40):
            recorder.record(tell())
            await asyncio.sleep(10.0)
    assert ["POST", "PATCH", "PATCH"] == harness.methods()
    assert [(10.0, 2), (310.0, 32)] == [(at, body["series"]["count"]) for at, _, body in harness.written()[1:]]


async def test_a_series_ends_after_six_quiet_minutes() -> None:
    """The same thing much later is a new Event."""
    harness = RecorderHarness()
    async with running(harness) as recorder:
        recorder.record(tell())
        await asyncio.sleep(361.0)
        recorder.record(tell())
        await recorder.wait_drained()
    assert ["POST", "POST"] == harness.methods()


async def test_what_differs_is_not_a_repeat() -> None:
    """Another pod, another reason or another note is another Event."""
    harness = RecorderHarness()
    async with running(harness) as recorder:
        for each in (tell(), tell("other"), tell(note="other"), tell(reason="Other")):
            recorder.record(each)
            await recorder.wait_drained()
    assert ["POST"] * 4 == harness.methods()


async def test_repeats_of_what_is_still_queued_are_one_event() -> None:
    """An Event recorded several times before it is written is written once, and then counted once."""
    harness = RecorderHarness()
    for _ in range(5):
        harness.recorder.record(tell())
    async with running(harness) as recorder:
        await recorder.wait_drained()
    assert ["POST", "PATCH"] == harness.methods()
    assert 5 == harness.written()[1][2]["series"]["count"]


async def test_an_expired_event_is_written_again() -> None:
    """The server forgets Events; a patch that finds none is followed, at the next repeat, by a new one."""
    harness = RecorderHarness(answer=lambda request: json_response({}, 404 if request.method == "PATCH" else 201))
    async with running(harness) as recorder:
        for _ in range(3):
            recorder.record(tell())
            await recorder.wait_drained()
    assert ["POST", "PATCH", "POST", "PATCH"] == harness.methods()


async def test_a_count_that_was_refused_is_tried_again_at_the_next_repeat() -> None:
    """A server that has just started refuses for a moment; the series does not wait five minutes because of it."""
    harness = RecorderHarness(answer=lambda request: json_response({}, 403 if request.method == "PATCH" else 201))
    async with running(harness) as recorder:
        for _ in range(2):
            recorder.record(tell())
            await recorder.wait_drained()
        harness.answer = lambda request: json_response({}, 200)
        recorder.record(tell())
        await recorder.wait_drained()
    assert ["POST", "PATCH", "PATCH"] == harness.methods()
    assert 3 == harness.written()[-1][2]["series"]["count"]


async def test_too_many_are_dropped_and_counted() -> None:
    """A full queue drops and counts the newest; a dropped Event may be recorded again later."""
    harness = RecorderHarness(capacity=3)
    for number in range(5):
        harness.recorder.record(tell(f"pod-{number}"))
    assert 2 == harness.recorder.dropped
    async with running(harness) as recorder:
        await recorder.wait_drained()
        recorder.record(tell("pod-4"))
        await recorder.wait_drained()
    assert [f"u-pod-{n}" for n in (0, 1, 2, 4)] == [body["regarding"]["uid"] for _, _, body in harness.written()]


async def test_memory_is_bounded() -> None:
    """However many different Events are recorded, the number of remembered series is limited."""
    harness = RecorderHarness(capacity=MAX_SERIES + 100)  # none is dropped, which would forget its series as well
    for number in range(MAX_SERIES + 100):
        harness.recorder.record(tell(f"pod-{number}"))
    assert (MAX_SERIES, 0) == (len(harness.recorder._series), harness.recorder.dropped)


async def test_events_wait_at_the_gate_but_not_for_ever() -> None:
    """While binds are under way Events only trickle, a few each second; afterwards all of them go."""
    harness = RecorderHarness()
    harness.lull.start()
    harness.lull.start()
    async with running(harness) as recorder:
        for number in range(40):
            recorder.record(tell(f"pod-{number}"))
        await asyncio.sleep(0.9)
        assert 0 == recorder.written
        await asyncio.sleep(3.0)
        assert 4 <= recorder.written <= 16
        harness.lull.finish()
        await asyncio.sleep(0.01)
        assert 40 == recorder.written


@pytest.mark.parametrize(
    "answer",
    [Unreachable("down", sent=True), Unreachable("", sent=True), json_response(b"", 500), json_response({}, 403)],
)
async def test_a_failure_is_counted_and_the_rest_goes_on(answer: FakeResponse) -> None:
    """An Event that cannot be written is lost, and counted; the next one is tried."""
    harness = RecorderHarness(answer=lambda request: answer)
    async with running(harness) as recorder:
        recorder.record(tell("one"))
        await recorder.wait_drained()
        harness.answer = lambda request: json_response({}, 201)
        recorder.record(tell("two"))
        await recorder.wait_drained()
    assert (1, 1) == (recorder.failed, recorder.written)


@pytest.mark.parametrize(("asked", "waits"), [("2", 2.0), ("600", 10.0)])
async def test_a_busy_server_is_given_its_time(asked: str, waits: float) -> None:
    """After a 429 the Event waits for Retry-After, ten seconds at most and a little more, and is sent once more."""
    harness = RecorderHarness()
    answers = iter([json_response(b"busy", 429, **{"Retry-After": asked}), json_response({}, 201)])
    harness.answer = lambda request: next(answers)
    async with running(harness) as recorder:
        recorder.record(tell())
        await recorder.wait_drained()
    first, second = harness.transport.times()
    assert waits <= second - first <= 1.25 * waits
    assert (1, 0) == (recorder.written, recorder.failed)


async def test_an_event_that_exists_already_was_written() -> None:
    """A 409: the response to the first attempt was lost."""
    harness = RecorderHarness()
    harness.answer = lambda request: json_response({"kind": "Status", "reason": "AlreadyExists"}, 409)
    async with running(harness) as recorder:
        recorder.record(tell())
        await recorder.wait_drained()
    assert (1, 0) == (recorder.written, recorder.failed)


async def test_a_replica_that_does_not_lead_writes_no_events() -> None:
    """Without leadership nothing is sent."""
    harness = RecorderHarness(open=False)
    async with running(harness) as recorder:
        recorder.record(tell())
        await recorder.wait_drained()
    assert ([], 1) == (harness.transport.sent, recorder.failed)
