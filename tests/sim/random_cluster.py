"""Random pods on a small simulated cluster, for properties that must hold in any run."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.sim.small_world import node, scenario, stock, template
from trimtab.core.model.schedule_result import Decision
from trimtab.core.model.taints import NO_SCHEDULE, Taint
from trimtab.sim.scenario import SimulatedNode, TracedPod
from trimtab.sim.simulation import Simulation

PODS = 60


def random_cluster(seed: int, on_decision: Callable[[Simulation, Decision], None] | None = None) -> Simulation:
    """Four nodes, one of them tainted, and more pods than fit."""

    def decided(decision: Decision) -> None:
        if on_decision is not None:
            on_decision(simulation, decision)

    rng = Random(seed)
    sizes = ((rng.randint(2, 8), rng.randint(4, 16)) for _ in range(3))
    nodes = (
        node("tainted", 8, 16, Taint("keep", "out", NO_SCHEDULE)),
        *(node(f"n{n}", *size) for n, size in enumerate(sizes)),
    )
    pods = tuple(
        TracedPod(f"p{number}", template(rng.randint(0, 30) * 100, rng.randint(0, 30) * 100), (0.0, 60.0))
        for number in range(PODS)
    )
    simulation = Simulation(scenario(map(SimulatedNode, nodes), pods=pods), stock(), seed, decided)
    return simulation
