"""Clusters whose pods were measured for a while, and what strategies see of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tests import build
from trimtab.config.registry import default_profile
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.profile import Profile
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.objective import NodeLoad
from trimtab.core.rescheduling.strategies.interface import Strategy, StrategyContext

HOUR = 3600.0
NOW = 1000 * HOUR + 899.0  # just before the end of a five-minute bucket
LIMITS = {CPU: 0.8, MEMORY: 0.9}
PROFILE = default_profile("default-scheduler")

Usage = Mapping[str, Sequence[float]]  # by pod: millicores or bytes, one sample each five minutes, the newest last


def large(name: str, **more: Any) -> Node:
    """A node of 10 cores and 10 GiB."""
    return build.node(name, **{"cpu": "10", "memory": "10Gi", **more})


def running(name: str, on: str, owner: str = "web", kind: str = "ReplicaSet", created: float = 0.0, **more: Any) -> Pod:
    """A ready pod; without an owner if that is empty."""
    owned_by = Owner(kind, owner, f"uid-{owner}") if owner else None
    return replace(build.pod(name, on=on, **more), owner=owned_by, created=created, started=created, ready=True)


def measured(*objects: Node | Pod | Object, cpu: Usage | None = None, memory: Usage | None = None) -> Cluster:
    """Nodes use what their pods use, and nothing else."""
    cluster = build.cluster(*(each for each in objects if not isinstance(each, Pod)))
    cluster.load_store.keep_snapshots(True)
    for each in objects:
        if isinstance(each, Pod):
            cluster.upsert_pod(each)
    lengths = [len(each) for usage in (cpu, memory) if usage for each in usage.values()]
    for step in range(max(lengths, default=1)):
        at = NOW - 300.0 * (max(lengths, default=1) - 1 - step)
        sample(cluster, at, *({name: each[step] for name, each in (usage or {}).items()} for usage in (cpu, memory)))
    return cluster


def sample(cluster: Cluster, at: float, cpu: Mapping[str, float], memory: Mapping[str, float] | None = None) -> None:
    """One sample of all pods and nodes; pods that are not named use nothing."""
    cluster.ingest_samples((*readings(cluster, CPU, cpu, at), *readings(cluster, MEMORY, memory or {}, at)), at)


def readings(cluster: Cluster, resource: str, usage: Mapping[str, float], at: float) -> tuple[Reading, Reading]:
    pods = {pod.key: float(usage.get(pod.name, 0.0)) for pod in cluster.pods.values() if pod.node}
    nodes = {node.name: 0.0 for node in cluster.node_table.nodes}
    for pod in cluster.pods.values():
        if pod.node:
            nodes[pod.node] += pods[pod.key]
    return (
        Reading("nodes", resource, tuple(nodes), tuple(nodes.values()), (at,) * len(nodes)),
        Reading("pods", resource, tuple(pods), tuple(pods.values()), (at,) * len(pods), subject=Subject.PODS),
    )


def context(cluster: Cluster, now: float = NOW, limits: Mapping[str, float] = LIMITS, **more: Any) -> StrategyContext:
    """Every pod is one of the default scheduler."""
    profile_of: Callable[[str], Profile | None] = more.pop("profile_of", lambda name: PROFILE)
    return StrategyContext(cluster, NodeLoad(cluster, limits), now, profile_of, **more)


def suggested(strategy: Strategy, cluster: Cluster, **more: Any) -> dict[str, str]:
    """Reasons by node, in the order of suggestions."""
    return {each.node: each.reason for each in strategy.suggest(context(cluster, **more))}


def suggested_pods(strategy: Strategy, cluster: Cluster, **more: Any) -> list[str]:
    """Names of the pods that are suggested, sorted."""
    suggestions = list(strategy.suggest(context(cluster, **more)))
    return sorted(cluster.pods[uid].name for each in suggestions for uid in each.pods)
