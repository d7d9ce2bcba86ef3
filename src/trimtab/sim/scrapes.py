"""Scrapes: what the metrics pipeline makes of usage before the scheduler sees it.

usage of the last step ──every interval──▶ noise, lost samples, outages ──delay──▶ SamplesRead or SourceFailed
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

import numpy as np

from trimtab.core.model.events import Event, SamplesRead, SourceFailed
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.tables import Bools, Floats
from trimtab.sim.randomness import Keys, key_of, uniforms
from trimtab.sim.scenario import MetricsPipeline, Outage, OutageKind
from trimtab.sim.usage import RESOURCES, StepUsage
from trimtab.sim.world import World

SOURCE = "simulated"
AFTER_STEP = 0.1  # a scrape that is due with a step sees it


class Scrapes:
    """Scrapes the world at its interval; `last_samples` is what was delivered last, by node and resource."""

    def __init__(self, world: World, pipeline: MetricsPipeline, emit: Callable[[Event], None]) -> None:
        self.world, self.pipeline, self._emit = world, pipeline, emit
        self.last_samples: dict[tuple[str, str], float] = {}
        self._scrapes = 0
        self._failing = False
        self._held: tuple[Reading, ...] = ()
        world.clock.call_later(AFTER_STEP, lambda: world.clock.call_every(pipeline.interval, self._scrape))

    def _scrape(self) -> None:
        usage, now = self.world.usage.latest, self.world.clock.now
        self._scrapes += 1
        outages = [each for each in self.pipeline.outages if each.begins <= now < each.ends]
        if usage is None:
            return
        if any(each.kind is OutageKind.SILENT and not each.nodes for each in outages):
            self._fail(now)
            return
        self._failing = False
        readings = self._held
        if not any(each.kind is OutageKind.STALE and not each.nodes for each in outages):
            self._held = readings = self._readings(usage, outages)
        self._deliver_later(readings)

    def _fail(self, now: float) -> None:
        if not self._failing:
            self._emit(SourceFailed(SOURCE, "the metrics source does not answer", now))
        self._failing = True

    def _deliver_later(self, readings: tuple[Reading, ...]) -> None:
        if self.pipeline.delay:
            self.world.clock.call_later(self.pipeline.delay, lambda: self._deliver(readings))
        else:
            self._deliver(readings)

    def _deliver(self, readings: tuple[Reading, ...]) -> None:
        for reading in readings:
            if reading.subject is Subject.NODES:
                keys = zip(reading.names, repeat(reading.resource))
                self.last_samples.update(zip(keys, reading.values, strict=True))
        self._emit(SamplesRead(readings, self.world.clock.now))

    # --- readings

    def _readings(self, usage: StepUsage, outages: list[Outage]) -> tuple[Reading, ...]:
        zeros = {name for each in outages if each.kind is OutageKind.ZEROS for name in each.nodes or usage.nodes}
        missing = {name for each in outages if each.kind is not OutageKind.ZEROS for name in each.nodes}
        factor = np.array([0.0 if name in zeros else 1.0 for name in usage.nodes])
        seen = usage.present & np.array([name not in missing for name in usage.nodes], dtype=np.bool_)
        return tuple(
            reading
            for index in range(len(RESOURCES))
            for reading in (self._of_nodes(usage, index, seen, factor), self._of_pods(usage, index, seen, factor))
        )

    def _of_nodes(self, usage: StepUsage, index: int, seen: Bools, factor: Floats) -> Reading:
        rows = np.arange(len(seen), dtype=np.uint64)
        kept = np.flatnonzero(seen & ~self._dropped(rows, self.pipeline.loss))
        values = usage.used[index, kept] * factor[kept] * self._noise(rows, index)[kept]
        names = tuple(usage.nodes[row] for row in kept.tolist())
        return Reading(SOURCE, RESOURCES[index], names, tuple(values.tolist()), (usage.at,) * len(names))

    def _of_pods(self, usage: StepUsage, index: int, seen: Bools, factor: Floats) -> Reading:
        rows, seeds = usage.pod_rows, usage.pod_seeds
        kept = np.flatnonzero(seen[rows] & ~self._dropped(seeds, self.pipeline.gaps))
        values = usage.pod_used[index, kept] * factor[rows[kept]] * self._noise(seeds, index)[kept]
        names = usage.pod_keys if len(kept) == len(rows) else tuple(usage.pod_keys[at] for at in kept.tolist())
        return Reading(SOURCE, RESOURCES[index], names, tuple(values.tolist()), (usage.at,) * len(names), Subject.PODS)

    def _dropped(self, seeds: Keys, share: float) -> Bools:
        if not share:
            return np.zeros(len(seeds), dtype=np.bool_)
        return np.asarray(self._draw(seeds, "dropped") < share)

    def _noise(self, seeds: Keys, index: int) -> Floats:
        if not self.pipeline.noise:
            return np.ones(len(seeds))
        return 1 + self.pipeline.noise * (2 * self._draw(seeds, f"noise {index}") - 1)

    def _draw(self, seeds: Keys, purpose: str) -> Floats:
        """By node or pod, whoever else is scraped."""
        key = np.uint64(key_of(self.world.seed, purpose, self._scrapes))
        return uniforms(seeds ^ key, np.ones(1, dtype=np.int64))
