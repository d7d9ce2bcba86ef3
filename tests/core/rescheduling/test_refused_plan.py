"""A plan that a guard of the cluster refuses has no moves, and says why."""

from __future__ import annotations

from tests.core.engine_harness import EngineHarness, node
from trimtab.core.controllers import Output
from trimtab.core.model.events import KindForbidden, Tick
from trimtab.core.model.plan import Plan, Refusal
from trimtab.core.rescheduling.settings import GUARDED_KINDS, ReschedulingSettings


def scene() -> EngineHarness:
    found = EngineHarness(rescheduling=ReschedulingSettings())
    found.upsert(node("a"))
    return found


def plans(found: EngineHarness, seconds: float) -> list[Output]:
    """What the engine says to a tick so much later."""
    found.at += seconds
    return list(found.engine.handle(Tick(found.at)))


def test_without_metrics_no_move_is_planned() -> None:
    """The refusal is the plan, at once; the next one is due after the interval."""
    found = scene()
    why = Refusal("cluster", "missing metrics", "1 of 1 nodes have no usable metrics of cpu")
    assert [Plan(10.0, refusals=(why,))] == plans(found, 10.0)
    assert [] == plans(found, 299.0)
    assert [Plan(310.0, refusals=(why,))] == plans(found, 1.0)


def test_without_budgets_no_move_is_planned() -> None:
    """Guards hear of kinds that may not be listed, while pods that do not need them are scheduled."""
    found = scene()
    found.handle(KindForbidden("poddisruptionbudgets", "not allowed", 0.0))
    why = Refusal("cluster", "unreadable kinds", "poddisruptionbudgets cannot be listed: not allowed")
    assert [Plan(10.0, refusals=(why,))] == plans(found, 10.0)


def test_what_guards_read_is_listed_first() -> None:
    """A budget that was not listed yet could not refuse anything."""
    assert set(GUARDED_KINDS) <= set(scene().engine.state.settings.kinds)
