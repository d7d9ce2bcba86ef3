"""A burst of equal pods spreads under every spreading policy, although metrics are two minutes late.

The setup: equal nodes with some load; a scrape every 15 seconds that shows the usage of 120 seconds ago; then pods of one
Deployment, at once or one by one, each of which uses more or less than its request as soon as it is placed.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from trimtab.config.registry import IN_TREE
from trimtab.core.engine import Engine
from trimtab.core.framework.profile import multipoint
from trimtab.core.model.change import Change
from trimtab.core.model.events import (
    BindDone,
    LeaseAcquired,
    NodeUpserted,
    PodUpserted,
    SamplesRead,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Bind
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY, PODS, PodRequests
from trimtab.core.settings import Settings

START, SCRAPE, LAG = 1000.0, 15.0, 120.0
WARM = 600.0
SLACK = 2
ROOM = {CPU: 16_000, MEMORY: 64 << 30}
OWNER = Owner("ReplicaSet", "burst", "burst", "apps/v1")

# The first fills a node up to its target before it goes on to the next: that is what it is for. To the second a node is the
# safer the more its pods ask for beyond what they use, so that such pods draw others; it spreads limits, not pods.
PACKING = {"TargetLoadPacking", "LowRiskOverCommitment"}
BY_LOAD = [name for name, kind in IN_TREE.items() if Change.LOAD in getattr(kind, "depends_on", Change.NOTHING)]
SPREADING = sorted({*BY_LOAD, *({"LowestLoad"} & {*IN_TREE})} - PACKING)


@dataclass(frozen=True, slots=True)
class Burst:
    """How many pods on how many nodes, how far apart in time, their requests and usage, and the nodes' load."""

    pods: int
    nodes: int
    gap: float = 0.0
    asks: int = 200  # thousandths of a core, and as many MiB
    uses: float = 0.5  # of what it asks for
    load: float = 0.2  # of each node, before
    metered: str = "pods and nodes"

    @property
    def most(self) -> int:
        return math.ceil(self.pods / self.nodes) + SLACK

    @property
    def has_room(self) -> bool:
        """Beyond that nodes are overfull one as the other, and chance may decide."""
        return self.load * ROOM[CPU] + self.most * self.asks * max(self.uses, 1.0) <= ROOM[CPU]


@dataclass(slots=True)
class Stage:
    """An engine with one policy, and what really happens on the nodes."""

    policy: str
    burst: Burst
    engine: Engine = field(init=False)
    placed: dict[str, tuple[float, str]] = field(default_factory=dict)
    scraped: float = START - WARM
    version: int = 1

    def __post_init__(self) -> None:
        settings = Settings((multipoint("burst", [(IN_TREE[self.policy](), 1)]),))
        self.engine = Engine(settings)
        for kind in settings.kinds:
            self.engine.handle(Synced(kind, 0.0))
        self.engine.handle(LeaseAcquired(1, 0.0))
        room = (*ROOM.items(), (PODS, 1000))
        for number in range(self.burst.nodes):
            self.engine.handle(NodeUpserted(Node(f"n{number}", f"n{number}", 1, allocatable=room, capacity=room), 0.0))

    def played(self) -> Counter[str]:
        """How many pods each node has got in the end."""
        for number in range(self.burst.pods):
            at = START + number * self.burst.gap
            self.scrape_until(at)
            self.engine.handle(Tick(at))
            self.place(f"p{number}", at)
        return Counter(node for _, node in self.placed.values())

    def place(self, name: str, at: float) -> None:
        asks = (CPU, self.burst.asks), (MEMORY, self.burst.asks << 20)
        demand = PodRequests(asks, asks, asks[0][1], asks[1][1], asks)
        pod = Pod(name, "default", name, self.next(), owner=OWNER, created=at, scheduler_name="burst", requests=demand)
        self.engine.handle(PodUpserted(pod, at))
        for wish in self.engine.handle(Turn(1, at)):
            if isinstance(wish, Bind):
                self.engine.handle(BindDone(name, wish.node, at))
                bound = replace(pod, node=wish.node, phase="Running", started=at, version=self.next())
                self.engine.handle(PodUpserted(bound, at))
                self.placed[name] = at, wish.node

    def next(self) -> int:
        self.version += 1
        return self.version

    def scrape_until(self, at: float) -> None:
        while self.burst.metered and self.scraped <= at:
            self.engine.handle(Tick(self.scraped))
            readings = tuple(self.reading(resource, subject) for resource in ROOM for subject in self.subjects())
            self.engine.handle(SamplesRead(readings, self.scraped))
            self.scraped += SCRAPE

    def subjects(self) -> tuple[Subject, ...]:
        return (Subject.NODES, Subject.PODS) if "pods" in self.burst.metered else (Subject.NODES,)

    def reading(self, resource: str, subject: Subject) -> Reading:
        """As it was 120 seconds before the scrape."""
        then = self.scraped - LAG
        each = self.burst.uses * (self.burst.asks if resource == CPU else self.burst.asks << 20)
        there = {name: node for name, (since, node) in self.placed.items() if since <= then}
        values = {f"default/{name}": each for name in there}
        if subject is Subject.NODES:
            running = Counter(there.values())
            busy = self.burst.load * ROOM[resource]
            values = {f"n{number}": busy + running[f"n{number}"] * each for number in range(self.burst.nodes)}
        return Reading("meter", resource, tuple(values), tuple(values.values()), (then,) * len(values), subject)


def crowded(policy: str, burst: Burst) -> str:
    """What is wrong with how the burst was spread; empty if nothing is."""
    counts = Stage(policy, burst).played()
    highest = max(counts.values(), default=0)
    return f"{policy}: {highest} pods on one node, {burst.most} allowed: {counts}" if highest > burst.most else ""


bursts = st.builds(
    Burst,
    pods=st.integers(1, 40),
    nodes=st.integers(1, 6),
    gap=st.sampled_from((0.0, 0.5, 5.0, 20.0)),
    asks=st.sampled_from((50, 200, 500, 2000)),
    uses=st.sampled_from((0.0, 0.2, 1.0, 2.0)),
    load=st.sampled_from((0.0, 0.1, 0.35, 0.6, 0.78, 0.85, 0.97)),
    metered=st.sampled_from(("pods and nodes", "nodes", "")),
).filter(lambda burst: burst.has_room)


@pytest.mark.parametrize("policy", SPREADING)
@settings(max_examples=25, deadline=None)
@given(burst=bursts)
def test_bursts_spread(policy: str, burst: Burst) -> None:
    """Of n equal pods no one of m equal nodes gets more than n/m rounded up and two more, however late samples are."""
    assert "" == crowded(policy, burst)


@pytest.mark.parametrize("policy", SPREADING)
@pytest.mark.parametrize("gap", [0.0, 2.0])
def test_a_large_burst_spreads(policy: str, gap: float) -> None:
    """200 pods on 20 nodes, at once or over the time in which the first of them are measured."""
    assert "" == crowded(policy, Burst(200, 20, gap=gap))
