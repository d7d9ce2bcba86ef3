"""How one node's heat was borne, counted from a pretended world as it went; which way of placing is better, readers see."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.resources import CPU
from trimtab.sim.demo.scene import Scenario
from trimtab.sim.driver import SimulationDriver
from trimtab.sim.world import World

SAMPLE_INTERVAL = 1.0  # seconds
HIGH_UTILISATION = 0.8


class Outcome(Struct, frozen=True):
    """CPU is what nodes would use if there were enough, so that it can pass what they have; shares are of one node.

    placed, on_hot: pods with a node, and those of them that came and were put on the hot node while it was.
    above: node-seconds above 80 %. missed: core-seconds that were wanted and not to be had. highest: of any node.
    spread: between the fullest and the emptiest node while one was hot, on average. pending: pods without a node at the end.
    """

    placed: int
    on_hot_node: int
    seconds_above_80: float
    unmet_core_seconds: float
    peak: float
    spread: float
    pending: int


class UtilisationProbe:
    """Looks at all nodes of a world every second, from now on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.samples: list[tuple[float, dict[str, float]]] = []
        self._unmet = 0.0
        world.clock.call_every(SAMPLE_INTERVAL, self._sample)

    def _sample(self) -> None:
        offered = {name: float(dict(node.allocatable)[CPU]) for name, node in self.world.nodes.items()}
        wanted = {name: uses[CPU] for name, uses in self.world.wanted_usage().nodes.items()}
        self.samples.append((self.world.clock.now, {name: wanted[name] / offered[name] for name in offered}))
        self._unmet += sum(max(wanted[name] - offered[name], 0.0) / 1000 * SAMPLE_INTERVAL for name in offered)

    def outcome(self, hot_node: str, begins: float, ends: float) -> Outcome:
        pods = self.world.pods.values()
        shares = [share for _, look in self.samples for share in look.values()]
        apart = [max(look.values()) - min(look.values()) for at, look in self.samples if begins <= at < ends]
        return Outcome(
            sum(bool(pod.node) for pod in pods),
            sum(pod.node == hot_node and begins <= pod.created < ends for pod in pods),
            SAMPLE_INTERVAL * sum(share > HIGH_UTILISATION for share in shares),
            self._unmet,
            max(shares),
            sum(apart) / len(apart),
            sum(not pod.node for pod in pods),
        )


def run_headless(driver: SimulationDriver, scenario: Scenario) -> UtilisationProbe:
    """Play an act to its end with nobody watching."""
    probe = UtilisationProbe(driver.world)
    for scene in scenario.scenes:
        driver.idle = scene.idle
        scene.start(driver.world)
        while driver.clock.step(scene.ends_at):
            pass
    return probe
