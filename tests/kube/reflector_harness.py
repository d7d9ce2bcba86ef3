"""A reflector on a fake transport, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from tests.kube.fake_transport import FakeResponse, FakeStream, FakeTransport
from tests.kube.node_responses import is_probe, listing
from trimtab.core.model.events import Event, NodeDeleted, NodeUpserted
from trimtab.kube.kinds import node_kind
from trimtab.kube.reflector import Reflector
from trimtab.wire.node import NodeReader
from trimtab.wire.requests import Request


@dataclass
class ReflectorHarness:
    """A reflector on a fake transport whose responses the test may change."""

    answer: Callable[[Request], FakeResponse] = lambda request: listing(10)
    open: Callable[[Request], FakeStream | Exception] = lambda request: FakeStream()
    events: list[Event] = field(default_factory=list)
    task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.transport = FakeTransport(lambda request: self.answer(request), lambda request: self.open(request))
        clock = asyncio.get_running_loop().time
        self.reflector = Reflector(self.transport, node_kind(NodeReader()), self.events.append, clock, Random(1))

    @property
    def stream(self) -> FakeStream:
        return self.transport.streams[-1]

    def names(self) -> list[str]:
        """The events, in short."""
        return [_short(event) for event in self.events]

    def lists(self) -> list[float]:
        """When pages of lists were requested."""
        return [round(at, 3) for at, request in self.transport.sent if not is_probe(request)]

    def watches(self) -> list[float]:
        return [round(at, 3) for at, _ in self.transport.watched]


def _short(event: Event) -> str:
    match event:
        case NodeUpserted(node=seen):
            return f"+{seen.name}@{seen.version}"
        case NodeDeleted(name=name, version=version):
            return f"-{name}@{version}"
        case _:
            return type(event).__name__


@asynccontextmanager
async def running(harness: ReflectorHarness) -> AsyncIterator[ReflectorHarness]:
    harness.task = asyncio.create_task(harness.reflector.run())
    await asyncio.sleep(0.01)
    try:
        yield harness
    finally:
        harness.task.cancel()
        await asyncio.gather(harness.task, return_exceptions=True)
