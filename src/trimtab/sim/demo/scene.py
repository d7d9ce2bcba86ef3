"""The building blocks of demo scenarios."""

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
    """One scene: `start` schedules its actions on the clock, `ends_at` is a time of day.

    frame_seconds: between two snapshots. idle: hardly any pod is scheduled, so ticks and scrapes may be less frequent.
    """

    title: str
    description: str
    ends_at: float
    frame_seconds: float
    start: Callable[[World], None]
    idle: bool = False


class Scenario(Struct, frozen=True):
    """Consecutive scenes on one cluster, which is empty at first."""

    starts_at: float
    scenes: tuple[Scene, ...]


def node(name: str, cores: int, memory_gib: int, *taints: Taint) -> Node:
    amounts = ((CPU, cores * 1000), (MEMORY, memory_gib * 1024 * MIB), (PODS, 110))
    labels = {"kubernetes.io/hostname": name}
    return Node(name, uid=name, labels=labels, taints=taints, allocatable=amounts, capacity=amounts)
