"""Decides whether each bound pod may be on its node for itself: choice, taints, room, ports; leaves company to others."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from tests.live.checker.picking import CORDON, tolerates, untolerated, wants
from tests.live.checker.scene import Scene, name
from tests.live.room import clash, offers, ports, takes


def strays(scene: Scene) -> Iterator[str]:
    """A pod on a node that does not exist."""
    return (f"{name(pod)} is on {pod['spec']['nodeName']}, which does not exist" for pod in scene.strays)


def choice(scene: Scene) -> Iterator[str]:
    """A pod on a node that its selector or its required node affinity does not pick."""
    found = ((pod, scene.node_of(pod)) for pod in scene.bound)
    return (f"{name(pod)} did not want {name(node)}" for pod, node in found if not wants(pod, node))


def taints(scene: Scene) -> Iterator[str]:
    """A pod beside a taint that it does not tolerate."""
    for pod in scene.bound:
        for taint in untolerated(pod, scene.node_of(pod)):
            yield f"{name(pod)} does not tolerate {taint['key']} of {pod['spec']['nodeName']}"


def cordons(scene: Scene) -> Iterator[str]:
    """A pod on an unschedulable node, unless it tolerates that."""
    for pod in scene.bound:
        if scene.node_of(pod)["spec"].get("unschedulable") and not tolerates(pod, CORDON):
            yield f"{name(pod)} is on {pod['spec']['nodeName']}, which is unschedulable"


def room(scene: Scene) -> Iterator[str]:
    """A node whose pods take more than it offers."""
    for node, pods in scene.residents.items():
        taken: Counter[str] = Counter()
        for pod in pods:
            taken.update(takes(pod))
        offered = offers(scene.named[node])
        over = sorted(kind for kind in taken if taken[kind] > offered.get(kind, 0))
        yield from (f"{node} is over: {kind} {taken[kind]} of {offered.get(kind, 0)}" for kind in over)


def host_ports(scene: Scene) -> Iterator[str]:
    """Two pods of one node that hold the same port."""
    for node, pods in scene.residents.items():
        held = [(pod, port) for pod in pods for port in ports(pod)]
        for (one, its), (other, theirs) in combinations(held, 2):
            if one is not other and clash(its, theirs):
                yield f"{name(one)} and {name(other)} both hold {its[2]}/{its[1]} of {node}"
