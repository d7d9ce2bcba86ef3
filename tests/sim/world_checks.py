"""Checks of a simulation against plain recounts of its objects."""

from __future__ import annotations

from collections import Counter

from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.model.pod import Pod
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage import RESOURCES
from trimtab.sim.world import World


def over_allocatable(world: World) -> list[str]:
    """Nodes whose pods request more than allocatable, by plain sums over the world's objects."""
    found = []
    for each in world.nodes.values():
        for resource in RESOURCES:
            pods = (pod for pod in world.pods.values() if pod.node == each.node.name and pod.holds_resources)
            requested, allocatable = (
                sum(pod.requests.of(resource) for pod in pods),
                dict(each.node.allocatable)[resource],
            )
            if requested > allocatable:
                found.append(f"{each.node.name}: {requested} {resource} of {allocatable}")
    return found


class Bound:
    """Notes every pod that gets a node, and complains if it had one."""

    def __init__(self, world: World) -> None:
        self.counts: Counter[str] = Counter()
        self.moved: list[str] = []
        world.pod_listeners.append(self._changed)

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None or not after.node or (before is not None and before.node == after.node):
            return
        self.counts[after.uid] += 1
        if before is not None and before.node:
            self.moved.append(after.key)


def agrees(simulation: Simulation) -> list[str]:
    """Where the engine's view differs from the world; empty when all is quiet."""
    world, cluster = simulation.world, simulation.engine.cluster
    wrong = [
        f"pod {uid}" for uid in world.pods.keys() | cluster.pods.keys() if world.pods.get(uid) != cluster.pods.get(uid)
    ]
    table = {each.name: each for each in cluster.node_table.nodes}
    stored = {name: each.node for name, each in world.nodes.items()}
    wrong += [f"node {name}" for name in table.keys() | stored.keys() if table.get(name) != stored.get(name)]
    kinds = set(simulation.settings.kinds)
    wrong += [
        f"{each.kind} {each.key}"
        for each in world.objects.values()
        if each.kind in kinds and cluster.objects.get(each.kind, each.key) != each
    ]
    return [*wrong, *check_invariants(cluster)]
