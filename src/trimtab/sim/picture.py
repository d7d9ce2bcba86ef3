"""What a spectator sees of a pretended world at one moment, counted from its objects; how it is drawn is left to others."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.load.pressure_rules import PREFIX
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE
from trimtab.sim.world import World


class Meter(Struct, frozen=True):
    """One resource of one node; `used` is None until it has been measured."""

    offered: int
    requested: int
    used: float | None


class NodePicture(Struct, frozen=True):
    """One node; `mark` says why pods keep away, if they do, or which pressure it is labelled with."""

    name: str
    mark: str
    pods: int
    cpu: Meter
    memory: Meter


class Picture(Struct, frozen=True):
    """All nodes in the order in which they joined, and the pods that wait for one."""

    at: float
    nodes: tuple[NodePicture, ...]
    pending: tuple[str, ...]


def picture_of(world: World) -> Picture:
    nodes = tuple(_node(world, node) for node in world.nodes.values())
    return Picture(world.clock.now, nodes, tuple(pod.name for pod in world.pods.values() if not pod.node))


def _node(world: World, node: Node) -> NodePicture:
    residents = [pod for pod in world.pods.values() if pod.occupies and pod.node == node.name]
    return NodePicture(
        node.name,
        _mark(node),
        len(residents),
        _meter(world, node, residents, CPU),
        _meter(world, node, residents, MEMORY),
    )


def _meter(world: World, node: Node, residents: list[Pod], resource: str) -> Meter:
    requested = sum(pod.demand.of(resource) for pod in residents)
    return Meter(dict(node.allocatable)[resource], requested, world.measured.get((node.name, resource)))


def _mark(node: Node) -> str:
    if node.unschedulable:
        return "cordoned"
    if any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) for taint in node.taints):
        return "tainted"
    return ", ".join(f"{key.removeprefix(PREFIX)}={node.labels[key]}" for key in node.labels if key.startswith(PREFIX))
