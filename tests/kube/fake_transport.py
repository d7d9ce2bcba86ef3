"""A transport with canned responses, on the loop's own clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from trimtab.kube.transport import IdleTimeout, Response, Unreachable
from trimtab.kube.transport.contract import allow
from trimtab.wire.requests import Request

FakeResponse = Response | Exception
Send = Callable[[Request], Awaitable[FakeResponse] | FakeResponse]


@dataclass
class FakeStream:
    """A stream whose lines, idleness or end the test controls."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    text: bytes = b""
    idle_timeout: float = 0.0
    queue: asyncio.Queue[list[bytes] | Exception | None] = field(default_factory=asyncio.Queue)

    def push(self, *lines: dict[str, Any] | bytes) -> None:
        self.queue.put_nowait([line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines])

    def end(self) -> None:
        self.queue.put_nowait(None)

    def fail(self, error: Exception) -> None:
        self.queue.put_nowait(error)

    async def lines(self) -> AsyncIterator[list[bytes]]:
        while True:
            try:
                async with asyncio.timeout(self.idle_timeout):
                    item = await self.queue.get()
            except TimeoutError:
                raise IdleTimeout("nothing", sent=True) from None
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item

    async def body(self) -> bytes:
        return self.text

    def close(self) -> None:
        self.fail(Unreachable("closed", sent=True))


@dataclass
class FakeTransport:
    """Answers by a function; each request is noted with the time of the loop."""

    answer: Send
    open: Callable[[Request], FakeStream | Exception] = lambda request: FakeStream()
    sent: list[tuple[float, Request]] = field(default_factory=list)
    watched: list[tuple[float, Request]] = field(default_factory=list)
    streams: list[FakeStream] = field(default_factory=list)

    def times(self, method: str = "") -> list[float]:
        return [round(at, 3) for at, request in self.sent if request.method.startswith(method)]

    async def send(
        self, request: Request, timeout: float, max_bytes: int = 0, may_send: Callable[[], bool] = allow
    ) -> Response:
        if not may_send():
            raise Unreachable("not sent", sent=False)
        self.sent.append((asyncio.get_running_loop().time(), request))
        answer = self.answer(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, idle_timeout: float) -> AsyncIterator[FakeStream]:
        self.watched.append((asyncio.get_running_loop().time(), request))
        opened = self.open(request)
        if isinstance(opened, Exception):
            raise opened
        opened.idle_timeout = idle_timeout
        self.streams.append(opened)
        yield opened

    async def close(self) -> None:
        pass


def json_response(body: Any, status: int = 200, **headers: str) -> Response:
    return Response(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())
