"""A small cluster with a hot node, as a snapshot file, for tests of plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.sim.snapshot_clusters import TAKEN, budget, replica, used, worker, write_cluster
from tests.wire.json_objects import Json
from trimtab.sim.snapshot_document import History, PastUsage, Usage

HOT, COLD = "n-1", "n-2"
GIB = 2.0**30
UID = "cluster-uid"


def running(name: str, on: str, owner: str = "", **spec: Any) -> Json:
    """A ready pod, of an owner of its own unless named: pods of one owner do not move together."""
    pod = replica(name, on, "500m", owner=owner or f"owner-of-{name}", **spec)
    ready = {
        "phase": "Running",
        "startTime": "2026-01-31T07:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {**pod, "status": ready}


def namespace(name: str, uid: str) -> Json:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": "3"}}


NODES = (worker(HOT), worker(COLD))
PODS = (*(running(f"web-{number}", HOT) for number in range(4)), running("calm", COLD))
# Otherwise the only pod of an owner would stay.
BUDGETS = tuple(budget(f"of-{each['metadata']['name']}", f"owner-of-{each['metadata']['name']}", 1) for each in PODS)
# Millicores by pod: n-1 uses 3.8 of its 4 cores, n-2 half of one.
CPU = {**{f"web-{number}": 900.0 for number in range(4)}, "calm": 500.0}


def usage_of(pods: Iterable[Json], cpu: Mapping[str, float] = CPU, system: float = 200.0) -> Usage:
    """What the pods use, and what their nodes use besides."""
    nodes = {HOT: system, COLD: 0.0}
    samples = {}
    for pod in pods:
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        nodes[node] = nodes.get(node, 0.0) + cpu[name]
        samples[f"shop/{name}"] = used(cpu[name], GIB / 4)
    return Usage({name: used(total, GIB) for name, total in nodes.items()}, samples)


def history_of(pods: Iterable[Json], steps: int = 12, cpu: Mapping[str, float] = CPU) -> History:
    """An hour of five-minute steps in which every pod has used what it uses now."""
    series = {
        f"shop/{name}": PastUsage((cpu[name],) * steps, (GIB / 4,) * steps)
        for name in (pod["metadata"]["name"] for pod in pods)
    }
    return History(TAKEN.timestamp() - 300.0 * steps, 300.0, {}, series)


def hot_cluster(folder: Path, pods: Iterable[Json] = PODS, cpu: Mapping[str, float] = CPU, **options: Any) -> Path:
    """The snapshot file: by default with usage, history and the cluster's identity."""
    every = tuple(pods)
    placed = [pod for pod in every if "nodeName" in pod["spec"]]
    options = {
        "usage": usage_of(placed, cpu),
        "history": history_of(placed, cpu=cpu),
        "objects": {
            "namespaces": [namespace("kube-system", UID)],
            "poddisruptionbudgets": list(BUDGETS),
        },
        **options,
    }
    return write_cluster(folder, NODES, every, **options)
