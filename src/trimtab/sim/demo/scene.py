"""What a scene of the demo is and what scenes are made of; which ones there are is left to `heat` and `day`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from trimtab.core.model.node import Node
from trimtab.core.model.resources import CPU, MEMORY, PODS
from trimtab.core.model.taints import Taint
from trimtab.sim.workloads import MIB
from trimtab.sim.world import World

SCHEDULER = "trimtab"


class Scene(Struct, frozen=True):
    """One scene: `begin` puts its doings on the clock, `ends` is a time of day, `frame` the seconds between pictures.

    `idle` says that next to nothing is placed in it, so that hours may pass with fewer looks.
    """

    title: str
    description: str
    ends_at: float
    frame_seconds: float
    start: Callable[[World], None]
    idle: bool = False


class Scenario(Struct, frozen=True):
    """Scenes that follow each other on one cluster, which is empty when they begin."""

    starts_at: float
    scenes: tuple[Scene, ...]


def node(name: str, cores: int, memory_gib: int, *taints: Taint) -> Node:
    offers = ((CPU, cores * 1000), (MEMORY, memory_gib * 1024 * MIB), (PODS, 110))
    labels = {"kubernetes.io/hostname": name}
    return Node(name, uid=name, labels=labels, taints=taints, allocatable=offers, capacity=offers)
