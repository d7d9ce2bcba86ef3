"""Which nodes kube-scheduler could choose: ties, samples, and scores that depend on the sample."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.core.rescheduling.scheduler_choice import NodeScores, could_choose, sample_size


def scored(total: list[int], *relative: list[int], considered: int = 0) -> NodeScores:
    """Absolute scores, and raw ones that the sample scales: in the total they count as they are."""
    absolute = np.array(total)
    raw = tuple(np.array(each) for each in relative)
    return NodeScores(np.arange(len(total)) + 10, sum(raw, absolute), absolute, raw, considered or len(total))


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [
        (99, 0, 99),
        (99, 5, 99),
        (100, 0, 100),
        (200, 0, 100),  # 49 %, but not less than 100 nodes
        (1000, 0, 420),
        (5000, 0, 500),
        (6000, 0, 300),
        (10_000, 0, 500),  # not less than 5 %
        (1000, 30, 300),
        (1000, 100, 1000),
        (1000, 5, 100),
    ],
)
def test_sample_size(nodes: int, percentage: int, expected: int) -> None:
    """As kube-scheduler's numFeasibleNodesToFind."""
    assert expected == sample_size(nodes, percentage)


def test_without_a_sample_the_highest_score_wins() -> None:
    """One of several, if they are equal; a node that was filtered out is not among the scores."""
    assert [11] == could_choose(scored([5, 9, 7]), 0).tolist()
    assert [10, 12] == could_choose(scored([9, 5, 9]), 0).tolist()
    assert [] == could_choose(scored([]), 0).tolist()


def test_the_best_of_some_sample() -> None:
    """Of 150 nodes with scores 0 to 149, the 99 lowest cannot be the best of 100; the highest is first."""
    found = could_choose(scored(list(range(150))), 0)
    assert list(range(159, 108, -1)) == found.tolist()


def test_few_feasible_nodes_are_all_in_the_sample() -> None:
    """Of 150 nodes 120 were filtered out."""
    assert [39] == could_choose(scored(list(range(30)), considered=150), 0).tolist()


def test_a_score_that_the_sample_scales_may_decide() -> None:
    """A node that is far behind by absolute scores wins in a sample where a small preference counts fully."""
    absolute, preference = [0] + [50] * 149, [1] + [0] * 149
    assert 10 in could_choose(scored(absolute, preference), 0).tolist()
    assert 10 not in could_choose(scored(absolute, [0] * 150), 0).tolist()
    assert 10 not in could_choose(scored(absolute, [1] * 150), 0).tolist()  # alike for all nodes
