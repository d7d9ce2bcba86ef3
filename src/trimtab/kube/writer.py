"""Decides whether a write may go out at all, and gives a busy server its time once; leaves what is written to others.

The transport asks right before each request leaves, after every wait for credentials, for the rate limit and for a
connection (through a proxy before the latter, which is short): what has waited does not go out after the renew deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from trimtab.kube.transport import Response, Transport
from trimtab.wire.outcomes import Throttled, throttle
from trimtab.wire.requests import Request

MAX_RETRY_AFTER = 10.0


class Writer:
    """The one door for writes."""

    def __init__(self, transport: Transport, may_write: Callable[[], bool], random: Random) -> None:
        self._transport, self._may_write, self._random = transport, may_write, random

    async def send(self, request: Request, timeout: float) -> Response:
        """The answer, or Unreachable; a closed door is a request not sent."""
        response = await self._once(request, timeout)
        throttled = throttle(response.status, response.headers, response.body)
        if not isinstance(throttled, Throttled):
            return response
        await asyncio.sleep(min(throttled.seconds, MAX_RETRY_AFTER) * self._random.uniform(1.0, 1.25))
        return await self._once(request, timeout)

    async def _once(self, request: Request, timeout: float) -> Response:
        return await self._transport.send(request, timeout, may_send=self._may_write)
