"""The last decisions, for people who ask why; a ring, so memory is bounded. The full table of an old one comes by replay."""

from __future__ import annotations

from collections import deque

from trimtab.core.model.schedule_result import Decision

KEPT = 10_000


class Decisions:
    """A ring with the newest at the end."""

    def __init__(self, kept: int = KEPT) -> None:
        self.ring: deque[Decision] = deque(maxlen=kept)
        self.total = 0

    def add(self, decision: Decision) -> None:
        self.ring.append(decision)
        self.total += 1

    def of(self, uid: str) -> list[Decision]:
        return [decision for decision in self.ring if decision.uid == uid]

    def newest(self, count: int) -> list[Decision]:
        """The last so many, oldest first."""
        return [self.ring[place] for place in range(-min(count, len(self.ring)), 0)]

    def copy(self) -> Decisions:
        twin = Decisions()
        twin.ring, twin.total = self.ring.copy(), self.total
        return twin
