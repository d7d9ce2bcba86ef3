"""The first scenario of the demo: a node runs hot and cools down while pods keep arriving; and its outcome."""

from __future__ import annotations

from functools import partial
from random import Random

from msgspec import Struct

from trimtab.core.model.resources import CPU
from trimtab.sim.demo.scene import SCHEDULER, Scenario, Scene, node
from trimtab.sim.driver import SimulationDriver
from trimtab.sim.workloads import HOUR, MIB, Workload, burst, constant, noisy
from trimtab.sim.world import World

START = 7.75 * HOUR
END = START + 375
WORKERS = ("worker-1", "worker-2", "worker-3")
HOT_NODE = "worker-2"
# The process outside of Kubernetes: its fraction of the node's CPU, and how long it takes to rise and to fall.
HOT_LEVEL, RISE_SECONDS = 0.7, 45.0
HOT_FROM, HOT_UNTIL = START + 60, START + 240
EARLY_PODS, EARLY_GAP, GAP = 6, 5.0, 13.0  # the first six pods arrive every 5 s, the others every 13 s
CPU_REQUESTS = (400, 500, 600, 800)  # millicores
MEMORY_REQUESTS = (512, 768, 1024)  # MiB

SAMPLE_INTERVAL = 1.0  # seconds
HIGH_UTILISATION = 0.8


def web_server(number: int, rng: Random) -> Workload:
    """A pod that uses most of what it requests."""
    cpu, memory = rng.choice(CPU_REQUESTS), rng.choice(MEMORY_REQUESTS)
    cpu_usage = noisy(constant(rng.uniform(0.75, 1.0)), rng, by=0.1)
    return Workload(f"web-{number}", cpu, memory * MIB, cpu_usage, noisy(constant(0.6), rng, by=0.03))


def _create_pod(world: World, number: int) -> None:
    world.create_pod(web_server(number, world.script_rng), SCHEDULER)


def _start_hot(world: World) -> None:
    for name in WORKERS:
        world.put_node(node(name, 8, 16))
    world.external_load[HOT_NODE, CPU] = burst(HOT_LEVEL, HOT_FROM, HOT_UNTIL, RISE_SECONDS)
    at, number = START + EARLY_GAP, 1
    while at < END - GAP:
        delay = at - world.clock.now + world.script_rng.uniform(-2, 2)
        world.clock.call_later(delay, partial(_create_pod, world, number))
        at += EARLY_GAP if number < EARLY_PODS else GAP
        number += 1


def _start_cool(world: World) -> None:
    """Nothing to schedule: the process ends on its own, and pods keep arriving."""


HOT_NODE_SCENARIO = Scenario(
    START,
    (
        Scene(
            "A node runs hot",
            "Three workers with 8 CPU each, and pods keep arriving. After a minute a process outside of Kubernetes "
            f"takes up to {HOT_LEVEL * 100:.0f} % of {HOT_NODE}'s CPU. Its requests stay low, but new pods avoid it, and "
            "the node gets a label.",
            HOT_UNTIL - RISE_SECONDS,
            2.5,
            _start_hot,
        ),
        Scene(
            "It cools down",
            "The process ends. The label is removed, and the node gets pods again.",
            END,
            2.5,
            _start_cool,
        ),
    ),
)


class Outcome(Struct, frozen=True):
    """How well a scheduler handled the hot node. CPU is wanted usage, so it may exceed the capacity of a node.

    placed: pods with a node. on_hot_node: of these, created while the node was hot and placed there.
    seconds_above_80: node-seconds above 80 %. unmet_core_seconds: wanted beyond the capacity of nodes. peak: of any node.
    spread: between the fullest and the emptiest node, averaged while it was hot. pending: pods without a node at the end.
    """

    placed: int
    on_hot_node: int
    seconds_above_80: float
    unmet_core_seconds: float
    peak: float
    spread: float
    pending: int


class UtilisationProbe:
    """Samples the wanted CPU of all nodes every second."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.samples: list[tuple[float, dict[str, float]]] = []
        self._unmet = 0.0
        world.clock.call_every(SAMPLE_INTERVAL, self._sample)

    def _sample(self) -> None:
        allocatable = {name: float(dict(node.allocatable)[CPU]) for name, node in self.world.nodes.items()}
        wanted = {name: usage[CPU] for name, usage in self.world.wanted_usage().nodes.items()}
        utilisation = {name: wanted[name] / allocatable[name] for name in allocatable}
        self.samples.append((self.world.clock.now, utilisation))
        self._unmet += sum(max(wanted[name] - allocatable[name], 0.0) / 1000 * SAMPLE_INTERVAL for name in allocatable)

    def outcome(self, hot_node: str, begins: float, ends: float) -> Outcome:
        pods = self.world.pods.values()
        values = [value for _, sample in self.samples for value in sample.values()]
        spreads = [max(sample.values()) - min(sample.values()) for at, sample in self.samples if begins <= at < ends]
        return Outcome(
            placed=sum(bool(pod.node) for pod in pods),
            on_hot_node=sum(pod.node == hot_node and begins <= pod.created < ends for pod in pods),
            seconds_above_80=SAMPLE_INTERVAL * sum(value > HIGH_UTILISATION for value in values),
            unmet_core_seconds=self._unmet,
            peak=max(values),
            spread=sum(spreads) / len(spreads),
            pending=sum(not pod.node for pod in pods),
        )


def run_headless(driver: SimulationDriver, scenario: Scenario) -> UtilisationProbe:
    """Run all scenes without showing them."""
    probe = UtilisationProbe(driver.world)
    for scene in scenario.scenes:
        driver.idle = scene.idle
        scene.start(driver.world)
        while driver.clock.step(scene.ends_at):
            pass
    return probe
