"""The planner takes the best move, again and again: how far its plans are from the best ones, found by trying all of them."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from tests.core.engine_harness import OURS
from tests.core.load.builders import cluster_of, ingest, pod_reading, reading, running_pod
from tests.core.rescheduling.test_planner import plan
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.resources import CPU
from trimtab.core.rescheduling.objective import LIMIT, NodeLoad, penalties
from trimtab.core.tables import Floats

NODES = tuple("abcdef")
CORES, SNAPSHOTS, COST = 4000.0, 6, 16.0
POOLS, TOLERANCE = 30, 0.02


class Pool(NamedTuple):
    """Usage in millicores by pod and snapshot, the newest last, and the node of each pod by number."""

    usage: Floats
    on: tuple[int, ...]


def random_pool(seed: int) -> Pool:
    """24 pods on 6 nodes: one or two nodes are hot, with few large pods each, and the others are about half full."""
    dice = Random(seed)
    on, sizes = list[int](), list[float]()
    for node in range(len(NODES)):
        hot = node < 1 + seed % 2
        pods = 3 if hot else 4 + (node % 2)
        shares = [dice.uniform(0.5, 1.5) for _ in range(pods)]
        full = CORES * (dice.uniform(0.86, 0.95) if hot else dice.uniform(0.3, 0.65))
        on += [node] * pods
        sizes += [full * share / sum(shares) for share in shares]
    usage = [[size * dice.uniform(0.95, 1.05) for _ in range(SNAPSHOTS)] for size in sizes]
    return Pool(np.array(usage), tuple(on))


def measured(pool: Pool) -> Cluster:
    cluster = cluster_of(*NODES)
    cluster.load_store.keep_snapshots(True)
    for number, node in enumerate(pool.on):
        pod = running_pod(f"p{number}", NODES[node], cpu="10m", owner=f"owner-{number}", started=-5000.0)
        cluster.upsert_pod(replace(pod, ready=True, scheduler_name=OURS))
    for step in range(SNAPSHOTS):
        used = pool.usage[:, step]
        sums = np.bincount(pool.on, used, minlength=len(NODES))
        ingest(
            cluster,
            reading(dict(zip(NODES, sums.tolist(), strict=True)), 300.0 * step),
            pod_reading({f"p{number}": value for number, value in enumerate(used.tolist())}, 300.0 * step),
        )
    return cluster


def best_total(cluster: Cluster) -> float:
    """The lowest sum of penalties and costs, over all ways to place the pods of the nodes that are above the limit.

    A node that pods are moved to must stay within the limit, as for the planner.
    """
    load = NodeLoad(cluster, {CPU: LIMIT})
    hot = np.flatnonzero(load.load(np.arange(len(NODES)))[:, 0] > LIMIT)
    movable = [slot for slot in load._slots.tolist() if cluster.load_store.placed_pods.row[slot] in hot]
    usage = load.pods(np.array(movable)).usage[0] * load.per_unit[0, 0]
    home = cluster.load_store.placed_pods.row[movable]
    rest = load.load(np.arange(len(NODES))).copy()
    np.subtract.at(rest, home, usage)
    chosen = np.array(list(product(range(len(NODES)), repeat=len(movable))))  # by way and pod
    there = chosen[:, :, None] == np.arange(len(NODES))
    full = rest + np.einsum("wpn,ps->wns", there.astype(np.float32), usage)
    came = (there & (home[:, None] != np.arange(len(NODES)))).any(axis=1)
    allowed = ~(came & (full[:, :, 0] > LIMIT)).any(axis=1)
    totals = penalties(full, load.weights).sum(axis=1) + COST * (chosen != home).sum(axis=1)
    return float(totals[allowed].min())


def test_plans_are_close_to_the_best_ones() -> None:
    """Within 2 % over all pools: penalties that are left, and what the moves cost."""
    planned, best, moved = 0.0, 0.0, 0
    for seed in range(POOLS):
        cluster = measured(random_pool(seed))
        found = plan(cluster, cost=COST)
        exact = best_total(cluster)
        total = found.penalty_after + COST * len(found.moves)
        assert total >= exact * (1 - 1e-4), "a plan cannot be better than the best one"
        planned, best, moved = planned + total, best + exact, moved + len(found.moves)
    assert moved >= POOLS  # there was something to plan
    assert planned <= best * (1 + TOLERANCE), f"{planned:.1f} is {planned / best - 1:.1%} above {best:.1f}"
