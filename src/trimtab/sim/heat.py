"""The demo's first act, load that moves: a node runs hot and cools down while pods come; where they go is not its say."""

from __future__ import annotations

from functools import partial
from random import Random

from trimtab.core.model.resources import CPU
from trimtab.sim.scenes import SCHEDULER, Act, Scene, node
from trimtab.sim.workloads import HOUR, MIB, Workload, burst, constant, noisy
from trimtab.sim.world import World

START = 7.75 * HOUR
WORKERS = ("worker-1", "worker-2", "worker-3")
HOT = "worker-2"
# Of the process that nobody asked for: its share of the node, and the seconds until it is there, or gone again.
LEVEL, RISE = 0.7, 45.0
BEGINS, ENDS = START + 60, START + 240
FIRST, EARLY, GAP = 6, 5.0, 13.0  # so many pods come early, one every 5 s, and then one every 13 s
CPU_ASKED = (400, 500, 600, 800)  # thousandths of a core
MEMORY_ASKED = (512, 768, 1024)  # MiB
OVER = START + 375


def web(number: int, chance: Random) -> Workload:
    """A server that uses most of what it asks for."""
    cpu, memory = chance.choice(CPU_ASKED), chance.choice(MEMORY_ASKED)
    use = noisy(constant(chance.uniform(0.75, 1.0)), chance, by=0.1)
    return Workload(f"web-{number}", cpu, memory * MIB, use, noisy(constant(0.6), chance, by=0.03))


def _bring(world: World, number: int) -> None:
    world.create(web(number, world.script), SCHEDULER)


def _hot(world: World) -> None:
    for name in WORKERS:
        world.put_node(node(name, 8, 16))
    world.outside[HOT, CPU] = burst(LEVEL, BEGINS, ENDS, RISE)
    at, number = START + EARLY, 1
    while at < OVER - GAP:
        world.clock.after(at - world.clock.now + world.script.uniform(-2, 2), partial(_bring, world, number))
        at += EARLY if number < FIRST else GAP
        number += 1


def _cool(world: World) -> None:
    """The process ends by itself, and pods go on coming."""


HEAT = Act(
    START,
    (
        Scene(
            "A node runs hot",
            "Three workers with 8 CPU each, and pods that keep coming. After a minute a process that Kubernetes does not "
            f"know of takes up to {LEVEL * 100:.0f} % of {HOT}'s CPU. What is requested there stays low; new pods keep "
            "away, and the node gets a label.",
            ENDS - RISE,
            2.5,
            _hot,
        ),
        Scene(
            "It cools down",
            "The process comes to its end. The node's label goes, and pods come back.",
            OVER,
            2.5,
            _cool,
        ),
    ),
)
