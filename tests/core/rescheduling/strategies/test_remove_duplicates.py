"""Replicas leave nodes that have more than their even share."""

import pytest

from tests.core.rescheduling.measured_pods import context, large, measured, running, suggested_pods
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.strategies.remove_duplicates import RemoveDuplicates

NODES = [large("a"), large("b"), large("c")]


def replicas(**counts: int) -> list[Pod]:
    """Replicas by node; the last one is the newest."""
    return [
        running(f"{node}{number}", on=node, created=float(number))
        for node, count in counts.items()
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"a": 1, "b": 1}, []),
        ({"a": 2}, ["a1"]),
        ({"a": 3}, ["a1", "a2"]),
        ({"a": 4}, ["a2", "a3"]),
        ({"a": 2, "b": 2}, []),
        ({"a": 3, "b": 1}, ["a2"]),
    ],
)
def test_even_share(counts: dict[str, int], expected: list[str]) -> None:
    """The newest ones leave until a node has the number of replicas divided by that of nodes, rounded up."""
    assert expected == suggested_pods(RemoveDuplicates(), measured(*NODES, *replicas(**counts)))


def test_targets() -> None:
    """They may go to nodes with fewer than their share only."""
    (found,) = RemoveDuplicates().suggest(context(measured(*NODES, *replicas(a=3, b=2, c=1))))
    assert (frozenset({"c"}), "3 replicas of web, 2 would be even") == (found.targets, found.reason)


def test_nodes_that_do_not_count() -> None:
    """Cordoned and tainted nodes, and those that the pods do not select, are no place to spread to."""
    others = [large("b", unschedulable=True), large("c", taints=["gpu=yes:NoSchedule"])]
    assert [] == suggested_pods(RemoveDuplicates(), measured(large("a"), *others, *replicas(a=3)))


def test_what_is_no_duplicate() -> None:
    """Pods of different owners, or with other images, are none; and kinds of owner can be excluded."""
    different = [running("x", on="a", owner="x"), running("y", on="a", owner="y"), running("z", on="a", images=["z"])]
    assert [] == suggested_pods(RemoveDuplicates(), measured(*NODES, *different))
    excluding = RemoveDuplicates(exclude_owner_kinds=("ReplicaSet",))
    assert [] == suggested_pods(excluding, measured(*NODES, *replicas(a=3)))
