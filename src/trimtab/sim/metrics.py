"""What meters of a pretended cluster show: nobody uses more than the node has; what is wanted is left to the world."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY

SOURCE = "sim"
ResourceUsage = Mapping[str, float]  # by resource


class WantedUsage(Struct, frozen=True):
    """What nodes (by name) and their running pods (by UID) would use if there were enough."""

    nodes: Mapping[str, ResourceUsage]
    pods: Mapping[str, ResourceUsage]


def readings(
    nodes: Mapping[str, Node], pods: Mapping[str, Pod], wanted: WantedUsage, now: float
) -> tuple[Reading, ...]:
    """Both resources of all nodes, and of all pods that run."""
    return tuple(reading for resource in (CPU, MEMORY) for reading in _readings_of(resource, nodes, pods, wanted, now))


def _readings_of(
    resource: str, nodes: Mapping[str, Node], pods: Mapping[str, Pod], wants: WantedUsage, now: float
) -> tuple[Reading, Reading]:
    """Where a node is asked for more than it has, each gets the same part of what it wants."""
    wanted = {name: wants.nodes[name][resource] for name in nodes}
    offered = {name: float(dict(node.allocatable)[resource]) for name, node in nodes.items()}
    used = {name: min(wanted[name], offered[name]) for name in nodes}
    names = tuple(pods[uid].key for uid in wants.pods)
    given = tuple(uses[resource] * used[pods[uid].node] / wanted[pods[uid].node] for uid, uses in wants.pods.items())
    return (
        Reading(SOURCE, resource, tuple(used), tuple(used.values()), (now,) * len(used)),
        Reading(SOURCE, resource, names, given, (now,) * len(names), Subject.PODS),
    )
