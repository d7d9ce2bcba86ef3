"""How one node's heat was borne, counted from a pretended world as it went; which way of placing is better, readers see."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.resources import CPU
from trimtab.sim.drive import Drive
from trimtab.sim.scenes import Act
from trimtab.sim.world import World

LOOK = 1.0  # seconds
FULL = 0.8


class Outcome(Struct, frozen=True):
    """CPU is what nodes would use if there were enough, so that it can pass what they have; shares are of one node.

    placed, on_hot: pods with a node, and those of them that came and were put on the hot node while it was.
    above: node-seconds above 80 %. missed: core-seconds that were wanted and not to be had. highest: of any node.
    spread: between the fullest and the emptiest node while one was hot, on average. pending: pods without a node at the end.
    """

    placed: int
    on_hot: int
    above: float
    missed: float
    highest: float
    spread: float
    pending: int


class Gauge:
    """Looks at all nodes of a world every second, from now on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.looks: list[tuple[float, dict[str, float]]] = []
        self._missed = 0.0
        world.clock.every(LOOK, self._look)

    def _look(self) -> None:
        offered = {name: float(dict(node.allocatable)[CPU]) for name, node in self.world.nodes.items()}
        wanted = {name: uses[CPU] for name, uses in self.world.wants().nodes.items()}
        self.looks.append((self.world.clock.now, {name: wanted[name] / offered[name] for name in offered}))
        self._missed += sum(max(wanted[name] - offered[name], 0.0) / 1000 * LOOK for name in offered)

    def outcome(self, hot: str, begins: float, ends: float) -> Outcome:
        pods = self.world.pods.values()
        shares = [share for _, look in self.looks for share in look.values()]
        apart = [max(look.values()) - min(look.values()) for at, look in self.looks if begins <= at < ends]
        return Outcome(
            sum(bool(pod.node) for pod in pods),
            sum(pod.node == hot and begins <= pod.created < ends for pod in pods),
            LOOK * sum(share > FULL for share in shares),
            self._missed,
            max(shares),
            sum(apart) / len(apart),
            sum(not pod.node for pod in pods),
        )


def silent(drive: Drive, act: Act) -> Gauge:
    """Play an act to its end with nobody watching."""
    gauge = Gauge(drive.world)
    for scene in act.scenes:
        drive.idle = scene.idle
        scene.begin(drive.world)
        while drive.clock.step(scene.ends):
            pass
    return gauge
