"""What meters of a pretended cluster show: nobody uses more than the node has; what is wanted is left to the world."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Reading, Subject

SOURCE = "sim"
Uses = Mapping[str, float]  # by resource


class Wants(Struct, frozen=True):
    """What nodes (by name) and their running pods (by UID) would use if there were enough."""

    nodes: Mapping[str, Uses]
    pods: Mapping[str, Uses]


def readings(nodes: Mapping[str, Node], pods: Mapping[str, Pod], wants: Wants, at: float) -> tuple[Reading, ...]:
    """Both resources of all nodes, and of all pods that run."""
    return tuple(reading for resource in (CPU, MEMORY) for reading in _of(resource, nodes, pods, wants, at))


def _of(
    resource: str, nodes: Mapping[str, Node], pods: Mapping[str, Pod], wants: Wants, at: float
) -> tuple[Reading, Reading]:
    """Where a node is asked for more than it has, each gets the same part of what it wants."""
    wanted = {name: wants.nodes[name][resource] for name in nodes}
    offered = {name: float(dict(node.allocatable)[resource]) for name, node in nodes.items()}
    used = {name: min(wanted[name], offered[name]) for name in nodes}
    names = tuple(pods[uid].key for uid in wants.pods)
    given = tuple(uses[resource] * used[pods[uid].node] / wanted[pods[uid].node] for uid, uses in wants.pods.items())
    return (
        Reading(SOURCE, resource, tuple(used), tuple(used.values()), (at,) * len(used)),
        Reading(SOURCE, resource, names, given, (at,) * len(names), Subject.PODS),
    )
