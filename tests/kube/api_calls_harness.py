"""ApiCalls on a fake transport, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.core.model.events import Event
from trimtab.core.model.instructions import Instruction, SetUnschedulable
from trimtab.kube.api_calls import ApiCalls
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import Request

DONE = json_response({"kind": "Status", "status": "Success", "code": 201}, 201)


def failure(code: int, reason: str = "", message: str = "") -> FakeResponse:
    return json_response(
        {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}, code
    )


def pod(uid: str = "u1", node: str = "") -> dict[str, Any]:
    meta = {"uid": uid, "namespace": "ns", "name": "web", "resourceVersion": "7"}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": node, "containers": []}}


@dataclass
class ApiCallsHarness:
    """ApiCalls with a fake transport; `open` says whether this replica leads, `paused` why no pod may be moved."""

    answer: Callable[[Request], Any] = lambda request: DONE
    open: bool = True
    events: list[Event] = field(default_factory=list)
    ahead: float = 0.0  # of the wall clock
    paused: str = ""

    def __post_init__(self) -> None:
        self.transport = FakeTransport(lambda request: self.answer(request))
        self.api_calls = ApiCalls(
            self.transport,
            self.events.append,
            lambda: self.open,
            self.now,
            Random(1),
            PodReader(),
            "host-1",
            wall=lambda: self.now() + self.ahead,
            paused=self._why_paused,
        )

    def now(self) -> float:
        return asyncio.get_running_loop().time() + 1e9

    async def _why_paused(self) -> str:
        return self.paused


@asynccontextmanager
async def running(harness: ApiCallsHarness) -> AsyncIterator[ApiCalls]:
    task = asyncio.create_task(harness.api_calls.run())
    try:
        yield harness.api_calls
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def outcome(harness: ApiCallsHarness, instruction: Instruction) -> Event:
    async with running(harness) as api_calls:
        api_calls.submit(instruction)
        assert await api_calls.drain(60.0)
    (event,) = harness.events
    return event


def unschedulable(message: str, uid: str = "u1") -> SetUnschedulable:
    return SetUnschedulable(uid, "ns", "web", "Unschedulable", message)
