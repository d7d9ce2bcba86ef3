"""The status of a node in a snapshot."""

import pytest
from msgspec.structs import replace

from tests.sim.small_world import node, scenario, simulate
from trimtab.core.model.node import Node
from trimtab.core.model.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from trimtab.sim.demo.snapshot import take_snapshot
from trimtab.sim.scenario import SimulatedNode

PLAIN = node("n1", 8, 16)
UNDER_PRESSURE = {"kubernetes.io/hostname": "n1", "pressure.trimtab.dev/cpu": "high"}


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (PLAIN, ""),
        (replace(PLAIN, labels=UNDER_PRESSURE), "cpu=high"),
        (replace(PLAIN, labels={**UNDER_PRESSURE, "pressure.trimtab.dev/memory": "high"}), "cpu=high, memory=high"),
        (replace(PLAIN, taints=(Taint("keep", "out", NO_SCHEDULE),), labels=UNDER_PRESSURE), "tainted"),
        (replace(PLAIN, taints=(Taint("rather", "not", PREFER_NO_SCHEDULE),)), ""),
        (replace(PLAIN, unschedulable=True, taints=(Taint("keep", "out", NO_SCHEDULE),)), "cordoned"),
    ],
)
def test_the_status_is_the_strongest_reason_to_avoid_the_node(shown: Node, status: str) -> None:
    """Cordoned, then tainted, then its pressure labels."""
    simulation = simulate(scenario([SimulatedNode(shown)]), 1.0)
    assert status == take_snapshot(simulation).nodes[0].status
