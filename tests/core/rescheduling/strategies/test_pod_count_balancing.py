"""Pods leave nodes that run many more pods than others."""

import pytest

from tests.core.rescheduling.measured_pods import context, large, measured, running, suggested_pods
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.rescheduling.strategies.pod_count_balancing import PodCountBalancing


def crowded(**counts: int) -> Cluster:
    """The pod with number n uses n millicores."""
    pods = [(f"{name}{number}", name, number) for name, count in counts.items() for number in range(count)]
    return measured(
        *map(large, counts),
        *(running(pod, on=name, owner=pod) for pod, name, _ in pods),
        cpu={pod: [float(number)] for pod, _, number in pods},
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"a": 20, "b": 0}, []),
        ({"a": 21, "b": 0}, ["a0", "a1", "a2"]),
        ({"a": 22, "b": 22, "c": 20, "d": 0}, ["a0", "a1", "a2", "b0", "b1", "b2"]),
    ],
)
def test_pods_that_leave(counts: dict[str, int], expected: list[str]) -> None:
    """Above the threshold the three pods that use least leave, for nodes below the mean."""
    assert expected == suggested_pods(PodCountBalancing(), crowded(**counts))


def test_targets() -> None:
    """Only nodes below the mean that are not cordoned are targets."""
    cluster = crowded(a=25, b=20, c=1)
    cluster.upsert_node(large("cordoned", unschedulable=True))
    (found,) = PodCountBalancing().suggest(context(cluster))
    assert (frozenset({"c"}), "25 pods, another node has 1") == (found.targets, found.reason)


def test_pods_that_never_move() -> None:
    """A DaemonSet's pods stay."""
    daemons = [running(f"d{number}", on="a", owner="agent", kind="DaemonSet") for number in range(30)]
    assert [] == suggested_pods(PodCountBalancing(), measured(large("a"), large("b"), *daemons))
