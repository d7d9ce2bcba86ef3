"""Drives the engine in real time: dispatches events as they arrive, ticks, and turns of a few decisions.

The live counterpart of `sim/simulation.py`. The event loop runs other tasks after each turn, so no watch waits for a
backlog of pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trimtab.apps.clock import Clock
from trimtab.core.driver import Driver, Record
from trimtab.core.engine import Engine
from trimtab.core.model.events import Event, Tick, Turn
from trimtab.core.model.instructions import Instruction
from trimtab.core.model.plan import Plan
from trimtab.core.model.schedule_result import Decision

DECISIONS_PER_TURN = 8
TICK = 0.5


class Runtime:
    """Runs one engine on one event loop, so nothing needs a lock."""

    def __init__(
        self,
        engine: Engine,
        perform: Callable[[Instruction], None],
        clock: Clock,
        on_decision: Callable[[Decision], None] | None = None,
        record: Record | None = None,
        on_plan: Callable[[Plan], None] | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self._driver = Driver(engine, perform, on_decision, record, on_plan)
        self._work = asyncio.Event()

    def dispatch(self, event: Event) -> None:
        """Hand an event to the engine, with its times converted, and perform the instructions."""
        self.put(self.clock.to_engine_time(event))

    def put(self, event: Event) -> None:
        """The same for an event whose times are the engine's already."""
        self._driver.put(event)
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
            self.dispatch(Tick(self.clock()))
            await asyncio.sleep(TICK)
