"""Random crowds of pods on small clusters, for laws that must hold in any simulated world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from trimtab.config.registry import default_profile
from trimtab.core.model.schedule_result import Decision
from trimtab.core.model.taints import NO_SCHEDULE, Taint
from trimtab.core.settings import Settings
from trimtab.sim.demo.scene import node
from trimtab.sim.driver import SimulationDriver
from trimtab.sim.workloads import MIB, Workload, constant

PODS = 60


def random_cluster(
    seed: int, on_decision: Callable[[SimulationDriver, Decision], None] | None = None
) -> SimulationDriver:
    """A drive of four nodes, one of them tainted, on which more pods arrive than can fit."""

    def look(decision: Decision) -> None:
        if on_decision is not None:
            on_decision(drive, decision)

    drive = SimulationDriver(Settings((default_profile("trimtab"),)), seed, 0.0, look)
    chance = Random(seed)
    drive.world.put_node(node("tainted", 8, 16, Taint("keep", "out", NO_SCHEDULE)))
    for number in range(3):
        drive.world.put_node(node(f"n{number}", chance.randint(2, 8), chance.randint(4, 16)))
    for number in range(PODS):
        workload = Workload(
            f"p{number}", chance.randint(0, 30) * 100, chance.randint(0, 30) * 100 * MIB, constant(0.5), constant(0.5)
        )
        drive.clock.call_later(chance.uniform(0, 60), partial(drive.world.create_pod, workload, "trimtab"))
    return drive


def run(drive: SimulationDriver, until: float) -> None:
    while drive.clock.step(until):
        pass
