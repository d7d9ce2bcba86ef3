"""Decides what time it is: for the engine, whose time only passes, and for everybody else, whose wall clock may be set.

    the engine's clock   counts what passes, also while the machine sleeps; it begins with the wall's time and never jumps
    the wall             what samples, Events and leases are stamped by; NTP or a person may set it at any moment

Backoffs, patience and ages are differences on the first one. What others have stamped by the wall is put on it at the door
(`settled`), by how far the wall is ahead now: so a sample is as old after a step as it was before it. The core, and a journal
of what it was told, know of one clock only. What people are shown is put back (`on_the_wall`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from msgspec.structs import replace

from trimtab.core.model.event import Event, HistoryRead, ObjectSeen, PodSeen, RereadDone, SamplesRead
from trimtab.core.model.objects import PodGroup
from trimtab.core.model.sample import Reading
from trimtab.kube.lease import passing_time

log = logging.getLogger(__name__)

DRIFT = 0.1  # seconds that make no difference to any age
STEP = 1.0  # seconds that no clock drifts between two looks
OF_SAMPLES = (SamplesRead, HistoryRead)


class Clock:
    """Called, it is the engine's; `ahead` is how far the wall was ahead of it when it was last looked at."""

    def __init__(self, wall: Callable[[], float] = time.time, passing: Callable[[], float] = passing_time) -> None:
        self.wall = wall
        self.ahead = 0.0
        self._passing = passing
        self._began = wall() - passing()

    def __call__(self) -> float:
        return self._began + self._passing()

    def look(self) -> None:
        """Follow the wall; a step is told, once. Whoever was held up between the two clocks looks again next time."""
        before = self()
        ahead = self.wall() - before
        moved = ahead - self.ahead
        if abs(moved) < DRIFT or self() - before >= DRIFT:
            return
        self.ahead = ahead if abs(ahead) >= DRIFT else 0.0
        if abs(moved) >= STEP:
            log.warning("the wall clock was set: moved=%+.1fs", moved)

    def settled(self, event: Event) -> Event:
        """The same with all times on the engine's clock."""
        if isinstance(event, OF_SAMPLES):
            self.look()
        if not self.ahead:
            return event
        match event:
            case PodSeen(pod=pod) | RereadDone(pod=pod) if pod is not None and pod.started is not None:
                return replace(event, pod=replace(pod, started=pod.started - self.ahead))
            case ObjectSeen(object=PodGroup(created=created) as group) if created:
                return replace(event, object=replace(group, created=created - self.ahead))
            case SamplesRead(readings=readings) | HistoryRead(readings=readings):
                return replace(event, readings=tuple(map(self._measured, readings)))
        return event

    def on_the_wall(self, at: float) -> float:
        """A moment of the engine's as people read it."""
        return at + self.ahead

    def _measured(self, reading: Reading) -> Reading:
        later = (-self.ahead).__add__  # a hundred thousand times in a look
        return replace(reading, measured=tuple(map(later, reading.measured)))
