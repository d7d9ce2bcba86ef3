"""CPU time per decision with and without cached evaluations, by cluster size; and events per second of CPU."""

from __future__ import annotations

import gc
import json
import time

from msgspec.structs import replace

from bench.api_objects import node, pending_pod, running_pod
from bench.workloads import WORKLOADS, Json, worker
from trimtab.config.registry import default_profile
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.engine import Engine
from trimtab.core.framework.choose import choose
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.model.events import BindDone, LeaseAcquired, NodeUpserted, PodUpserted, Synced, Turn
from trimtab.core.model.instructions import Bind
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.settings import Settings
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader

SIZES = (1_000, 5_000, 15_000)
ROUNDS = 3
PROFILE = default_profile("default-scheduler")


def nodes(count: int) -> list[Node]:
    reader = NodeReader()
    read = [reader.read(node(i)) for i in range(count)]
    return [replace(each, name=f"node-{i}") for i, each in enumerate(read) if isinstance(each, Node)]


def plain_pods(count: int, templates: int) -> list[Pod]:
    """Pending pods of this many templates without volumes, with increasing versions."""
    reader = PodReader()
    wanted = [i for i in range(templates * 2) if i % 10 != 9][:templates]
    read = [reader.read(pending_pod(i)) for i in wanted]
    kinds = [each for each in read if isinstance(each, Pod)]
    return [
        replace(kinds[i % len(kinds)], uid=f"uid-{i}", name=f"pod-{i}", version=i + 1, scheduler_name=PROFILE.name)
        for i in range(count)
    ]


def cluster_of(size: int) -> Cluster:
    cluster = Cluster()
    for each in nodes(size):
        cluster.upsert_node(each)
    return cluster


def decide(cluster: Cluster, pods: list[Pod], cache: EvaluationCache | None) -> float:
    """CPU microseconds per pod to choose a node and assume it."""
    started = time.process_time()
    for pod in pods:
        verdict = choose(cluster.view, pod, PROFILE, (), cache)
        cluster.assume(pod, verdict.node)  # type: ignore[union-attr]
    spent = time.process_time() - started
    for pod in pods:
        cluster.forget(pod.uid)
    return spent / len(pods) * 1e6


def constrained_costs(size: int = 5_000, there: int = 20_000) -> list[tuple[str, ...]]:
    """One row per workload, with running pods of the same workload: uncached and cached, and relative to plain pods."""
    rows: list[tuple[str, ...]] = []
    plain = [1.0, 1.0]
    for name, made in WORKLOADS.items():
        cluster, read = _zonal_cluster(size), PodReader()
        pods = [each for i in range(there + 1_000) if isinstance(each := read.read(_stored(made(i), i)), Pod)]
        for i, pod in enumerate(pods[:there]):
            if name != "apart" or i < size // 2:  # else no node would be left
                cluster.assume(pod, f"node-{i % size:05d}")
        figures = [_best(cluster, pods[there : there + 50], None), _best(cluster, pods[there:], EvaluationCache())]
        plain = figures if name == "plain" else plain
        ratios = [f"{figure / basic:.1f}x" for figure, basic in zip(figures, plain, strict=True)]
        rows.append((name, f"{figures[0]:,.0f}", ratios[0], f"{figures[1]:,.0f}", ratios[1]))
    return rows


def _zonal_cluster(size: int) -> Cluster:
    cluster, reader = Cluster(), NodeReader()
    for i in range(size):
        read = reader.read(_stored(worker(i), i))
        assert isinstance(read, Node)
        cluster.upsert_node(read)
    return cluster


def _stored(document: Json, i: int) -> bytes:
    """The object as the API server sends it."""
    metadata = {**document["metadata"], "uid": f"uid-{i}", "resourceVersion": str(i + 1)}
    return json.dumps({**document, "metadata": metadata}).encode()


def _best(cluster: Cluster, pods: list[Pod], cache: EvaluationCache | None) -> float:
    decide(cluster, pods, cache)
    return min(decide(cluster, pods, cache) for _ in range(ROUNDS))


def decision_costs() -> list[tuple[str, ...]]:
    """One row per size: uncached, cached with one template, cached with 90 interleaved; the best of the rounds."""
    rows = []
    for size in SIZES:
        cluster = cluster_of(size)
        figures = []
        for pods, keep in ((plain_pods(50, 1), False), (plain_pods(1000, 1), True), (plain_pods(1000, 90), True)):
            figures.append(_best(cluster, pods, EvaluationCache() if keep else None))
        rows.append((f"{size:,}", *(f"{figure:,.0f}" for figure in figures), f"{figures[0] / figures[1]:.1f}x"))
    return rows


def event_rates() -> list[tuple[str, ...]]:
    """Per second of CPU through `Engine.handle`: running pods added, and whole lifecycles of pending ones."""
    return [("running pods added", _upsert_rate(20_000)), ("pods from pending to bound", _lifecycle_rate(5_000))]


def _engine() -> Engine:
    engine = Engine(Settings((PROFILE,)))
    for each in nodes(5_000):
        engine.handle(NodeUpserted(each, 0.0))
    for kind in engine.state.settings.kinds:
        engine.handle(Synced(kind, 0.0))
    engine.handle(LeaseAcquired(1, 0.0))
    return engine


def _upsert_rate(count: int) -> str:
    engine, reader = _engine(), PodReader()
    read = [reader.read(running_pod(i)) for i in range(count)]
    pods = [replace(pod, node=f"node-{i % 5_000}") for i, pod in enumerate(read) if isinstance(pod, Pod)]
    started = time.process_time()
    for pod in pods:
        engine.handle(PodUpserted(pod, 1.0))
    return f"{len(pods) / (time.process_time() - started):,.0f}"


def _lifecycle_rate(count: int) -> str:
    """From added to observed bound, with as many pending binds as a live engine has."""
    engine, pods = _engine(), plain_pods(count, 1)
    by_uid = {pod.uid: pod for pod in pods}
    gc.collect()
    started = time.process_time()
    for pod in pods:
        engine.handle(PodUpserted(pod, 1.0))
    while instructions := engine.handle(Turn(8, 2.0)):
        for bind in (each for each in instructions if isinstance(each, Bind)):
            engine.handle(BindDone(bind.uid, bind.node, 3.0))
            bound = replace(by_uid[bind.uid], node=bind.node, version=by_uid[bind.uid].version + count)
            engine.handle(PodUpserted(bound, 4.0))
    return f"{count / (time.process_time() - started):,.0f}"
