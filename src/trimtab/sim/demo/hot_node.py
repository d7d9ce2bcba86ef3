"""The demo's first act, load that moves: a node runs hot and cools down while pods come; where they go is not its say."""

from __future__ import annotations

from functools import partial
from random import Random

from trimtab.core.model.resources import CPU
from trimtab.sim.demo.scene import SCHEDULER, Scenario, Scene, node
from trimtab.sim.workloads import HOUR, MIB, Workload, burst, constant, noisy
from trimtab.sim.world import World

START = 7.75 * HOUR
WORKERS = ("worker-1", "worker-2", "worker-3")
HOT_NODE = "worker-2"
# Of the process that nobody asked for: its share of the node, and the seconds until it is there, or gone again.
HOT_LEVEL, RISE_SECONDS = 0.7, 45.0
HOT_FROM, HOT_UNTIL = START + 60, START + 240
EARLY_PODS, EARLY_GAP, GAP = 6, 5.0, 13.0  # so many pods come early, one every 5 s, and then one every 13 s
CPU_REQUESTS = (400, 500, 600, 800)  # thousandths of a core
MEMORY_REQUESTS = (512, 768, 1024)  # MiB
END = START + 375


def web_server(number: int, rng: Random) -> Workload:
    """A server that uses most of what it asks for."""
    cpu, memory = rng.choice(CPU_REQUESTS), rng.choice(MEMORY_REQUESTS)
    use = noisy(constant(rng.uniform(0.75, 1.0)), rng, by=0.1)
    return Workload(f"web-{number}", cpu, memory * MIB, use, noisy(constant(0.6), rng, by=0.03))


def _create_pod(world: World, number: int) -> None:
    world.create_pod(web_server(number, world.script_rng), SCHEDULER)


def _start_hot(world: World) -> None:
    for name in WORKERS:
        world.put_node(node(name, 8, 16))
    world.external_load[HOT_NODE, CPU] = burst(HOT_LEVEL, HOT_FROM, HOT_UNTIL, RISE_SECONDS)
    at, number = START + EARLY_GAP, 1
    while at < END - GAP:
        world.clock.call_later(
            at - world.clock.now + world.script_rng.uniform(-2, 2), partial(_create_pod, world, number)
        )
        at += EARLY_GAP if number < EARLY_PODS else GAP
        number += 1


def _start_cool(world: World) -> None:
    """The process ends by itself, and pods go on coming."""


HOT_NODE_SCENARIO = Scenario(
    START,
    (
        Scene(
            "A node runs hot",
            "Three workers with 8 CPU each, and pods that keep coming. After a minute a process that Kubernetes does not "
            f"know of takes up to {HOT_LEVEL * 100:.0f} % of {HOT_NODE}'s CPU. What is requested there stays low; new pods "
            f"keep "
            "away, and the node gets a label.",
            HOT_UNTIL - RISE_SECONDS,
            2.5,
            _start_hot,
        ),
        Scene(
            "It cools down",
            "The process comes to its end. The node's label goes, and pods come back.",
            END,
            2.5,
            _start_cool,
        ),
    ),
)
