"""`trimtab history` on a fake API server: the table, totals, budgets and JSON; an unreadable ledger in clear words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.rescheduling.move_records import STRATEGY, done
from tests.kube.fake_transport import FakeTransport, json_response
from trimtab.apps.move_history import (
    History,
    LedgerUnreadable,
    Wanted,
    history_document,
    history_lines,
    read_ledger,
)
from trimtab.core.model.instructions import WriteLedger
from trimtab.core.model.ledger import Grade, Ledger, MoveRecord, MoveState
from trimtab.core.rescheduling.move_budgets import DEFAULT_BUDGETS
from trimtab.kube.transport import ReadOnlyTransport
from trimtab.wire.ledger import write_ledger_request

NOW = 1_800_000_000.0
MOVES = (
    done("web", at=NOW - 7200.0, unready=4.0, grades=(Grade(1800.0, 1.0, 0.5, 0.02, -0.04),)),
    done("api", at=NOW - 60.0, node="a", state=MoveState.FAILED, message="its replacement came back to the node"),
    done("db", at=NOW - 30.0, node="", state=MoveState.CHARGED, strategy="HotSpot"),
)


def history(*records: MoveRecord, wanted: Wanted | None = None) -> History:
    shown = tuple(each for each in records if wanted is None or wanted.includes(each))
    return History(Ledger(records=records), shown, DEFAULT_BUDGETS, "trimtab", NOW)


def answering(status: int, body: Any) -> ReadOnlyTransport:
    return ReadOnlyTransport(FakeTransport(lambda request: json_response(body, status)))


async def test_the_ledger_is_read() -> None:
    """As the rescheduler writes it, by a transport that cannot write."""
    stored = json.loads(write_ledger_request(WriteLedger(Ledger(records=MOVES), ""), "trimtab").body)
    stored["metadata"]["resourceVersion"] = "7"
    assert MOVES == (await read_ledger(answering(200, stored), "trimtab", NOW)).records


async def test_nothing_was_ever_moved() -> None:
    """Without a ConfigMap the history is empty, and that is no error."""
    missing = answering(404, {"kind": "Status", "reason": "NotFound", "message": "not found"})
    assert () == (await read_ledger(missing, "trimtab", NOW)).records
    assert "No move is recorded in ConfigMap trimtab/trimtab-moves." == next(history_lines(history()))


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, {"metadata": {}, "data": {"ledger.json": "edited"}}, "holds no ledger of moves that can be read"),
        (200, {"metadata": {}, "data": {"ledger.json": '{"version": 9}'}}, "its version is 9"),
        (403, {"kind": "Status", "message": "ann may not get it"}, "cannot be read: ann may not get it"),
    ],
)
async def test_an_unreadable_ledger(status: int, body: Any, words: str) -> None:
    """Edited by hand, of another version, or not to be read by this account."""
    with pytest.raises(LedgerUnreadable, match=words):
        await read_ledger(answering(status, body), "trimtab", NOW)


def test_the_table() -> None:
    """Each move with its grade, then totals, then what budgets have left; missing is a dash, never 0."""
    lines = list(history_lines(history(*MOVES)))
    assert [
        "WHEN                  POD          FROM → TO  STRATEGY              STATE    RELIEF     UNREADY  MESSAGE",
        "2027-01-15 06:00:00Z  default/web  a → b      ResourceOptimization  done     1.00/0.50  4s",
        "2027-01-15 07:59:00Z  default/api  a → a      ResourceOptimization  failed   1.00/-     -        "
        "its replacement came back to the node",
        "2027-01-15 07:59:30Z  default/db   a → b      HotSpot               charged  1.00/-     -",
    ] == lines[:4]
    assert [
        "3 moves: 1 done, 1 failed, 1 charged.",
        "1 came back to their node; 4 s in all with one ready pod less.",
        "1 graded, 1 helped; relief promised 1.00, measured 0.50, by move and snapshot.",
        "Utilisation differed from the promise by 3.0 percentage points (median).",
    ] == lines[5:9]
    assert "  cluster: 98 of 100 left within 1h" in lines
    assert "  node: 18 of 20 left within 1h, the fewest of node a" in lines


def test_some_of_the_moves() -> None:
    """By time and strategy; budgets still count all."""
    found = history(*MOVES, wanted=Wanted(NOW - 3600.0, STRATEGY))
    assert ["api"] == [each.pod for each in found.records]
    assert "  cluster: 98 of 100 left within 1h" in list(history_lines(found))
    nothing = history(*MOVES, wanted=Wanted(strategy="NodeMaintenance"))
    assert "No move matches; 3 are recorded in ConfigMap trimtab/trimtab-moves." == next(history_lines(nothing))


def test_json() -> None:
    """The records as they are in the ledger, with the same totals and budgets."""
    found = json.loads(history_document(history(*MOVES)))
    assert ("MoveHistory", {"done": 1, "failed": 1, "charged": 1}) == (found["kind"], found["states"])
    assert ("web", 0.5) == (found["records"][0]["pod"], found["records"][0]["grades"][0]["measured"])
    assert (1, 1, pytest.approx(0.03)) == tuple(found["grades"][name] for name in ("graded", "helped", "planError"))
    assert {"scope": "cluster", "moves": 100, "withinSeconds": 3600.0, "left": 98, "of": "the cluster"} in found[
        "budgets"
    ]
