"""A controller that gives way takes its turns, one decision each, when the others have decided nothing."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.core.controllers import Controller, EngineState, Output
from trimtab.core.engine import MOST_TURNS_WAITED, Engine
from trimtab.core.model.events import LeaseAcquired, Synced, Turn
from trimtab.core.model.plan import Plan
from trimtab.core.settings import Settings


class Busy(Controller):
    """Decides as often as it is told to."""

    def __init__(self, state: EngineState) -> None:
        self.left = 0

    def turn(self, budget: int, now: float) -> Sequence[Output]:
        self.left -= 1
        return (Plan(now),) if self.left >= 0 else ()


class Patient(Controller):
    """Counts its turns."""

    gives_way = True

    def __init__(self, state: EngineState) -> None:
        self.budgets: list[int] = []

    def turn(self, budget: int, now: float) -> Sequence[Output]:
        self.budgets.append(budget)
        return ()


def engine(busy_for: int) -> Engine:
    found = Engine(Settings(()), controllers=(Busy, Patient))
    found.controller(Busy).left = busy_for
    found.handle(Synced("nodes", 0.0))
    found.handle(LeaseAcquired(1, 0.0))
    return found


def test_it_waits_for_the_others() -> None:
    """And then gets one decision at a time, however many a turn allows."""
    found = engine(busy_for=3)
    for _ in range(5):
        found.handle(Turn(8, 1.0))
    assert [1, 1] == found.controller(Patient).budgets


def test_it_does_not_wait_for_ever() -> None:
    """Though the others never cease to decide."""
    found = engine(busy_for=10**6)
    for _ in range(3 * (MOST_TURNS_WAITED + 1)):
        found.handle(Turn(8, 1.0))
    assert 3 == len(found.controller(Patient).budgets)
