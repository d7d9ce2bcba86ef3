"""What earlier moves forbid, and which of them nobody needs any more."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW
from tests.core.rescheduling.move_stage import Store, charged_record, settings
from trimtab.core.model.events import LedgerRead
from trimtab.core.model.instructions import WriteLedger
from trimtab.core.model.ledger import Ledger, MoveRecord, MoveState
from trimtab.core.rescheduling.ledger_keeper import MAX_BYTES, MIN_KEPT, LedgerKeeper
from trimtab.core.rescheduling.move_budgets import SEND_WITHIN, Budget, Scope, holds, needed, spent_budget

WANTED = charged_record("web-x", NOW)
HOUR = 3600.0


def record(name: str, ago: float, state: MoveState = MoveState.DONE, **more: Any) -> MoveRecord:
    return charged_record(name, NOW - ago, state, **more)


@pytest.mark.parametrize(
    ("scope", "other"),
    [
        (Scope.NODE, {"source": "cold"}),
        (Scope.NAMESPACE, {"namespace": "shop"}),
        (Scope.WORKLOAD, {"workload": "ReplicaSet db"}),
        (Scope.ZONE, {"zone": "b"}),
        (Scope.CLUSTER, None),
    ],
)
def test_a_budget_counts_its_scope(scope: Scope, other: dict[str, str] | None) -> None:
    """Moves of another node, namespace, workload or zone do not count; all count for the cluster."""
    wanted = replace(WANTED, zone="a")
    same = replace(record("web-y", 60.0), zone="a")
    budgets = {scope: Budget(1, HOUR)}
    assert "is spent: 1 moves within 1h" in spent_budget(budgets, [same], wanted)
    assert other is None or "" == spent_budget(budgets, [replace(same, **other)], wanted)


def test_nodes_without_a_zone_share_no_budget() -> None:
    """A missing label is not one zone."""
    assert "" == spent_budget({Scope.ZONE: Budget(1, HOUR)}, [record("web-y", 60.0)], WANTED)


@pytest.mark.parametrize("state", list(MoveState))
def test_what_certainly_did_not_move_is_free(state: MoveState) -> None:
    """All others count, also those of unknown outcome."""
    spent = spent_budget({Scope.CLUSTER: Budget(1, HOUR)}, [record("web-y", 60.0, state)], WANTED)
    assert (state in (MoveState.REFUSED, MoveState.CANCELLED)) == (spent == "")


def test_the_window_slides() -> None:
    """By the latest moment at which the eviction can have been sent."""
    budgets = {Scope.CLUSTER: Budget(1, HOUR)}
    assert spent_budget(budgets, [record("web-y", HOUR + SEND_WITHIN - 1)], WANTED)
    assert "" == spent_budget(budgets, [record("web-y", HOUR + SEND_WITHIN)], WANTED)
    assert spent_budget(budgets, [record("web-y", -50.0)], WANTED)  # a clock that was ahead


def test_holds() -> None:
    """After each failure in a row twice as long, up to 64 times; success ends the row, and cancelled moves never were."""
    failed = [record("web-y", 1000.0 - number, MoveState.FAILED) for number in range(8)]
    slot = WANTED.slot
    assert {slot: NOW - 900.0 + 100.0} == holds([record("web-y", 900.0)], 100.0)
    for count, times in ((1, 2), (2, 4), (8, 64)):
        assert {slot: failed[count - 1].at + times * 100.0} == holds(failed[:count], 100.0)
    assert {slot: NOW - 500.0 + 200.0} == holds(
        [record("web-y", 900.0), record("web-y", 500.0, MoveState.REFUSED)], 100.0
    )
    assert {} == holds([record("web-y", 1.0, MoveState.CANCELLED)], 100.0)


def test_what_is_needed() -> None:
    """Moves under way, those that a budget counts, and those that hold their owner."""
    budgets = {Scope.CLUSTER: Budget(9, HOUR)}
    rows = [
        (record("a-x", 9 * HOUR, MoveState.UNDOING), True),
        (record("b-x", HOUR, MoveState.DONE), True),
        (record("c-x", 2 * HOUR, MoveState.DONE), False),
        (record("d-x", 2 * HOUR, MoveState.FAILED), True),
        (record("e-x", 9 * HOUR, MoveState.FAILED), False),
        (record("f-x", HOUR, MoveState.CANCELLED), False),
    ]
    assert [is_needed for _, is_needed in rows] == needed([each for each, _ in rows], budgets, 1.5 * HOUR, NOW)


def written(*records: MoveRecord) -> tuple[LedgerKeeper, Ledger]:
    """What a new leader writes when it has read these."""
    keeper = LedgerKeeper()
    keeper.lead(2)
    assert keeper.read(LedgerRead(Store(*records).ledger, NOW, "1"))
    found = settings(budgets={Scope.CLUSTER: Budget(9, HOUR)}).rescheduling
    assert found is not None
    (write,) = keeper.write(NOW, found)
    assert isinstance(write, WriteLedger)
    return keeper, write.ledger


def test_old_records_go_first() -> None:
    """After a day, but never so many that the history is empty, and none that somebody needs."""
    days = [record(f"a{number}-x", 2 * 86_400.0 + number) for number in range(300)]
    kept = record("b-x", 3 * 86_400.0, MoveState.UNDOING)
    _, ledger = written(*days, kept)
    assert MIN_KEPT == len(ledger.records)
    assert "b-x" == ledger.records[0].pod and "a0-x" == ledger.records[-1].pod


def test_the_ledger_stays_small() -> None:
    """Records of today go as well if it grows too large; if all are needed, nothing more is moved."""
    long = "w" * 250
    keeper, ledger = written(*(record(f"{long}{number}-x", 2 * HOUR + number, reason=long) for number in range(1500)))
    assert MIN_KEPT < len(ledger.records) < 1500
    assert "" == keeper.why_stopped(NOW + 3600) or keeper.problem
    keeper, ledger = written(*(record(f"{long}{number}-x", float(number), reason=long) for number in range(1500)))
    assert 1500 == len(ledger.records)
    keeper.problem = ""
    assert "the ledger of moves is full" in keeper.why_stopped(NOW + 60)
    assert MAX_BYTES < 1 << 20
