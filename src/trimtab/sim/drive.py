"""Runs the engine on a pretended world: hands it every event and its turns, and has its instructions performed.

The counterpart of the live runtime; it decides nothing but when the engine gets a turn: as soon as there is work.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from trimtab.core.driver import Driver
from trimtab.core.engine import Engine
from trimtab.core.model.event import Event, Leading, Synced, Tick
from trimtab.core.model.verdict import Decision
from trimtab.core.settings import Settings
from trimtab.sim.clock import Clock
from trimtab.sim.world import World

TICK, SCRAPE = 1.0, 15.0
IDLE_TICK, IDLE_SCRAPE = 30.0, 90.0  # while nothing is placed for hours; samples stay fresh for longer


class Drive:
    """One engine on one world; the same settings, seed and script give the same run.

    `onlooker` hears of each decision at once, while the engine's state is still as it was decided upon. `lag` is how long
    measurements are on their way. `idle` makes hours pass with fewer looks.
    """

    def __init__(
        self,
        settings: Settings,
        seed: int,
        start: float,
        onlooker: Callable[[Decision], None] | None = None,
        lag: float = 0.0,
    ) -> None:
        self.clock = Clock(start)
        self.engine = Engine(settings)
        self.world = World(self.clock, Random(seed), self.take, lag)
        self._driver = Driver(self.engine, self.world.perform, onlooker)
        self.idle = False
        for kind in settings.kinds:
            self.take(Synced(kind, start))
        self.take(Leading(1, start))
        self.clock.after(TICK, self._tick)
        self.clock.after(SCRAPE, self._scrape)

    def _tick(self) -> None:
        self.take(Tick(self.clock.now))
        self.clock.after(IDLE_TICK if self.idle else TICK, self._tick)

    def _scrape(self) -> None:
        self.world.scrape()
        self.clock.after(IDLE_SCRAPE if self.idle else SCRAPE, self._scrape)

    def take(self, event: Event) -> None:
        """Hand the engine a fact; then let it decide, one pod a turn, until nobody is ready."""
        self._driver.put(event)
        self._driver.decide(self.clock.now)
