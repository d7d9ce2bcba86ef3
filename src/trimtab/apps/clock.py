"""The engine's monotonic clock, and conversion from and to the wall clock.

    engine clock   starts at the wall time, counts also while the machine sleeps, and never jumps
    wall clock     the timestamps of samples, Events and leases; NTP or a person may set it at any time

Back-offs, timeouts and ages are differences of engine times. Timestamps of others are converted when an event is dispatched
(`to_engine_time`), by the current offset, so a sample has the same age before and after a step of the wall clock. The core
and recordings know the engine clock only. Times for people are converted back (`to_wall_time`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from msgspec.structs import replace

from trimtab.core.model.events import (
    Event,
    GetPodDone,
    HistoryRead,
    LedgerRead,
    ObjectUpserted,
    PodUpserted,
    SamplesRead,
)
from trimtab.core.model.instructions import Instruction, WriteLedger
from trimtab.core.model.ledger import Ledger, PublishedPlan
from trimtab.core.model.objects import PodGroup
from trimtab.core.model.readings import Reading
from trimtab.kube.lease import boot_time

log = logging.getLogger(__name__)

DRIFT = 0.1  # seconds of offset that are ignored
STEP = 1.0  # seconds; more than a clock drifts between two resyncs, so it is logged
SAMPLE_EVENTS = (SamplesRead, HistoryRead)


class Clock:
    """Calling it gives the engine time; `wall_offset` is how far the wall clock was ahead at the last resync."""

    def __init__(self, wall: Callable[[], float] = time.time, boot_time: Callable[[], float] = boot_time) -> None:
        self.wall = wall
        self.wall_offset = 0.0
        self._boot_time = boot_time
        self._epoch = wall() - boot_time()

    def __call__(self) -> float:
        return self._epoch + self._boot_time()

    def resync(self) -> None:
        """Update the offset and log a step. Skipped if the two clock reads were too far apart."""
        before = self()
        ahead = self.wall() - before
        moved = ahead - self.wall_offset
        if abs(moved) < DRIFT or self() - before >= DRIFT:
            return
        self.wall_offset = ahead if abs(ahead) >= DRIFT else 0.0
        if abs(moved) >= STEP:
            log.warning("wall clock stepped: seconds=%.1f", moved)

    def to_engine_time(self, event: Event) -> Event:
        """The event with all its timestamps in engine time."""
        if isinstance(event, SAMPLE_EVENTS):
            self.resync()
        if not self.wall_offset:
            return event
        match event:
            case PodUpserted(pod=pod) | GetPodDone(pod=pod) if pod is not None and pod.started is not None:
                return replace(event, pod=replace(pod, started=pod.started - self.wall_offset))
            case ObjectUpserted(object=PodGroup(created=created) as group) if created:
                return replace(event, object=replace(group, created=created - self.wall_offset))
            case LedgerRead(ledger=Ledger() as ledger, plan=plan):
                return replace(event, ledger=ledger.shifted(-self.wall_offset), plan=_shift(plan, -self.wall_offset))
            case SamplesRead(readings=readings) | HistoryRead(readings=readings):
                return replace(event, readings=tuple(map(self._shift_reading, readings)))
        return event

    def to_wall_clock(self, instruction: Instruction) -> Instruction:
        """The instruction with all times that it writes in wall time."""
        if isinstance(instruction, WriteLedger) and self.wall_offset:
            ledger, plan = instruction.ledger.shifted(self.wall_offset), _shift(instruction.plan, self.wall_offset)
            return replace(instruction, ledger=ledger, plan=plan)
        return instruction

    def to_wall_time(self, at: float) -> float:
        """An engine time as a wall time."""
        return at + self.wall_offset

    def _shift_reading(self, reading: Reading) -> Reading:
        shift = (-self.wall_offset).__add__  # called a hundred thousand times per poll
        return replace(reading, measured=tuple(map(shift, reading.measured)))


def _shift(plan: PublishedPlan | None, seconds: float) -> PublishedPlan | None:
    return replace(plan, at=plan.at + seconds) if plan is not None else None
