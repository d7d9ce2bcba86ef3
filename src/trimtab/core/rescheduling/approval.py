"""The plan that waits for approval, beside the ledger, where people see it and approve it by its ID.

planned ─▶ waiting ──approved, not too old──▶ withdrawn from the ledger ─▶ carried out
              ├──a newer plan──▶ waiting, in its place
              └──too old, or a newer plan without moves──▶ withdrawn
"""

from __future__ import annotations

from math import inf

from trimtab.core.model.events import LedgerRead
from trimtab.core.model.ledger import PublishedPlan, publish
from trimtab.core.model.plan import Plan

LOOK_INTERVAL, APPROVAL_TTL = 5.0, 600.0


class Approval:
    """`waiting` is written with the ledger, each time."""

    def __init__(self) -> None:
        self.waiting: PublishedPlan | None = None
        self._next_look = -inf

    def publish(self, plan: Plan, now: float) -> None:
        self.waiting, self._next_look = publish(plan) if plan.moves else None, now + LOOK_INTERVAL

    def expire(self, now: float) -> bool:
        """Whether the plan has waited too long, and is withdrawn."""
        if self.waiting is None or now - self.waiting.at <= APPROVAL_TTL:
            return False
        self.waiting = None
        return True

    def look_is_due(self, now: float) -> bool:
        """Whether the ledger is to be read now, because the plan might have been approved."""
        if self.waiting is None or now < self._next_look:
            return False
        self._next_look = now + LOOK_INTERVAL
        return True

    def take(self, event: LedgerRead) -> Plan | None:
        """The plan, if that is the approved one; the next write of the ledger removes it with its approval."""
        plan = self.waiting
        if plan is None or event.approved != plan.id or self.expire(event.at):
            return None
        self.waiting = None
        return Plan(plan.at, plan.moves)
