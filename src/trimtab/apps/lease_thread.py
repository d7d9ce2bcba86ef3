"""Holds the lease on a thread of its own, with its own event loop, credentials and connections.

    decision loop                            lease thread
      hold() ───────────────────────────────▶ acquire, renew every 2 s
      acquired(term) ◀── call_soon_threadsafe ──┤
      on_pause(reason) ◀── call_soon_threadsafe ┤
      hold() returns ◀──────────────────────────┴─ lost: on_lost(), still on this thread
      may_write(): reads when the lease was last renewed, at any time and from any thread

A decision that takes long, or a burst of watch events, delays no renewal. What may not happen after the lease is lost needs
no message from here: `may_write` turns false by passing time alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import TypeVar

from trimtab.apps.loop_thread import LoopThread
from trimtab.config.configuration import LeaderElection
from trimtab.kube.credentials import Credentials
from trimtab.kube.lease import LeaderElector
from trimtab.kube.transport import PooledTransport

T = TypeVar("T")
CONNECTIONS = 2
NOT_HELD = "this process does not hold its lease yet"


class LeaseThread:
    """A LeaderElector for another event loop than its own."""

    def __init__(
        self,
        credentials: Credentials,
        settings: LeaderElection,
        identity: str,
        wall: Callable[[], float],
        on_lost: Callable[[], object],
    ) -> None:
        self.on_pause: Callable[[str], None] = lambda reason: None  # called on the loop that holds
        self._transport = PooledTransport(credentials.copy(), connections=CONNECTIONS)
        jitter = Random()  # noqa: S311 (no secret)
        self._elector = LeaderElector(self._transport, settings, identity, wall, jitter)
        self._on_lost = on_lost  # called on the lease thread, which needs no other loop to end the process
        self._thread = LoopThread("trimtab-lease")

    def may_write(self) -> bool:
        """Whether no other replica can be the leader yet."""
        return self._elector.may_write()

    def problem(self) -> str | None:
        """Why the lease could not be acquired or renewed at the last attempt."""
        return self._elector.last_error or None

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Requests sent so far, by method and status."""
        return dict(self._transport.requests)

    async def hold(self, acquired: Callable[[int], None]) -> None:
        """Acquire the lease, call `acquired` with its term, and return when it is lost."""
        loop = asyncio.get_running_loop()
        self._elector.on_pause = lambda reason: _tell(loop, self.on_pause, reason)
        self._thread.start()
        await self._thread.call(self._hold(lambda term: _tell(loop, acquired, term)))

    async def _hold(self, acquired: Callable[[int], None]) -> None:
        try:
            await self._elector.hold(acquired)
        except Exception:
            self._on_lost()
            raise
        if self._elector.lost:
            self._on_lost()

    async def delay_standby(self) -> None:
        """Sleep up to a second if another replica holds the lease."""
        self._thread.start()
        await self._thread.call(self._elector.delay_standby())

    async def pause_reason(self) -> str:
        """Why no pod may be moved now, by the lease as the API server has it."""
        return await self._thread.call(self._elector.pause_reason()) if self._thread.running else NOT_HELD

    async def release(self) -> None:
        """Stop writing at once, then clear the holder if it is still us; nothing to do if it was never sought."""
        if self._thread.running:
            await self._thread.call(self._elector.release())

    async def close(self) -> None:
        """Close the connections and end the thread."""
        if self._thread.running:
            await self._thread.call(self._transport.close())
            self._thread.stop()


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[[T], None], value: T) -> None:
    """Call it there, unless that loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, value)
