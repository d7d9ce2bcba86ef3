"""Decides when lesser writes may go out between binds; leaves which writes are lesser to their writers.

calm ──(half the binds that may be under way are)──▶ busy ──(fewer are)──▶ calm
lesser writes go out at once while calm, one by one each second while busy: they are late, never lost for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

MAX_DELAY = 1.0


class LowPriorityGate:
    """Counts what is under way, and lets others wait until it is little."""

    def __init__(self, busy_at: int) -> None:
        self.in_flight = 0
        self._busy_at = max(busy_at, 1)
        self._open = asyncio.Event()
        self._open.set()

    def start(self) -> None:
        """One more is under way."""
        self.in_flight += 1
        if self.in_flight >= self._busy_at:
            self._open.clear()

    def finish(self) -> None:
        """One less is."""
        self.in_flight -= 1
        if self.in_flight < self._busy_at:
            self._open.set()

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Ends with the block, however that ends."""
        try:
            yield
        finally:
            self.finish()

    async def wait(self) -> None:
        """Until it is calm, but not for ever."""
        if self._open.is_set():
            return
        try:
            await asyncio.wait_for(self._open.wait(), MAX_DELAY)
        except TimeoutError:
            return
