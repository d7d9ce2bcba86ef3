"""Drives the engine as time passes: gives turns between reads, hands wishes to whoever performs them.

The live counterpart of `sim/driver.py`. Facts are taken in where they arrive; decisions are made in small turns with a
breath after each, so that neither the lease nor a watch ever waits for a backlog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trimtab.apps.clock import Clock
from trimtab.core.driver import Driver, Record
from trimtab.core.engine import Engine
from trimtab.core.model.events import Event, Tick, Turn
from trimtab.core.model.instructions import Instruction
from trimtab.core.model.schedule_result import Decision

DECISIONS_PER_TURN = 8
TICK = 0.5


class Runtime:
    """Owns the engine while it is live; everything happens on one event loop, so nothing needs a lock."""

    def __init__(
        self,
        engine: Engine,
        perform: Callable[[Instruction], None],
        clock: Clock,
        on_decision: Callable[[Decision], None] | None = None,
        record: Record | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.last_tick = clock()
        self._driver = Driver(engine, perform, on_decision, record)
        self._work = asyncio.Event()

    def dispatch(self, event: Event) -> None:
        """Take a fact in, on the engine's clock, and pass on what the engine wishes for."""
        self._driver.put(self.clock.to_engine_time(event))
        self._work.set()

    async def run(self) -> None:
        """Turns and ticks until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_turns())
            group.create_task(self._run_ticks())

    async def _run_turns(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self.engine.has_work():
                self.dispatch(Turn(DECISIONS_PER_TURN, self.clock()))
                await asyncio.sleep(0)

    async def _run_ticks(self) -> None:
        while True:
            self.clock.resync()
            self.last_tick = self.clock()
            self.dispatch(Tick(self.last_tick))
            await asyncio.sleep(TICK)
