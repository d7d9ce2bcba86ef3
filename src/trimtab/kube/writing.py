"""Decides whether a write may go out at all, and gives a busy server its time once; leaves what is written to others.

The transport asks right before each request leaves, after every wait for credentials, for the rate limit and for a
connection (through a proxy before the latter, which is short): what has waited does not go out after the renew deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from trimtab.kube.transport import Response, Transport
from trimtab.wire.outcome import Throttled, throttle
from trimtab.wire.request import Request

LONGEST_WAIT = 10.0


class Writer:
    """The one door for writes."""

    def __init__(self, transport: Transport, may_write: Callable[[], bool], random: Random) -> None:
        self._transport, self._may_write, self._random = transport, may_write, random

    async def send(self, request: Request, patience: float) -> Response:
        """The answer, or Unreachable; a closed door is a request not sent."""
        response = await self._once(request, patience)
        throttled = throttle(response.status, response.headers, response.body)
        if not isinstance(throttled, Throttled):
            return response
        await asyncio.sleep(min(throttled.seconds, LONGEST_WAIT) * self._random.uniform(1.0, 1.25))
        return await self._once(request, patience)

    async def _once(self, request: Request, patience: float) -> Response:
        return await self._transport.send(request, patience, may_leave=self._may_write)
