"""/metrics shows plans, moves and grades, also by the names of the rescheduler that Trimtab replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.rescheduling.move_records import STRATEGY, done, graded
from tests.serve.exposition import Exposition
from tests.serve.small_cluster import SmallCluster
from tests.serve.test_metrics import page_of
from trimtab.core.model.events import PauseChanged, Tick
from trimtab.core.model.ledger import Grade, MoveRecord, MoveState
from trimtab.core.model.plan import Move, Plan, Refusal
from trimtab.core.rescheduling import execution
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.move_budgets import Budget, Scope
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.serve.metrics import PrometheusRecorder
from trimtab.serve.move_metrics import REASONS


async def page_after(*records: MoveRecord, plan: Plan | None = None, grade: Grade | None = None) -> Exposition:
    recorder = PrometheusRecorder()
    if plan is not None:
        recorder.planned(plan)
    for record in records:
        recorder.move_changed(record)
    if grade is not None:
        recorder.move_graded(records[-1], grade)
    return await page_of(recorder, SmallCluster(PrometheusRecorder()))


async def test_plans() -> None:
    """Moves by strategy, and refusals by guard."""
    move = Move("u", "default/web", "a", "b", STRATEGY, "cpu", 80.0, 32.0)
    page = await page_after(plan=Plan(0.0, (move,), (Refusal("default/db", "minimum age", "too young"),)))
    assert (1, 1) == (
        page.value("trimtab_plans_total"),
        page.value("trimtab_moves_planned_total", strategy=STRATEGY),
    )
    assert 1 == page.value("trimtab_move_refusals_total", guard="minimum age")


async def test_an_engine_tells_of_its_plans() -> None:
    """Also of one that was refused as a whole."""
    recorder = PrometheusRecorder()
    cluster = SmallCluster(recorder, rescheduling=ReschedulingSettings())
    cluster.engine.handle(Tick(200.0))
    page = await page_of(recorder, cluster)
    assert (1, 1) == (
        page.value("trimtab_plans_total"),
        page.value("trimtab_move_refusals_total", guard="missing metrics"),
    )


async def test_a_move_with_eviction() -> None:
    """Charged, evicted and done, with the seconds in which its workload lacked a pod."""
    states = (MoveState.CHARGED, MoveState.EVICTED, MoveState.PLACED, MoveState.DONE)
    page = await page_after(*(done(state=state, unready=4.0) for state in states))
    for state in ("charged", "done"):
        assert 1 == page.value("trimtab_moves_total", strategy=STRATEGY, state=state, reason="")
    assert page.value("trimtab_moves_total", strategy=STRATEGY, state="placed", reason="") is None
    assert (1, 1) == (
        page.value("trimtab_evictions_total", strategy=STRATEGY),
        page.value("rescheduler_pod_evictions_total"),
    )
    assert 4.0 == page.value("trimtab_move_unready_seconds_sum")
    assert 1 == page.value("rescheduler_events_total", event_type="Normal", reason="Done")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("its replacement came back to the node", "came back"),
        ("the ledger of moves was not written: 409 conflict", "ledger"),
        ("admission webhook x denied the request", "other"),
    ],
)
async def test_a_move_that_failed(message: str, reason: str) -> None:
    """The reason is one of a few words, never free text."""
    page = await page_after(done(state=MoveState.FAILED, message=message))
    assert 1 == page.value("trimtab_moves_total", strategy=STRATEGY, state="failed", reason=reason)
    assert 1 == page.value("rescheduler_events_total", event_type="Warning", reason="Failed")


def test_reasons_are_messages_of_the_execution() -> None:
    """A message that is worded anew must be worded anew here."""
    source = "".join(each.read_text() for each in Path(execution.__file__).parent.glob("*.py"))
    assert [] == [message for message in REASONS if f'"{message}"' not in source]


async def test_remedies() -> None:
    """By rung; one that was not used has a series, too, so that the first time shows."""
    recorder = PrometheusRecorder()
    recorder.remedy_used("move", 3)
    page = await page_of(recorder, SmallCluster(PrometheusRecorder()))
    assert (3, 0) == tuple(page.value("trimtab_remedies_total", rung=rung) for rung in ("move", "capacity"))


async def test_grades() -> None:
    """Whether it helped, and by how many points utilisation missed the promise, by node."""
    page = await page_after(done(), grade=Grade(1800.0, 1.0, 0.5, -0.04, None))
    assert 1 == page.value("trimtab_moves_graded_total", strategy=STRATEGY, helped="true")
    assert pytest.approx(4.0) == page.value("trimtab_plan_error_percent_points_sum", node="source")
    assert page.value("trimtab_plan_error_percent_points_sum", node="target") is None


async def test_gauges_of_the_ledger() -> None:
    """Moves under way, what budgets have left, standings, relief and the kill switch."""
    settings = ReschedulingSettings(
        mode=Mode.AUTO, budgets={Scope.CLUSTER: Budget(20, 3600.0), Scope.NODE: Budget(12, 3600.0)}
    )
    cluster = SmallCluster(PrometheusRecorder(), rescheduling=settings)
    cluster.engine.handle(PauseChanged("incident 17", 150.0))
    moves = (
        *graded(*[False] * 10, at=100.0, last_ended=120.0),
        done("last", source="z", at=110.0, state=MoveState.EVICTED),
    )
    cluster.engine.controller(Rescheduling).remedies.without_relief = {"one": 2, "two": 3}
    cluster.engine.handle(Tick(200.0))
    cluster.engine.controller(Rescheduling).execution.records.update({each.uid: each for each in moves})
    page = await page_of(PrometheusRecorder(), cluster)
    assert 1 == page.value("trimtab_moves_under_way", state="evicted")
    assert (1, 1) == (page.value("trimtab_moves_paused"), page.value("trimtab_nodes_without_relief"))
    assert (9, 2) == tuple(page.value("trimtab_move_budget_left", scope=scope) for scope in ("cluster", "node"))
    assert (1, 2) == (
        page.value("trimtab_strategy_paused", strategy=STRATEGY),
        page.value("trimtab_strategy_margin", strategy=STRATEGY),
    )
    assert (1.0, -0.5) == tuple(
        page.value("trimtab_move_relief", strategy=STRATEGY, kind=kind) for kind in ("promised", "measured")
    )
    assert (1, 0) == tuple(page.value("trimtab_rescheduling_mode", mode=mode) for mode in ("auto", "observe"))


async def test_every_metric_of_moves_is_documented() -> None:
    """In the table of docs/metrics.md."""
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    words = ("move", "plan_", "plans", "rescheduler", "remed", "relief")
    names = [name for name in (await page_after()).families if any(word in name for word in words)]
    assert len(names) > 10 and [] == [name for name in names if f"`{name}`" not in text]
