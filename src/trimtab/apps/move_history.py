"""`trimtab history`: reads the ledger of moves from a cluster, and puts it into a table or into JSON. Only gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from trimtab.core.model.duration import format_duration
from trimtab.core.model.instructions import ReadLedger
from trimtab.core.model.ledger import Ledger, MoveRecord, MoveState
from trimtab.core.rescheduling.grading import summarise
from trimtab.core.rescheduling.move_budgets import Budgets, budgets_left
from trimtab.kube.transport import Transport
from trimtab.wire.ledger import LEDGER_NAME, read_ledger_outcome, read_ledger_request
from trimtab.wire.outcomes import Reply

API_VERSION, KIND = "trimtab.dev/v1alpha1", "MoveHistory"
TIMEOUT = 10.0
UNKNOWN = "-"
HEADER = ("WHEN", "POD", "FROM → TO", "STRATEGY", "STATE", "RELIEF", "UNREADY", "MESSAGE")


class LedgerUnreadable(Exception):
    """Why there is no history, and what to do."""


class Wanted(NamedTuple):
    """Which moves: charged since then, and of this strategy; any if that is empty."""

    since: float = 0.0
    strategy: str = ""

    def includes(self, record: MoveRecord) -> bool:
        return record.at >= self.since and self.strategy in ("", record.strategy)


class History(NamedTuple):
    """The moves that are wanted, oldest first, of a ledger; `now` is in seconds since 1970."""

    ledger: Ledger
    records: tuple[MoveRecord, ...]
    budgets: Budgets
    namespace: str
    now: float


async def read_ledger(transport: Transport, namespace: str, now: float) -> Ledger:
    """Empty if nothing was ever moved. Raises LedgerUnreadable, and Unreachable."""
    answer = await transport.send(read_ledger_request(namespace), TIMEOUT)
    read = read_ledger_outcome(ReadLedger(), Reply(answer.status, answer.body), now, namespace)
    if read.ledger is None:
        raise LedgerUnreadable(read.problem)
    return read.ledger


# --- text


def history_lines(history: History) -> Iterator[str]:
    where = f"ConfigMap {history.namespace}/{LEDGER_NAME}"
    if not history.ledger.records:
        yield f"No move is recorded in {where}."
    elif not history.records:
        yield f"No move matches; {len(history.ledger.records)} are recorded in {where}."
    else:
        yield from _table([HEADER, *(_row(each) for each in history.records)])
        yield ""
        yield from _totals(history.records)
    yield ""
    yield "Budgets:"
    yield from _budget_lines(history)


def _row(record: MoveRecord) -> tuple[str, ...]:
    """The replacement's node, or the planned one until it has one."""
    graded = record.grades[-1] if record.grades else None
    promised = UNKNOWN if record.relief is None else f"{record.relief:.2f}"
    measured = UNKNOWN if graded is None else f"{graded.measured:.2f}"
    unready = f"{record.unready:.0f}s" if record.state is MoveState.DONE else UNKNOWN
    to = record.node or record.target or "any node"
    places = record.key, f"{record.source} → {to}"
    return (
        _time(record.at),
        *places,
        record.strategy,
        record.state.value,
        f"{promised}/{measured}",
        unready,
        record.message,
    )


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%SZ}"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _totals(records: Sequence[MoveRecord]) -> Iterator[str]:
    states = Counter(each.state.value for each in records)
    back = sum(each.came_back for each in records)
    unready = sum(each.unready for each in records)
    yield f"{len(records)} moves: {', '.join(f'{count} {state}' for state, count in states.items())}."
    yield f"{back} came back to their node; {unready:.0f} s in all with one ready pod less."
    found = summarise(records)
    if found.graded:
        yield (
            f"{found.graded} graded, {found.helped} helped; relief promised {found.promised:.2f}, "
            f"measured {found.measured:.2f}, by move and snapshot."
        )
    if found.plan_error is not None:
        yield f"Utilisation differed from the promise by {found.plan_error * 100:.1f} percentage points (median)."


def _budget_lines(history: History) -> Iterator[str]:
    for scope, (left, key) in budgets_left(history.budgets, history.ledger.records, history.now).items():
        budget = history.budgets[scope]
        of = f", the fewest of {key}" if key and scope != "cluster" else ""
        yield f"  {scope.value}: {left} of {budget.moves} left within {format_duration(budget.within)}{of}"


# --- JSON


def history_document(history: History) -> bytes:
    """The records as the ledger has them, with totals, and what is left of the budgets."""
    left = budgets_left(history.budgets, history.ledger.records, history.now)
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "records": history.records,
        "states": Counter(each.state.value for each in history.records),
        "grades": summarise(history.records),
        "budgets": [
            {
                "scope": scope.value,
                "moves": history.budgets[scope].moves,
                "withinSeconds": history.budgets[scope].within,
                "left": number,
                "of": key,
            }
            for scope, (number, key) in left.items()
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)
