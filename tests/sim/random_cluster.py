"""Random pods on a small simulated cluster, for properties that must hold in any run."""

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
    """Four nodes, one of them tainted, and more pods than fit."""

    def decided(decision: Decision) -> None:
        if on_decision is not None:
            on_decision(driver, decision)

    driver = SimulationDriver(Settings((default_profile("trimtab"),)), seed, 0.0, decided)
    rng = Random(seed)
    driver.world.put_node(node("tainted", 8, 16, Taint("keep", "out", NO_SCHEDULE)))
    for number in range(3):
        driver.world.put_node(node(f"n{number}", rng.randint(2, 8), rng.randint(4, 16)))
    for number in range(PODS):
        workload = Workload(
            f"p{number}", rng.randint(0, 30) * 100, rng.randint(0, 30) * 100 * MIB, constant(0.5), constant(0.5)
        )
        driver.clock.call_later(rng.uniform(0, 60), partial(driver.world.create_pod, workload, "trimtab"))
    return driver


def run(driver: SimulationDriver, until: float) -> None:
    while driver.clock.step(until):
        pass
