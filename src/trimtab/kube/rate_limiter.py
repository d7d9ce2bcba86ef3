"""Decides when the next request may go out under a rate and a burst; leaves which requests count to the transport."""

from __future__ import annotations

import asyncio


class RateLimiter:
    """A token bucket: `burst` requests at once, `qps` a second in the long run; first come, first served."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._credit = (max(burst, 1) - 1) * self._interval
        self._next = float("-inf")

    async def wait(self) -> None:
        """Wait for a turn."""
        now = asyncio.get_running_loop().time()
        turn = max(self._next, now - self._credit)
        self._next = turn + self._interval
        if turn > now:
            await asyncio.sleep(turn - now)


def rate_limiter(qps: float | None, burst: int | None) -> RateLimiter | None:
    """What clientConnection asks for; no rate, or none above 0, means no limit."""
    return RateLimiter(qps, burst or 1) if qps is not None and qps > 0 else None
