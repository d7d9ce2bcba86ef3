"""Runs an engine on the simulated cluster: the counterpart of the live runtime (apps/runtime.py)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from trimtab.core.driver import Driver, Record
from trimtab.core.engine import Engine
from trimtab.core.model.events import Event, LeaseAcquired, Synced, Tick
from trimtab.core.model.schedule_result import Decision
from trimtab.core.settings import Settings
from trimtab.sim.world import VirtualClock, World

TICK_INTERVAL, SCRAPE_INTERVAL = 1.0, 15.0
IDLE_TICK_INTERVAL, IDLE_SCRAPE_INTERVAL = 30.0, 90.0  # for idle hours; samples stay fresh for longer


class SimulationDriver:
    """One engine on one world; the same settings and seed give the same run.

    on_decision: called with each decision while the engine's state is still the one it was based on. metrics_lag: delay of
    samples in seconds. record: called with every event and its outputs. idle: may be set for less frequent ticks and scrapes.
    """

    def __init__(
        self,
        settings: Settings,
        seed: int,
        start: float,
        on_decision: Callable[[Decision], None] | None = None,
        metrics_lag: float = 0.0,
        record: Record | None = None,
    ) -> None:
        self.clock = VirtualClock(start)
        self.engine = Engine(settings)
        self.world = World(self.clock, Random(seed), self.feed, metrics_lag)
        self._driver = Driver(self.engine, self.world.perform, on_decision, record)
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
        """Feed the event to the engine, then let it decide, one pod per turn, until it has no work."""
        self._driver.put(event)
        self._driver.decide(self.clock.now)
