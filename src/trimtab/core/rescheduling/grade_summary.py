"""What many moves were worth together: how many helped, relief as promised and as measured, and the error of plans."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median

from msgspec import Struct

from trimtab.core.model.ledger import MoveRecord


class GradeSummary(Struct, frozen=True, rename="camel"):
    """By the last grade of each move; None where no move has one.

    Relief is a mean by move and snapshot, in units of the penalty. `plan_error` is the median of how far the utilisation of
    sources and targets was from the promise, as a share of 1, over all grades.
    """

    graded: int = 0
    helped: int = 0
    promised: float | None = None
    measured: float | None = None
    plan_error: float | None = None


def summarise(records: Iterable[MoveRecord]) -> GradeSummary:
    graded = [each for each in records if each.grades]
    if not graded:
        return GradeSummary()
    last = [each.grades[-1] for each in graded]
    errors = [
        abs(error)
        for each in graded
        for grade in each.grades
        for error in (grade.source_error, grade.target_error)
        if error is not None
    ]
    return GradeSummary(
        len(last),
        sum(each.helped for each in last),
        fmean(each.promised for each in last),
        fmean(each.measured for each in last),
        median(errors) if errors else None,
    )
