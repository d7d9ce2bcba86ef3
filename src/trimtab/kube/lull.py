"""Decides when lesser writes may go out between binds; leaves which writes are lesser to their writers.

calm ──(half the binds that may be under way are)──▶ busy ──(fewer are)──▶ calm
lesser writes go out at once while calm, one by one each second while busy: they are late, never lost for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

TRICKLE = 1.0


class Lull:
    """Counts what is under way, and lets others wait until it is little."""

    def __init__(self, busy_at: int) -> None:
        self.under_way = 0
        self._busy_at = max(busy_at, 1)
        self._calm = asyncio.Event()
        self._calm.set()

    def begin(self) -> None:
        """One more is under way."""
        self.under_way += 1
        if self.under_way >= self._busy_at:
            self._calm.clear()

    def end(self) -> None:
        """One less is."""
        self.under_way -= 1
        if self.under_way < self._busy_at:
            self._calm.set()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Ends with the block, however that ends."""
        try:
            yield
        finally:
            self.end()

    async def wait(self) -> None:
        """Until it is calm, but not for ever."""
        if self._calm.is_set():
            return
        try:
            await asyncio.wait_for(self._calm.wait(), TRICKLE)
        except TimeoutError:
            return
