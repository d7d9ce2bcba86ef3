"""Strategies whose moves keep missing ask for more, and pause themselves; too few grades change nothing."""

from __future__ import annotations

import pytest

from tests.core.engine_harness import OURS
from tests.core.rescheduling.move_records import STRATEGY, graded
from tests.core.rescheduling.test_explain import BUSY
from tests.core.rescheduling.test_planner import PROFILE, measured
from trimtab.core.model.duration import DAY, HOUR
from trimtab.core.model.ledger import MoveRecord
from trimtab.core.model.plan import Plan
from trimtab.core.model.resources import CPU
from trimtab.core.model.steps import finish
from trimtab.core.rescheduling.explain import NodeOutlook, explain_steps
from trimtab.core.rescheduling.guards import GuardContext
from trimtab.core.rescheduling.planner import Planner
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import MUST_GO, Suggestion
from trimtab.core.rescheduling.strategy_record import GOOD_STANDING, standing

NOW = 1500.0


def moves(helped: int, of: int = 10) -> tuple[MoveRecord, ...]:
    return graded(*(number < helped for number in range(of)))


@pytest.mark.parametrize(
    ("helped", "margin", "is_paused"),
    [(10, 1.0, False), (5, 1.0, False), (4, 2.0, False), (3, 2.0, False), (2, 2.0, True)],
)
def test_thresholds(helped: int, margin: float, is_paused: bool) -> None:
    """Fewer than half that helped double the required gain, and fewer than a quarter pause the strategy."""
    found = standing(moves(helped), STRATEGY, NOW)
    assert (margin, is_paused, 10, helped) == (found.margin, bool(found.paused), found.graded, found.helped)


def test_too_few_grades_change_nothing() -> None:
    """Ten grades are needed to judge a strategy."""
    assert (1.0, "") == standing(moves(0, of=9), STRATEGY, NOW)[:2]
    assert (1.0, "") == standing((), STRATEGY, NOW)[:2]


def test_the_reason() -> None:
    """It says how many moves helped, and when the pause ends."""
    found = standing(moves(1), STRATEGY, 6 * HOUR)
    assert (
        "ResourceOptimization is paused for another 18.0 h: only 1 of its last 10 graded moves helped" == found.paused
    )


def test_a_pause_ends_after_a_day_and_the_margin_stays() -> None:
    """Counted from the last of the moves that missed."""
    assert standing(moves(0), STRATEGY, DAY - 1).paused
    assert (2.0, "") == standing(moves(0), STRATEGY, DAY)[:2]


def test_recovery() -> None:
    """Only the last ten count, so moves that help end the pause and then the higher margin."""
    missed = graded(*[False] * 10, last_ended=-100.0)
    three, five = (graded(*[True] * number, last_ended=0.0) for number in (3, 5))
    assert (2.0, "") == standing((*missed, *three), STRATEGY, NOW)[:2]
    assert (1.0, "") == standing((*missed, *five), STRATEGY, NOW)[:2]


def test_only_its_own_moves_that_were_to_relieve() -> None:
    """Moves of others do not count, nor those that were made for another reason than load."""
    assert GOOD_STANDING == standing(graded(*[False] * 10, strategy="LoadBalancing"), STRATEGY, NOW)
    assert GOOD_STANDING == standing(graded(*[False] * 10, gain=-5.0), STRATEGY, NOW)


def test_the_last_grade_of_a_move_counts() -> None:
    """What helped for half an hour may not have helped for six."""
    both = [(each, *graded(False)) for each in moves(10)]
    changed = tuple(
        MoveRecord(**{f: getattr(each, f) for f in each.__struct_fields__} | {"grades": (*each.grades, *bad.grades)})
        for each, bad in both
    )
    assert standing(changed, STRATEGY, NOW).paused


def context(records: tuple[MoveRecord, ...], cost: float = 16.0) -> GuardContext:
    settings = ReschedulingSettings(limits={CPU: 0.8}, allow_last_replica=True, required_gain=cost)
    return GuardContext(measured(*BUSY), settings, NOW, records=records)


def planned(records: tuple[MoveRecord, ...], cost: float = 16.0) -> Plan:
    planner = Planner(context(records, cost), {OURS: PROFILE}.get)
    for _ in planner.steps():
        pass
    assert planner.plan is not None
    return planner.plan


def test_a_paused_strategy_plans_nothing() -> None:
    """The plan has a refusal with the reason; with good moves the same node is relieved."""
    assert planned(moves(10)).moves
    found = planned(moves(2))
    assert () == found.moves
    (refusal,) = found.refusals
    assert ("a", "strategy record") == (refusal.subject, refusal.guard) and "is paused" in refusal.reason


def test_a_raised_margin() -> None:
    """Twice the usual gain is asked for."""
    (usual,), (raised,) = (planned(records).moves for records in (moves(5), moves(4)))
    assert 2 * usual.cost == raised.cost
    between = 0.75 * usual.gain
    assert planned(moves(5), between).moves and not planned(moves(4), between).moves


def test_what_must_go_goes() -> None:
    """Maintenance does not wait because earlier moves did not relieve anything."""
    found = context(moves(0))
    assert found.standing(Suggestion(STRATEGY, "a", "")).paused
    assert GOOD_STANDING == found.standing(Suggestion(STRATEGY, "a", "", worth=MUST_GO))


def explained(helped: int) -> NodeOutlook:
    return finish(explain_steps(context(moves(helped)), {OURS: PROFILE}.get, "a"))


def test_explained() -> None:
    """The verdict on a node whose strategies are paused; and the higher cost."""
    found = explained(0)
    assert found.verdict.startswith("no pod leaves it: strategy record: ResourceOptimization is paused for another ")
    assert {32.0} == {each.cost for each in explained(4).pods}
