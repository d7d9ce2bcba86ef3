"""The last decisions in a ring of bounded size, for explanations."""

from __future__ import annotations

from collections import deque

from trimtab.core.model.schedule_result import Decision

CAPACITY = 10_000


class Decisions:
    """A ring with the newest at the end."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.ring: deque[Decision] = deque(maxlen=capacity)

    def add(self, decision: Decision) -> None:
        self.ring.append(decision)

    def of(self, uid: str) -> list[Decision]:
        return [decision for decision in self.ring if decision.uid == uid]

    def copy(self) -> Decisions:
        copied = Decisions()
        copied.ring = self.ring.copy()
        return copied
