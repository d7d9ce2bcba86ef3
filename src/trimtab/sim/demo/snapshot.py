"""A snapshot of the simulated cluster, for display."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.load.pressure_rules import PREFIX
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage import RESOURCES


class ResourceSnapshot(Struct, frozen=True):
    """One resource of one node; `used` is None before the first sample."""

    allocatable: int
    requested: int
    used: float | None


class NodeSnapshot(Struct, frozen=True):
    """One node; `status` is cordoned, tainted, or its pressure labels."""

    name: str
    status: str
    pods: int
    cpu: ResourceSnapshot
    memory: ResourceSnapshot


class WorldSnapshot(Struct, frozen=True):
    """All nodes in the order of their creation, and the pending pods."""

    at: float
    nodes: tuple[NodeSnapshot, ...]
    pending: tuple[str, ...]


def take_snapshot(simulation: Simulation) -> WorldSnapshot:
    world = simulation.world
    nodes = tuple(_node(simulation, each.node) for each in world.nodes.values())
    return WorldSnapshot(world.clock.now, nodes, tuple(pod.name for pod in world.pending.values()))


def _node(simulation: Simulation, node: Node) -> NodeSnapshot:
    pods = [pod for pod in simulation.world.pods.values() if pod.holds_resources and pod.node == node.name]
    cpu, memory = (_resource(simulation, node, pods, resource) for resource in RESOURCES)
    return NodeSnapshot(node.name, _status(node), len(pods), cpu, memory)


def _resource(simulation: Simulation, node: Node, pods: list[Pod], resource: str) -> ResourceSnapshot:
    requested = sum(pod.requests.of(resource) for pod in pods)
    used = simulation.scrapes.last_samples.get((node.name, resource))
    return ResourceSnapshot(dict(node.allocatable)[resource], requested, used)


def _status(node: Node) -> str:
    if node.unschedulable:
        return "cordoned"
    if any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) for taint in node.taints):
        return "tainted"
    return ", ".join(f"{key.removeprefix(PREFIX)}={node.labels[key]}" for key in node.labels if key.startswith(PREFIX))
