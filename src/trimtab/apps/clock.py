"""Decides what time it is: for the engine, whose time only passes, and for everybody else, whose wall clock may be set.

    the engine's clock   counts what passes, also while the machine sleeps; it begins with the wall's time and never jumps
    the wall             what samples, Events and leases are stamped by; NTP or a person may set it at any moment

Backoffs, patience and ages are differences on the first one. What others have stamped by the wall is put on it at the door
(`settled`), by how far the wall is ahead now: so a sample is as old after a step as it was before it. The core, and a journal
of what it was told, know of one clock only. What people are shown is put back (`to_wall_time`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from msgspec.structs import replace

from trimtab.core.model.events import Event, GetPodDone, HistoryRead, ObjectUpserted, PodUpserted, SamplesRead
from trimtab.core.model.objects import PodGroup
from trimtab.core.model.readings import Reading
from trimtab.kube.lease import boot_time

log = logging.getLogger(__name__)

DRIFT = 0.1  # seconds that make no difference to any age
STEP = 1.0  # seconds that no clock drifts between two looks
SAMPLE_EVENTS = (SamplesRead, HistoryRead)


class Clock:
    """Called, it is the engine's; `ahead` is how far the wall was ahead of it when it was last looked at."""

    def __init__(self, wall: Callable[[], float] = time.time, boot_time: Callable[[], float] = boot_time) -> None:
        self.wall = wall
        self.wall_offset = 0.0
        self._boot_time = boot_time
        self._epoch = wall() - boot_time()

    def __call__(self) -> float:
        return self._epoch + self._boot_time()

    def resync(self) -> None:
        """Follow the wall; a step is told, once. Whoever was held up between the two clocks looks again next time."""
        before = self()
        ahead = self.wall() - before
        moved = ahead - self.wall_offset
        if abs(moved) < DRIFT or self() - before >= DRIFT:
            return
        self.wall_offset = ahead if abs(ahead) >= DRIFT else 0.0
        if abs(moved) >= STEP:
            log.warning("the wall clock was set: moved=%+.1fs", moved)

    def to_engine_time(self, event: Event) -> Event:
        """The same with all times on the engine's clock."""
        if isinstance(event, SAMPLE_EVENTS):
            self.resync()
        if not self.wall_offset:
            return event
        match event:
            case PodUpserted(pod=pod) | GetPodDone(pod=pod) if pod is not None and pod.started is not None:
                return replace(event, pod=replace(pod, started=pod.started - self.wall_offset))
            case ObjectUpserted(object=PodGroup(created=created) as group) if created:
                return replace(event, object=replace(group, created=created - self.wall_offset))
            case SamplesRead(readings=readings) | HistoryRead(readings=readings):
                return replace(event, readings=tuple(map(self._shift_reading, readings)))
        return event

    def to_wall_time(self, at: float) -> float:
        """A moment of the engine's as people read it."""
        return at + self.wall_offset

    def _shift_reading(self, reading: Reading) -> Reading:
        later = (-self.wall_offset).__add__  # a hundred thousand times in a look
        return replace(reading, measured=tuple(map(later, reading.measured)))
