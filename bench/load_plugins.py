"""CPU time that each load-aware plugin adds to a decision at 5,000 nodes.

Between two scrapes a placement changes one node, and only that one is evaluated again; after a scrape all are. The pods
belong to one Deployment, as in a rollout. Results are the best of several rounds.
"""

from __future__ import annotations

import time
from itertools import count, islice
from random import Random

from bench.decisions import cluster_of, plain_pods
from trimtab.config.registry import IN_TREE
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.choose import choose
from trimtab.core.framework.evaluation import PluginTimer
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.profile import Profile, multipoint
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Unit
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.schedule_result import Placement

NODES = 5_000
ROUNDS = 5
PODS_PER_SCRAPE = 200  # pods between two scrapes
SCRAPES = 20
SCRAPE_INTERVAL = 15.0


class CpuTimer(PluginTimer):
    """CPU seconds spent in one plugin."""

    def __init__(self, plugin: str) -> None:
        self.plugin, self.seconds = plugin, 0.0
        self.last = time.process_time()

    def record(self, point: str, plugin: str) -> None:
        now = time.process_time()
        if plugin == self.plugin:
            self.seconds += now - self.last
        self.last = now


def scrape(cluster: Cluster, at: float, rng: Random) -> None:
    """Random usage of every node, measured a moment ago."""
    names = tuple(node.name for node in cluster.node_table.nodes)
    for resource in (CPU, MEMORY):
        shares = tuple(rng.uniform(0.1, 0.7) for _ in names)
        cluster.ingest_samples(
            (Reading("bench", resource, names, shares, (at - 5.0,) * len(names), unit=Unit.FRACTION),), at
        )


def costs() -> list[tuple[str, ...]]:
    """One row per plugin: microseconds per pod between scrapes, and for the first pod after one."""
    dice, cluster, times = Random(1), cluster_of(NODES), count(0.0, SCRAPE_INTERVAL)
    for at in islice(times, SCRAPES):
        scrape(cluster, at, dice)
    names = [name for name, kind in IN_TREE.items() if Change.LOAD in getattr(kind, "depends_on", Change.NOTHING)]
    fit = IN_TREE["NodeResourcesFit"]()
    rows: list[tuple[str, ...]] = []
    for name in sorted({*names, "LowestLoad"} & {*IN_TREE}):
        profile = multipoint("default-scheduler", [(fit, 1), (IN_TREE[name](), 1)])
        rounds = [_round(cluster, profile, name, at, dice) for at in islice(times, ROUNDS)]
        kept, fresh = (min(figures) for figures in zip(*rounds, strict=True))
        rows.append((name, f"{kept:,.0f}", f"{fresh:,.0f}"))
    return rows


def _round(cluster: Cluster, profile: Profile, name: str, at: float, rng: Random) -> tuple[float, float]:
    kept, pods = EvaluationCache(), plain_pods(PODS_PER_SCRAPE + 2, 1)
    _place(cluster, pods[0], profile, kept, CpuTimer(name))  # warm up: fills the cache
    scrape(cluster, at, rng)
    after, between = CpuTimer(name), CpuTimer(name)
    _place(cluster, pods[1], profile, kept, after)
    for pod in pods[2:]:
        _place(cluster, pod, profile, kept, between)
    for pod in pods:
        cluster.forget(pod.uid)
    return between.seconds / PODS_PER_SCRAPE * 1e6, after.seconds * 1e6


def _place(cluster: Cluster, pod: Pod, profile: Profile, cache: EvaluationCache, spent: CpuTimer) -> None:
    spent.last = time.process_time()
    verdict = choose(cluster.view, pod, profile, (), cache, spent)
    assert isinstance(verdict, Placement)
    cluster.assume(pod, verdict.node)


if __name__ == "__main__":
    for line in costs():
        print(*line)
