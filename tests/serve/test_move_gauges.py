"""Gauges that alerts about stuck moves and the ledger are based on."""

from __future__ import annotations

from tests.core.rescheduling.move_records import done
from tests.serve.small_cluster import SmallCluster
from tests.serve.test_metrics import page_of
from trimtab.core.model.events import LedgerRead, Tick
from trimtab.core.model.ledger import MoveState
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.serve.metrics import PrometheusRecorder


async def test_the_oldest_move_of_each_state_under_way() -> None:
    """Moves that have ended do not count, however old they are; a state without moves has 0, so that panels have no gaps."""
    cluster = SmallCluster(PrometheusRecorder(), rescheduling=ReschedulingSettings())
    moves = [done("a", at=120.0, state=MoveState.LEAVING), done("b", at=50.0, state=MoveState.LEAVING), done("c")]
    cluster.engine.controller(Rescheduling).execution.records.update({each.uid: each for each in moves})
    cluster.engine.handle(Tick(200.0))
    page = await page_of(PrometheusRecorder(), cluster)
    ages = {
        state: page.value("trimtab_oldest_move_age_seconds", state=state) for state in ("leaving", "placed", "done")
    }
    assert {"leaving": 150.0, "placed": 0.0, "done": None} == ages
    numbers = {state: page.value("trimtab_moves_under_way", state=state) for state in ages}
    assert {"leaving": 2.0, "placed": 0.0, "done": None} == numbers


async def test_a_ledger_that_cannot_be_read() -> None:
    """Only where moves are carried out: whoever observes needs none, and has none to read."""
    observer = SmallCluster(PrometheusRecorder(), rescheduling=ReschedulingSettings())
    observer.engine.handle(Tick(200.0))
    assert 0 == (await page_of(PrometheusRecorder(), observer)).value("trimtab_ledger_unreadable")
    mover = SmallCluster(PrometheusRecorder(), rescheduling=ReschedulingSettings(mode=Mode.AUTO))
    mover.engine.handle(Tick(200.0))
    mover.engine.handle(LedgerRead(None, 201.0, problem="403"))
    assert 1 == (await page_of(PrometheusRecorder(), mover)).value("trimtab_ledger_unreadable")
    assert "403" == mover.engine.controller(Rescheduling).execution.ledger_problem
