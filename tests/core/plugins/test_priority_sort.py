"""The order of pods of different priority and age in the queue."""

import pytest

from tests.build import pod
from trimtab.core.plugins.priority_sort import PrioritySort


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((10, 5.0), (0, 1.0)),
        ((0, 1.0), (0, 2.0)),
        ((0, 9.0), (-1, 1.0)),
        ((2**31 - 1, 9.0), (2**31 - 2, 1.0)),
        ((0, 1.000001), (0, 1.000002)),
    ],
)
def test_order(first: tuple[int, float], second: tuple[int, float]) -> None:
    """Higher priority goes first, then the pod queued longer."""
    (priority, since), (other, later) = first, second
    order = PrioritySort().queue_sort_key
    assert order(pod("a", priority=priority), since) < order(pod("b", priority=other), later)


def test_equals() -> None:
    """Pods of one priority and one moment are equal: the queue breaks the tie by UID."""
    assert PrioritySort().queue_sort_key(pod("a"), 1.0) == PrioritySort().queue_sort_key(pod("b"), 1.0)
