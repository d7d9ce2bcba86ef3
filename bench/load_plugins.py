"""Microseconds of CPU that each plugin over measured load adds to a decision at 5,000 nodes; other plugins' are left out.

Between two scrapes a placement changes one node, and only that one is judged again; after a scrape all are. The pods are of
one Deployment, as in a rollout. Figures are the best of some rounds.
"""

from __future__ import annotations

import time
from itertools import count, islice
from random import Random

from bench.deciding import cluster_of, plain_pods
from trimtab.config.registry import IN_TREE
from trimtab.core.cluster.state import Cluster
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Reading, Unit
from trimtab.core.model.verdict import Placement
from trimtab.core.placing.choose import choose
from trimtab.core.placing.laps import Laps
from trimtab.core.placing.profile import Profile, everywhere
from trimtab.core.placing.templates import Templates

NODES = 5_000
ROUNDS = 5
BETWEEN = 200  # pods between two scrapes
SCRAPES = 20
EVERY = 15.0


class Spent(Laps):
    """CPU seconds that went to one plugin."""

    def __init__(self, plugin: str) -> None:
        self.plugin, self.seconds = plugin, 0.0
        self.last = time.process_time()

    def mark(self, point: str, plugin: str) -> None:
        now = time.process_time()
        if plugin == self.plugin:
            self.seconds += now - self.last
        self.last = now


def scrape(cluster: Cluster, at: float, dice: Random) -> None:
    """Every node at some share of its CPU and memory, measured a moment ago."""
    names = tuple(node.name for node in cluster.columns.nodes)
    for resource in (CPU, MEMORY):
        shares = tuple(dice.uniform(0.1, 0.7) for _ in names)
        cluster.read_load((Reading("bench", resource, names, shares, (at - 5.0,) * len(names), unit=Unit.SHARE),), at)


def costs() -> list[tuple[str, ...]]:
    """A row a plugin: microseconds a pod between scrapes, and for the first pod after one."""
    dice, cluster, times = Random(1), cluster_of(NODES), count(0.0, EVERY)
    for at in islice(times, SCRAPES):
        scrape(cluster, at, dice)
    names = [name for name, kind in IN_TREE.items() if Change.LOAD in getattr(kind, "reads", Change.NOTHING)]
    fit = IN_TREE["NodeResourcesFit"]()
    rows: list[tuple[str, ...]] = []
    for name in sorted({*names, "LowestLoad"} & {*IN_TREE}):
        profile = everywhere("default-scheduler", [(fit, 1), (IN_TREE[name](), 1)])
        rounds = [_round(cluster, profile, name, at, dice) for at in islice(times, ROUNDS)]
        kept, fresh = (min(figures) for figures in zip(*rounds, strict=True))
        rows.append((name, f"{kept:,.0f}", f"{fresh:,.0f}"))
    return rows


def _round(cluster: Cluster, profile: Profile, name: str, at: float, dice: Random) -> tuple[float, float]:
    kept, pods = Templates(), plain_pods(BETWEEN + 2, 1)
    _place(cluster, pods[0], profile, kept, Spent(name))  # first contact: everything is asked for the first time
    scrape(cluster, at, dice)
    after, between = Spent(name), Spent(name)
    _place(cluster, pods[1], profile, kept, after)
    for pod in pods[2:]:
        _place(cluster, pod, profile, kept, between)
    for pod in pods:
        cluster.forget(pod.uid)
    return between.seconds / BETWEEN * 1e6, after.seconds * 1e6


def _place(cluster: Cluster, pod: Pod, profile: Profile, kept: Templates, spent: Spent) -> None:
    spent.last = time.process_time()
    verdict = choose(cluster.view, pod, profile, (), kept, spent)
    assert isinstance(verdict, Placement)
    cluster.assume(pod, verdict.node)


if __name__ == "__main__":
    for line in costs():
        print(*line)
