"""Pods leave domains that have too many of them."""

import pytest

from tests.core.plugins.affinity_builders import ZONE, host, label_selector, with_spread
from tests.core.rescheduling.measured_pods import measured, running, suggested_pods
from trimtab.core.model.affinity import TopologySpreadConstraint
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.strategies.remove_pods_violating_topology_spread_constraint import (
    RemovePodsViolatingTopologySpreadConstraint,
)

STRATEGY = RemovePodsViolatingTopologySpreadConstraint()


def spread(name: str, on: str, max_skew: int = 1, hard: bool = True) -> Pod:
    pod = running(name, on=on, labels={"app": "web"})
    return with_spread(pod, TopologySpreadConstraint(ZONE, max_skew, hard=hard, selector=label_selector(app="web")))


@pytest.mark.parametrize(
    ("counts", "max_skew", "hard", "leaving"),
    [
        ((5, 1), 1, True, 2),
        ((5, 1), 3, True, 1),
        ((5, 1), 4, True, 0),
        ((5, 1), 1, False, 0),
        ((2, 1), 1, True, 0),
        ((4, 1, 1), 1, True, 2),
        ((4, 4, 1), 1, True, 2),
    ],
)
def test_as_many_as_are_too_many(counts: tuple[int, ...], max_skew: int, hard: bool, leaving: int) -> None:
    """(5, 1) with a skew of 1 needs two moves to become (3, 3), and none is suggested for soft constraints."""
    nodes = [host(f"n{zone}", f"zone-{zone}") for zone in range(len(counts))]
    pods = [
        spread(f"p{zone}-{number}", f"n{zone}", max_skew, hard)
        for zone, count in enumerate(counts)
        for number in range(count)
    ]
    assert leaving == len(suggested_pods(STRATEGY, measured(*nodes, *pods)))


def test_no_room() -> None:
    """Where the emptier zone has no room the skew stays."""
    pods = [spread(f"p{number}", "a") for number in range(3)]
    assert [] == suggested_pods(STRATEGY, measured(host("a", "x"), host("b", "y", pods="0"), *pods))


def test_nodes_without_a_zone() -> None:
    """A pod on a node that has no zone stays."""
    assert [] == suggested_pods(STRATEGY, measured(host("a"), host("b", "y"), spread("p", "a")))
