"""The last plans of the rescheduling controller, without the refusals of single pods, which are many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from trimtab.core.model.plan import ALL_PODS, Move, Plan, Refusal

PLANS_KEPT = 12


class PastPlan(Struct, frozen=True):
    """A plan as it was made: its moves, how many pods guards refused, and what refused all of them, if anything did."""

    at: float
    moves: tuple[Move, ...] = ()
    refused: int = 0
    refusal: Refusal | None = None


class PlanHistory:
    """A ring; `now` is the time of the controller's last tick."""

    def __init__(self) -> None:
        self.now = 0.0
        self._plans = deque[PastPlan](maxlen=PLANS_KEPT)

    def copy(self) -> PlanHistory:
        copied = PlanHistory()
        copied.now, copied._plans = self.now, self._plans.copy()
        return copied

    def keep(self, plan: Plan) -> Plan:
        """The plan itself, once it is kept."""
        of_all = next((each for each in plan.refusals if each.subject == ALL_PODS), None)
        self._plans.append(PastPlan(plan.at, plan.moves, len(plan.refusals) - (of_all is not None), of_all))
        return plan

    def __iter__(self) -> Iterator[PastPlan]:
        """The newest first."""
        return reversed(self._plans)
