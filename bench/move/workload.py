"""The applications of `make bench-move`: what they request, what each of their pods uses over time, where they start.

Thirty Deployments with 150 pods on twenty nodes, all of it drawn from one seed, and so the same in every turn. Requests are
spread evenly over eighteen of the nodes, and two have just joined. What pods use differs from what they request, as it does
everywhere: a third of the applications has a surge of 20 to 35 minutes within the hour, so that some nodes run hot and others
do not.

What a pod uses belongs to its *place*, one of the replicas of its Deployment: the pod that replaces an evicted one goes on
where that one was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tools.controlplane.client import Document
from trimtab.core.model.duration import MINUTE
from trimtab.sim.randomness import Floats, key_of, uniforms
from trimtab.sim.usage_patterns import Noisy, Steady, Surge, Total, UsagePattern

NODES, CORES, GIBIBYTES = 20, 8, 16
JOINED_LATE = 2  # nodes without pods at the start
GIB = 1 << 30
APPLICATIONS = 30
REPLICAS = (3, 4, 5, 6, 7)
REQUESTS = (400, 600, 700, 900)  # millicores
SURGING = 3  # every third application
NOISE = 0.1

Place = tuple[str, int]
"""A Deployment and a number below its replicas."""


@dataclass(frozen=True)
class Application:
    """A Deployment: millicores and bytes that its pods request, and what they use on average."""

    name: str
    replicas: int
    cpu: int
    memory: int
    usage: UsagePattern

    def deployment(self, namespace: str) -> Document:
        """Its manifest; kube-scheduler places its pods."""
        labels = {"app": self.name}
        requests = {"cpu": f"{self.cpu}m", "memory": str(self.memory)}
        container = {"name": "main", "image": "app", "resources": {"requests": requests}}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }


@dataclass(frozen=True)
class Workload:
    """All applications of one seed."""

    seed: int

    @cached_property
    def applications(self) -> tuple[Application, ...]:
        return tuple(map(self._application, range(APPLICATIONS)))

    @property
    def places(self) -> list[Place]:
        return [(each.name, number) for each in self.applications for number in range(each.replicas)]

    def cores(self, place: Place, seconds: float) -> float:
        """What the pod at this place uses at this time."""
        application = self._by_name[place[0]]
        key = key_of(self.seed, "usage", *place)
        share = _between(0.5, 1.5, float(uniforms(key, np.array([-1]))[0]))
        amounts = application.usage.amounts(np.array([max(seconds, 0.0)]), 0.0, key)
        return float(amounts[0]) * share / 1000

    def bytes_used(self, place: Place) -> float:
        """Memory is used as requested, and is never what makes a node hot."""
        return float(self._by_name[place[0]].memory)

    @cached_property
    def first_nodes(self) -> dict[Place, str]:
        """Where the pod of each place starts: siblings are spread first, then requests, as kube-scheduler does."""
        nodes = NODES - JOINED_LATE
        requested, siblings = np.zeros(nodes), np.zeros((nodes, APPLICATIONS))
        found: dict[Place, str] = {}
        for index, application in self._in_turn():
            best = int(np.lexsort((np.arange(nodes), requested, siblings[:, index]))[0])
            requested[best] += application.cpu
            place = (application.name, int(siblings[:, index].sum()))
            siblings[best, index] += 1
            found[place] = f"node-{best}"
        return found

    @cached_property
    def _by_name(self) -> dict[str, Application]:
        return {each.name: each for each in self.applications}

    def _in_turn(self) -> Iterator[tuple[int, Application]]:
        """One pod of each application, then another one of each, until all have their replicas."""
        for number in range(max(REPLICAS)):
            yield from ((index, each) for index, each in enumerate(self.applications) if number < each.replicas)

    def _application(self, index: int) -> Application:
        name = f"app-{index:02d}"
        draws: Floats = uniforms(key_of(self.seed, "application", name), np.arange(4))
        cpu = REQUESTS[index % len(REQUESTS)]
        base = Steady(cpu * _between(0.3, 1.0, draws[0]))
        begins = _between(5, 25, draws[1]) * MINUTE
        ends = begins + _between(20, 35, draws[2]) * MINUTE
        surge = Surge(cpu * _between(1.0, 2.5, draws[3]), begins, ends, 5 * MINUTE)
        usage = Total((base, surge)) if index % SURGING == 0 else base
        return Application(name, REPLICAS[index % len(REPLICAS)], cpu, cpu * GIB // 1000, Noisy(usage, NOISE))


def _between(low: float, high: float, share: float) -> float:
    return low + (high - low) * float(share)
