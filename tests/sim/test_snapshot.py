"""What a spectator is told of a node: its mark."""

from random import Random

import pytest
from msgspec.structs import replace

from trimtab.core.model.node import Node
from trimtab.core.model.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from trimtab.sim.clock import VirtualClock
from trimtab.sim.demo.scene import node
from trimtab.sim.snapshot import take_snapshot
from trimtab.sim.world import World

PLAIN = node("n1", 8, 16)
PRESSED = {"kubernetes.io/hostname": "n1", "pressure.trimtab.dev/cpu": "high"}


@pytest.mark.parametrize(
    ("shown", "mark"),
    [
        (PLAIN, ""),
        (replace(PLAIN, labels=PRESSED), "cpu=high"),
        (replace(PLAIN, labels={**PRESSED, "pressure.trimtab.dev/memory": "high"}), "cpu=high, memory=high"),
        (replace(PLAIN, taints=(Taint("keep", "out", NO_SCHEDULE),), labels=PRESSED), "tainted"),
        (replace(PLAIN, taints=(Taint("rather", "not", PREFER_NO_SCHEDULE),)), ""),
        (replace(PLAIN, unschedulable=True, taints=(Taint("keep", "out", NO_SCHEDULE),)), "cordoned"),
    ],
)
def test_the_mark_is_the_strongest_reason_to_keep_away(shown: Node, mark: str) -> None:
    """Cordoned, then tainted, then what labels of ours say of its pressure."""
    world = World(VirtualClock(), Random(1), lambda event: None)
    world.put_node(shown)
    assert mark == take_snapshot(world).nodes[0].status
