"""The first part of the demo: a node runs hot and cools down while pods keep arriving; and its outcome."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.resources import CPU
from trimtab.sim.demo.scene import Play, Scene
from trimtab.sim.scenario import Scenario
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage import RESOURCES, StepUsage
from trimtab.sim.world import World

# As in scenarios/hot-node.yaml: the process outside of Kubernetes, its share of the node's CPU, when it begins and ends,
# and how long it takes to rise and to fall.
HOT_NODE = "worker-2"
HOT_LEVEL, HOT_BEGINS, HOT_ENDS, RISE_SECONDS = 0.7, 60.0, 240.0, 45.0
DURATION = 375.0

HIGH_UTILISATION = 0.8
_CPU = RESOURCES.index(CPU)

HOT_NODE_PLAY = Play(
    "hot-node",
    (
        Scene(
            "A node runs hot",
            "Three workers with 8 CPU each, and pods keep arriving. After a minute a process outside of Kubernetes "
            f"takes up to {HOT_LEVEL * 100:.0f} % of {HOT_NODE}'s CPU. Its requests stay low, but new pods avoid it, and "
            "the node gets a label.",
            HOT_ENDS - RISE_SECONDS,
            2.5,
        ),
        Scene(
            "It cools down",
            "The process ends. The label is removed, and the node gets pods again.",
            DURATION,
            2.5,
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
    """Keeps the wanted CPU of all nodes, step by step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.samples: list[tuple[float, tuple[float, ...]]] = []  # time, and the share of each node
        self.seconds_above = self._unmet = 0.0
        world.step_listeners.append(self._step)

    def _step(self, usage: StepUsage) -> None:
        shares = tuple(usage.utilisation[_CPU].tolist())
        self.samples.append((usage.at, shares))
        self.seconds_above += usage.seconds * sum(share > HIGH_UTILISATION for share in shares)
        beyond = (usage.demand[_CPU] - usage.capacity[_CPU]).clip(min=0.0)
        self._unmet += float(beyond.sum()) / 1000 * usage.seconds

    def outcome(self, hot_node: str, begins: float, ends: float) -> Outcome:
        pods = self.world.pods.values()
        spreads = [max(shares) - min(shares) for at, shares in self.samples if begins <= at < ends]
        return Outcome(
            placed=sum(bool(pod.node) for pod in pods),
            on_hot_node=sum(pod.node == hot_node and begins <= pod.created < ends for pod in pods),
            seconds_above_80=self.seconds_above,
            unmet_core_seconds=self._unmet,
            peak=max(max(shares) for _, shares in self.samples),
            spread=sum(spreads) / len(spreads),
            pending=sum(not pod.node for pod in pods),
        )


def hot_node_outcome(probe: UtilisationProbe, scenario: Scenario) -> Outcome:
    return probe.outcome(HOT_NODE, scenario.begins + HOT_BEGINS, scenario.begins + HOT_ENDS)


def run_headless(simulation: Simulation) -> Outcome:
    """Run the scenario without showing it."""
    probe = UtilisationProbe(simulation.world)
    simulation.run()
    return hot_node_outcome(probe, simulation.scenario)
