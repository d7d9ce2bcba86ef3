"""A fake API server with one Lease, and contenders with clocks of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.config.configuration import LeaderElection
from trimtab.core.model.events import Event
from trimtab.kube.lease import LeaderElector, lead
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request

NOT_FOUND = json_response({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}, 404)
CONFLICT = json_response({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"}, 409)
SINK_EPOCH = 5e8  # where the clock begins of whoever is told; the wall is at twice that
PATH = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases"


@dataclass
class LeaseServer:
    """One lease, kept as an API server keeps it: a write needs the version that it was based on."""

    spec: dict[str, Any] | None = None
    version: int = 1
    override: Callable[[Request], FakeResponse | None] = lambda request: None
    history: list[tuple[float, str]] = field(default_factory=list)

    def answer(self, request: Request) -> FakeResponse:
        return self.override(request) or self.handle(request)

    def handle(self, request: Request) -> FakeResponse:
        assert request.path in (PATH, f"{PATH}/trimtab")
        if request.method == "GET":
            return NOT_FOUND if self.spec is None else self.current()
        body = json.loads(request.body)
        if request.method == "POST":
            return CONFLICT if self.spec is not None else self.store(body["spec"], 201)
        if self.spec is None:
            return NOT_FOUND
        stale = body["metadata"]["resourceVersion"] != str(self.version)
        return CONFLICT if stale else self.store(body["spec"], 200)

    def store(self, spec: dict[str, Any], status: int = 200) -> FakeResponse:
        self.spec = spec
        self.version += 1
        self.history.append((round(asyncio.get_running_loop().time(), 2), spec["holderIdentity"]))
        return self.current(status)

    def current(self, status: int = 200) -> FakeResponse:
        meta = {"name": "trimtab", "namespace": "trimtab", "resourceVersion": str(self.version)}
        return json_response({"kind": "Lease", "metadata": meta, "spec": self.spec}, status)


@dataclass
class Contender:
    """An elector with a transport and clocks of its own."""

    server: LeaseServer
    name: str = "me"
    cut: bool = False
    skew: float = 0.0
    events: list[Event] = field(default_factory=list)
    settings: LeaderElection = field(default_factory=LeaderElection)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.transport = FakeTransport(self.answer)
        wall = lambda: loop.time() + 1e9 + self.skew  # noqa: E731
        clock = lambda: loop.time() + 5 * self.skew  # noqa: E731
        self.now = lambda: loop.time() + SINK_EPOCH
        self.elector = LeaderElector(self.transport, self.settings, self.name, wall, Random(self.name), clock)

    def answer(self, request: Request) -> FakeResponse:
        return Unreachable("cut", sent=True) if self.cut else self.server.answer(request)

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(lead(self.elector, self.events.append, self.prepare, self.now))

    async def prepare(self) -> None:
        pass


def lease_spec(holder: str, seconds: int = 15, **more: Any) -> dict[str, Any]:
    return {"holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 3} | more
