"""Comparing what a policy would decide with where a pod went."""

from __future__ import annotations

import pytest

from tests.build import pod
from trimtab.core.model.schedule_result import Placement, Unschedulable
from trimtab.core.scheduling.evaluator import FORBIDDEN
from trimtab.sim.shadow.outcomes import Comparison, Counts, compare

HERE, ELSEWHERE = Placement("a", 1.0, 3, 3), Placement("b", 1.0, 3, 3)
NOWHERE = Unschedulable(3, note="too large", plugins=("NodeResourcesFit",))
UNREAD = Unschedulable(3, note="persistentvolumes: 403", plugins=FORBIDDEN)


@pytest.mark.parametrize(
    ("verdict", "best", "comparison", "moved"),
    [
        (HERE, ("a",), Comparison.SAME, False),
        (HERE, (), Comparison.SAME, False),
        (ELSEWHERE, ("a", "b"), Comparison.EQUAL, False),
        (ELSEWHERE, ("b", "c"), Comparison.DIFFERENT, True),
        (NOWHERE, (), Comparison.PENDING, True),
        (UNREAD, (), Comparison.UNDECIDED, False),
    ],
)
def test_comparisons(
    verdict: Placement | Unschedulable, best: tuple[str, ...], comparison: Comparison, moved: bool
) -> None:
    """Only a node that the policy prefers to the real one, or none at all, moves a pod's load."""
    found = compare(pod("web", on="a"), verdict, best, 5.0)
    assert (comparison, moved, "a") == (found.comparison, found.moved, found.real)
    assert bool(found.reason) == isinstance(verdict, Unschedulable)


def test_counts() -> None:
    """What the policy could not decide is not among the decided."""
    counts = Counts()
    for verdict in (HERE, ELSEWHERE, NOWHERE, UNREAD):
        counts.add(compare(pod("web", on="a"), verdict, (), 5.0, late=verdict is NOWHERE, preempts=verdict is NOWHERE))
    assert (3, 1, 0, 1, 1, 1) == (
        counts.decided,
        counts.same,
        counts.equal,
        counts.different,
        counts.pending,
        counts.undecided,
    )
    assert (1, 1) == (counts.late, counts.preempting)
