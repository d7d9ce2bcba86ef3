"""What `trimtab apply` says: the plan of a file, how far each move has come, and what is left to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trimtab.apps.apply.plan_file import plan_of
from trimtab.apps.apply.process import MoveResult, Verdict
from trimtab.apps.plan.document import PlanDocument
from trimtab.apps.plan.text import EMPTY, Line, earlier_plan_lines
from trimtab.core.model.ledger import MoveRecord, MoveState

TAKEN_OVER = "A rescheduler that runs in the cluster takes them over; without one:"


def document_lines(document: PlanDocument, where: str, now: float) -> Iterator[Line]:
    """The plan with its age; `now` is in seconds since 1970."""
    yield from earlier_plan_lines(where, plan_of(document), now)
    yield (("Before each move its pod and nodes, its gain, all guards and all budgets are checked again.", "dim"),)


def progress_line(record: MoveRecord) -> Line:
    style = {MoveState.DONE: "green", MoveState.FAILED: "bold red", MoveState.REFUSED: "bold red"}
    return (f"{record.key}: ", "bold"), (_progress(record), style.get(record.state, ""))


def _progress(record: MoveRecord) -> str:
    match record.state:
        case MoveState.CHARGED:
            return "charged to the budgets"
        case MoveState.EVICTED:
            return f"evicted from {record.source}"
        case MoveState.SURGED:
            return f"{record.workload} gets a replacement first"
        case MoveState.PLACED:
            return f"its replacement is on {record.node}"
        case MoveState.LEAVING:
            return f"its replacement is ready, and it leaves {record.source}"
        case MoveState.UNDOING:
            return f"the replacement is taken back: {record.message}"
        case MoveState.DONE:
            return f"done, {record.source} → {record.node}"
        case MoveState.FAILED | MoveState.REFUSED:
            return f"{record.state.value}: {record.message}"
        case MoveState.CANCELLED:
            return f"skipped: {record.message}"


def result_lines(results: Iterable[MoveResult]) -> Iterator[Line]:
    every = tuple(results)
    numbers = {verdict: sum(each.verdict is verdict for each in every) for verdict in Verdict}
    left = [each.record for each in every if each.verdict is Verdict.LEFT and each.record is not None]
    parts = [f"{numbers[verdict]} {verdict.name.lower()}" for verdict in Verdict if verdict is not Verdict.LEFT]
    more = f", {len(left)} still under way" if left else ""
    yield EMPTY
    yield ("Applied: ", "bold"), (f"{', '.join(parts)}{more}.", "")
    if left:
        yield ((TAKEN_OVER, "bold yellow"),)
        yield from (((f"  {each.key}: {_left_to_do(each)}", ""),) for each in left)


def _left_to_do(record: MoveRecord) -> str:
    kind, _, name = record.workload.partition(" ")
    if record.surge:
        return (
            f"{record.workload} of namespace {record.namespace} may have one replica more than it should: see `kubectl -n "
            f"{record.namespace} get {kind.lower()} {name}`, and its label trimtab.dev/surge-for"
        )
    return f"see whether its replacement becomes ready: `kubectl -n {record.namespace} get pods`"
