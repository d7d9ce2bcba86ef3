"""Runs the engine on a pretended world: hands it every event and its turns, and has its instructions performed.

The counterpart of the live runtime; it decides nothing but when the engine gets a turn: as soon as there is work.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from trimtab.core.driver import Driver
from trimtab.core.engine import Engine
from trimtab.core.model.events import Event, LeaseAcquired, Synced, Tick
from trimtab.core.model.schedule_result import Decision
from trimtab.core.settings import Settings
from trimtab.sim.clock import VirtualClock
from trimtab.sim.world import World

TICK_INTERVAL, SCRAPE_INTERVAL = 1.0, 15.0
IDLE_TICK_INTERVAL, IDLE_SCRAPE_INTERVAL = (
    30.0,
    90.0,
)  # while nothing is placed for hours; samples stay fresh for longer


class SimulationDriver:
    """One engine on one world; the same settings, seed and script give the same run.

    `on_decision` hears of each decision at once, while the engine's state is still as it was decided upon. `lag` is how long
    measurements are on their way. `idle` makes hours pass with fewer looks.
    """

    def __init__(
        self,
        settings: Settings,
        seed: int,
        start: float,
        on_decision: Callable[[Decision], None] | None = None,
        metrics_lag: float = 0.0,
    ) -> None:
        self.clock = VirtualClock(start)
        self.engine = Engine(settings)
        self.world = World(self.clock, Random(seed), self.feed, metrics_lag)
        self._driver = Driver(self.engine, self.world.perform, on_decision)
        self.idle = False
        for kind in settings.kinds:
            self.feed(Synced(kind, start))
        self.feed(LeaseAcquired(1, start))
        self.clock.call_later(TICK_INTERVAL, self._tick)
        self.clock.call_later(SCRAPE_INTERVAL, self._scrape)

    def _tick(self) -> None:
        self.feed(Tick(self.clock.now))
        self.clock.call_later(IDLE_TICK_INTERVAL if self.idle else TICK_INTERVAL, self._tick)

    def _scrape(self) -> None:
        self.world.scrape()
        self.clock.call_later(IDLE_SCRAPE_INTERVAL if self.idle else SCRAPE_INTERVAL, self._scrape)

    def feed(self, event: Event) -> None:
        """Hand the engine a fact; then let it decide, one pod a turn, until nobody is ready."""
        self._driver.put(event)
        self._driver.decide(self.clock.now)
