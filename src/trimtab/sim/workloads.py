"""Simulated pods: their requests, their usage over the day, and what metrics show of it.

A usage pattern is a function of time, in seconds since midnight, that returns the used fraction of the request. It draws all
random numbers when it is created, so that it returns the same value for the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random

from msgspec import Struct

from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY, NANOS, ContainerRequests, PodRequests, pod_requests

UsagePattern = Callable[[float], float]
ResourceUsage = Mapping[str, float]  # by resource

HOUR = 3600.0
DAY = 24 * HOUR
MIB = 1024 * 1024
SOURCE = "sim"
_NOISE_MINUTES = 97  # until noise repeats; a prime, so that it is not in phase with the hours


class Workload(Struct, frozen=True):
    """A pod to be created: its name, its requests (millicores, bytes), and the fractions of them that it uses."""

    name: str
    cpu_request: int
    memory_request: int
    cpu_usage: UsagePattern
    memory_usage: UsagePattern

    @property
    def requests(self) -> PodRequests:
        requests = {CPU: self.cpu_request * (NANOS // 1000), MEMORY: self.memory_request * NANOS}
        return pod_requests([ContainerRequests(requests)])

    def usage(self, now: float) -> dict[str, float]:
        return {CPU: self.cpu_request * self.cpu_usage(now), MEMORY: self.memory_request * self.memory_usage(now)}


def constant(fraction: float) -> UsagePattern:
    return lambda now: fraction


def daily_wave(low: float, high: float, peak: float) -> UsagePattern:
    """A sine wave with a period of one day, highest at `peak`."""
    return lambda now: low + (high - low) * (1 + math.cos(2 * math.pi * (now - peak) / DAY)) / 2


def ramp(first: float, last: float, begins: float, ends: float) -> UsagePattern:
    """Linear from `first` to `last`, constant before and after."""
    return lambda now: first + (last - first) * min(max((now - begins) / (ends - begins), 0.0), 1.0)


def burst(level: float, begins: float, ends: float, rise: float) -> UsagePattern:
    """Zero before and after; rises to `level` within `rise` seconds, and falls as fast to zero by `ends`."""
    return lambda now: level * min(max(min(now - begins, ends - now) / rise, 0.0), 1.0)


def noisy(pattern: UsagePattern, rng: Random, by: float) -> UsagePattern:
    """The pattern times a random factor for each minute, at most `by` above or below 1."""
    factors = [1 + rng.uniform(-by, by) for _ in range(_NOISE_MINUTES)]
    return lambda now: pattern(now) * factors[int(now // 60) % _NOISE_MINUTES]


class WantedUsage(Struct, frozen=True):
    """What nodes (by name) and their running pods (by UID) would use with unlimited capacity."""

    nodes: Mapping[str, ResourceUsage]
    pods: Mapping[str, ResourceUsage]


def sample(nodes: Mapping[str, Node], pods: Mapping[str, Pod], wanted: WantedUsage, now: float) -> tuple[Reading, ...]:
    """Readings of CPU and memory for all nodes and running pods; usage is limited by the capacity of the node."""
    return tuple(reading for resource in (CPU, MEMORY) for reading in _readings_of(resource, nodes, pods, wanted, now))


def _readings_of(
    resource: str, nodes: Mapping[str, Node], pods: Mapping[str, Pod], wanted: WantedUsage, now: float
) -> tuple[Reading, Reading]:
    """On an overloaded node every pod gets the same fraction of what it wants."""
    demand = {name: wanted.nodes[name][resource] for name in nodes}
    allocatable = {name: float(dict(node.allocatable)[resource]) for name, node in nodes.items()}
    used = {name: min(demand[name], allocatable[name]) for name in nodes}
    names = tuple(pods[uid].key for uid in wanted.pods)
    pod_usage = tuple(
        usage[resource] * used[pods[uid].node] / demand[pods[uid].node] for uid, usage in wanted.pods.items()
    )
    return (
        Reading(SOURCE, resource, tuple(used), tuple(used.values()), (now,) * len(used)),
        Reading(SOURCE, resource, names, pod_usage, (now,) * len(names), Subject.PODS),
    )
