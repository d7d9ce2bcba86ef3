"""Keeps the last events with checkpoints to replay from; whether to keep any, and where to show them, is left to the shell.

    checkpoint ─ event ─ event ─ … ─ checkpoint ─ event ─ event ─ …        (the oldest checkpoint goes with its events)

A checkpoint is a fork of the engine as it was before the event that follows, so memory is bounded by `limit` events and
`limit / every` forks. Events are the decoded values that the engine was given: nothing is read from outside again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.model.events import Event

LIMIT = 100_000
EVERY = 25_000


class Segment(Struct, frozen=True):
    """A checkpoint and the events after it; `first` numbers the first of them since the journal began."""

    first: int
    engine: Engine
    events: list[Event]


class Journal:
    """Give every event to `record` before the engine handles it."""

    def __init__(self, engine: Engine, limit: int = LIMIT, every: int = EVERY) -> None:
        if not 0 < every <= limit:
            raise ValueError(f"a checkpoint every {every} events is more than the {limit} events that are kept")
        self.engine, self.limit, self.every = engine, limit, every
        self.recorded = 0
        self.segments: deque[Segment] = deque()

    def __len__(self) -> int:
        return sum(len(stretch.events) for stretch in self.segments)

    def record(self, event: Event) -> None:
        if not self.segments or len(self.segments[-1].events) >= self.every:
            self.segments.append(Segment(self.recorded, self.engine.fork(), []))
        self.segments[-1].events.append(event)
        self.recorded += 1
        if len(self) > self.limit:
            self.segments.popleft()

    def checkpoints(self) -> list[int]:
        """Numbers of the events from which replay can start, oldest first."""
        return [stretch.first for stretch in self.segments]

    def replay(self, start: int | None = None) -> Iterator[tuple[Event, list[Output]]]:
        """Each event from a checkpoint on with the instructions that it led to; by default from the oldest."""
        later = [stretch for stretch in self.segments if start is None or stretch.first >= start]
        if start is not None and start not in self.checkpoints():
            raise ValueError(f"no checkpoint at event {start}: there are {self.checkpoints()}")
        twin = later[0].engine.fork() if later else self.engine.fork()
        for stretch in later:
            for event in stretch.events:
                yield event, twin.handle(event)
