"""Random crowds of pods on small clusters, for laws that must hold in any simulated world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from trimtab.config.registry import default_profile
from trimtab.core.model.taints import NO_SCHEDULE, Taint
from trimtab.core.model.verdict import Decision
from trimtab.core.settings import Settings
from trimtab.sim.drive import Drive
from trimtab.sim.scenes import node
from trimtab.sim.workloads import MIB, Workload, constant

PODS = 60


def crowded(seed: int, onlooker: Callable[[Drive, Decision], None] | None = None) -> Drive:
    """A drive of four nodes, one of them tainted, on which more pods arrive than can fit."""

    def look(decision: Decision) -> None:
        if onlooker is not None:
            onlooker(drive, decision)

    drive = Drive(Settings((default_profile("trimtab"),)), seed, 0.0, look)
    chance = Random(seed)
    drive.world.put_node(node("tainted", 8, 16, Taint("keep", "out", NO_SCHEDULE)))
    for number in range(3):
        drive.world.put_node(node(f"n{number}", chance.randint(2, 8), chance.randint(4, 16)))
    for number in range(PODS):
        workload = Workload(
            f"p{number}", chance.randint(0, 30) * 100, chance.randint(0, 30) * 100 * MIB, constant(0.5), constant(0.5)
        )
        drive.clock.after(chance.uniform(0, 60), partial(drive.world.create, workload, "trimtab"))
    return drive


def run(drive: Drive, until: float) -> None:
    while drive.clock.step(until):
        pass
