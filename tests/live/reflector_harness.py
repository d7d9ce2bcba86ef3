"""Runs reflectors in live tests and compares them with the cluster.

The compared state is built from events alone, like that of the core, so a missing or superfluous event shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tools.controlplane.rig import Rig
from trimtab.core.model.events import Event, NodeDeleted, NodeUpserted, PodDeleted, PodUpserted, Synced
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.kube.credentials import find_credentials
from trimtab.kube.kinds import node_kind, pod_kind
from trimtab.kube.reflector import Reflector
from trimtab.kube.transport import AiohttpTransport, Response, Stream, Transport
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import Request

R = TypeVar("R")
State = dict[str, int]
# One thread for the whole run: what a thread has started, the rig lets end with that thread.
RIG_THREAD = ThreadPoolExecutor(1, "rig")


@dataclass
class GatedTransport:
    """A transport that lets nothing new out while its gate is closed; what is open stays open."""

    inner: Transport
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    rewrite: Callable[[Request], Request] = lambda request: request

    def __post_init__(self) -> None:
        self.gate.set()

    async def send(self, request: Request, timeout: float, max_bytes: int = 4 << 20) -> Response:
        await self.gate.wait()
        return await self.inner.send(request, timeout, max_bytes)

    def stream(self, request: Request, idle_timeout: float) -> AbstractAsyncContextManager[Stream]:
        return self._stream(request, idle_timeout)

    @asynccontextmanager
    async def _stream(self, request: Request, silence: float) -> AsyncIterator[Stream]:
        await self.gate.wait()
        async with self.inner.stream(self.rewrite(request), silence) as stream:
            yield stream

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class ReflectorHarness:
    """Both reflectors on one rig, and what their facts add up to: versions by UID."""

    rig: Rig
    transport: GatedTransport
    pods: State = field(default_factory=dict)
    nodes: State = field(default_factory=dict)
    deletions: list[Event] = field(default_factory=list)
    synced: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        clock = asyncio.get_running_loop().time
        kinds: tuple[Any, Any] = (pod_kind(PodReader()), node_kind(NodeReader()))
        self.reflectors: list[Reflector[Any]] = [
            Reflector(self.transport, kind, self.take, clock, Random(number)) for number, kind in enumerate(kinds)
        ]

    def take(self, fact: Event) -> None:
        match fact:
            case PodUpserted(pod=Pod(uid=uid, version=version)):
                self.pods[uid] = version
            case NodeUpserted(node=Node(uid=uid, version=version)):
                self.nodes[uid] = version
            case PodDeleted(uid=uid):
                self.pods.pop(uid, None)
                self.deletions.append(fact)
            case NodeDeleted(uid=uid):
                self.nodes.pop(uid, None)
                self.deletions.append(fact)
            case Synced(kind=kind):
                self.synced.add(kind)

    def total(self, name: str) -> int:
        """One of the reflectors' counts, over both."""
        return sum(getattr(reflector.counts, name) for reflector in self.reflectors)

    def listed(self) -> tuple[State, State]:
        """What a consistent list says, read by the rig's own client."""
        found = [self.rig.admin.list(path) for path in ("/api/v1/pods", "/api/v1/nodes")]
        by_uid = [
            {item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"]) for item in each} for each in found
        ]
        return by_uid[0], by_uid[1]

    async def wait_agrees(self, seconds: float = 30.0) -> None:
        """Wait until facts and cluster are the same, object by object."""
        expected = await run_blocking(self.listed)
        await wait_until(lambda: expected == (self.pods, self.nodes), seconds)
        assert expected == (self.pods, self.nodes)
        for state, reflector in zip(expected, self.reflectors, strict=True):
            assert state == {uid: item.version for uid, item in reflector.store.objects().items()}


async def wait_until(true: Callable[[], bool], seconds: float) -> None:
    """Wait until it is true, or until the time is over; the caller asserts."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not true() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def run_blocking(action: Callable[..., R], *arguments: Any) -> Awaitable[R]:
    """Run the rig's blocking calls beside the reflectors."""
    return asyncio.get_running_loop().run_in_executor(RIG_THREAD, action, *arguments)


@asynccontextmanager
async def running_reflectors(rig: Rig, kubeconfig: Path) -> AsyncIterator[ReflectorHarness]:
    """Reflectors that have listed everything, until the block ends."""
    transport = GatedTransport(AiohttpTransport(find_credentials(str(kubeconfig))))
    harness = ReflectorHarness(rig, transport)
    tasks = [asyncio.create_task(reflector.run()) for reflector in harness.reflectors]
    try:
        await wait_until(lambda: harness.synced == {"pods", "nodes"}, 30.0)
        yield harness
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await transport.close()
