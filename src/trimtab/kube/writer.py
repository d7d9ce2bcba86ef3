"""How writes leave the process: only while this replica leads, and low-priority ones not in the middle of many binds.

The transport checks leadership right before each request is sent, after every wait for credentials, the rate limit and a
connection (through a proxy before the latter, which is short). A request that waited past the renew deadline is not sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random

from trimtab.kube.transport import Response, Transport
from trimtab.kube.transport.contract import allow
from trimtab.wire.outcomes import Throttled, throttle
from trimtab.wire.requests import Request

MAX_RETRY_AFTER = 10.0
MAX_DELAY = 1.0


async def no_objection() -> None:
    """For writes that are sent again after any wait."""


class Writer:
    """Sends all writes, and retries one once after a 429."""

    def __init__(self, transport: Transport, may_write: Callable[[], bool], random: Random) -> None:
        self._transport, self._may_write, self._random = transport, may_write, random

    async def send(
        self,
        request: Request,
        timeout: float,
        may_send: Callable[[], bool] = allow,
        before_retry: Callable[[], Awaitable[None]] = no_objection,
    ) -> Response:
        """The response, or Unreachable; also when this replica does not lead.

        `may_send` is asked where leadership is; it and `before_retry` may raise Unreachable.
        """
        response = await self._once(request, timeout, may_send)
        throttled = throttle(response.status, response.headers, response.body)
        if not isinstance(throttled, Throttled):
            return response
        await asyncio.sleep(min(throttled.seconds, MAX_RETRY_AFTER) * self._random.uniform(1.0, 1.25))
        await before_retry()
        return await self._once(request, timeout, may_send)

    async def _once(self, request: Request, timeout: float, may_send: Callable[[], bool]) -> Response:
        return await self._transport.send(request, timeout, may_send=lambda: self._may_write() and may_send())


class LowPriorityGate:
    """Delays Events and status patches while half of the bind slots are busy.

    open ──(`busy_at` calls in flight)──▶ closed ──(fewer)──▶ open
    While it is closed each worker still passes once a second: low-priority writes are late, never lost.
    """

    def __init__(self, busy_at: int) -> None:
        self.in_flight = 0
        self._busy_at = max(busy_at, 1)
        self._open = asyncio.Event()
        self._open.set()

    def start(self) -> None:
        """Count one more call in flight."""
        self.in_flight += 1
        if self.in_flight >= self._busy_at:
            self._open.clear()

    def finish(self) -> None:
        """Count one less."""
        self.in_flight -= 1
        if self.in_flight < self._busy_at:
            self._open.set()

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Call `finish` when the block ends, however it ends."""
        try:
            yield
        finally:
            self.finish()

    async def wait(self) -> None:
        """Wait until the gate is open, at most MAX_DELAY."""
        if self._open.is_set():
            return
        try:
            async with asyncio.timeout(MAX_DELAY):
                await self._open.wait()
        except TimeoutError:
            return
