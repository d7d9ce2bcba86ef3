"""Counters and histograms of the rescheduler: what was planned and refused, how moves ended, and what they were worth.

Names under `rescheduler_` are those of the rescheduler that Trimtab replaces. No label has free text: why a move ended is one
of a few words, and the log has the whole sentence.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from trimtab.core.model.ledger import Grade, MoveRecord, MoveState
from trimtab.core.model.plan import Plan
from trimtab.core.rescheduling.remedies import Rung
from trimtab.serve.counters import Counter, Histogram

REASONS = {  # by the message of the record
    "its replacement came back to the node": "came back",
    "nobody replaced it in time": "not replaced",
    "it did not terminate in time": "not terminated",
    "its replacement got no node in time": "no node",
    "its replacement was not ready in time": "not ready",
    "its outcome is not known": "unknown",
    "another pod left": "another pod left",
    "it is gone": "gone",
}
LEDGER = "the ledger of moves"  # how its problems begin
OTHER = "other"  # a guard's, or the API server's
COUNTED = frozenset({MoveState.CHARGED, MoveState.DONE, MoveState.FAILED, MoveState.REFUSED, MoveState.CANCELLED})
GONE_WRONG = frozenset({MoveState.FAILED, MoveState.REFUSED, MoveState.CANCELLED})
LEAVES = frozenset({MoveState.EVICTED, MoveState.LEAVING})
SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
POINTS = (0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 50.0)


class MoveMetrics:
    """All of them, by attribute."""

    def __init__(self) -> None:
        self.plans = Counter("trimtab_plans_total", "Plans of the rescheduler, also those without moves.")
        self.planned_moves = Counter("trimtab_moves_planned_total", "Moves in plans, by strategy.", ("strategy",))
        self.refusals = Counter(
            "trimtab_move_refusals_total", "Pods, nodes or whole plans that a guard refused, by guard.", ("guard",)
        )
        self.moves = Counter(
            "trimtab_moves_total",
            "Moves that were charged, and how they ended, by strategy and, if not done, by reason.",
            ("strategy", "state", "reason"),
        )
        self.evictions = Counter(
            "trimtab_evictions_total", "Pods that left their node for a move, evicted or replaced first.", ("strategy",)
        )
        self.evictions_before = Counter(
            "rescheduler_pod_evictions_total", "Pods that left their node for a move, evicted or replaced first."
        )
        self.events = Counter(
            "rescheduler_events_total",
            "Changes of a move, by its new state; Warning if it went wrong.",
            ("event_type", "reason"),
        )
        self.remedies = Counter(
            "trimtab_remedies_total", "Uses of the remedies for hot nodes, by rung of the ladder.", ("rung",), Rung
        )
        self.unready = Histogram(
            "trimtab_move_unready_seconds", "Time for which a move took a ready pod from its workload.", SECONDS
        )
        self.grades = Counter(
            "trimtab_moves_graded_total", "Grades of moves, by strategy and whether it helped.", ("strategy", "helped")
        )
        self.error = Histogram(
            "trimtab_plan_error_percent_points",
            "How far the utilisation of a move's nodes was from what its plan had promised, by node.",
            POINTS,
            ("node",),
        )

    def families(self) -> Iterator[Metric]:
        return (each.family() for each in vars(self).values())

    def planned(self, plan: Plan) -> None:
        self.plans.add()
        for move in plan.moves:
            self.planned_moves.add(move.strategy)
        for refusal in plan.refusals:
            self.refusals.add(refusal.guard)

    def remedy_used(self, rung: str, count: int) -> None:
        self.remedies.add(rung, by=count)

    def changed(self, record: MoveRecord) -> None:
        wrong = record.state in GONE_WRONG
        self.events.add("Warning" if wrong else "Normal", record.state.value.capitalize())
        if record.state in COUNTED:
            reason = _reason(record.message) if wrong else ""
            self.moves.add(record.strategy, record.state.value, reason)
        if record.state in LEAVES:
            self.evictions.add(record.strategy)
            self.evictions_before.add()
        if record.state is MoveState.DONE:
            self.unready.observe(record.unready)

    def graded(self, record: MoveRecord, grade: Grade) -> None:
        self.grades.add(record.strategy, "true" if grade.helped else "false")
        for node, error in (("source", grade.source_error), ("target", grade.target_error)):
            if error is not None:
                self.error.observe(abs(error) * 100, node)


def _reason(message: str) -> str:
    return "ledger" if message.startswith(LEDGER) else REASONS.get(message, OTHER)
