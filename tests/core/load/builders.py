"""Readings, pods and clusters for load tests in one line; load is read by node name instead of by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from tests.build import node, pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, ContainerRequests, pod_requests
from trimtab.wire.quantity import nanos

Figures = Mapping[str, float]


def reading(values: Figures, at: float = 0.0, resource: str = CPU, **more: Any) -> Reading:
    """Of nodes, unless `subject` says otherwise."""
    source = more.pop("source", "meter")
    return Reading(source, resource, tuple(values), tuple(values.values()), (at,) * len(values), **more)


def pod_reading(values: Figures, at: float = 0.0, resource: str = CPU, **more: Any) -> Reading:
    named = {f"default/{name}": value for name, value in values.items()}
    return reading(named, at, resource, subject=Subject.PODS, **{"source": "pods", **more})


def ingest(cluster: Cluster, *readings: Reading, at: float | None = None) -> Counter[str]:
    """At the time of the newest sample, unless another is given; returns what was rejected."""
    newest = max((moment for each in readings for moment in each.measured), default=0.0)
    return cluster.ingest_samples(readings, newest if at is None else at)


def cluster_of(*names: str, settings: LoadSettings | None = None) -> Cluster:
    """Nodes with 4 cores and 8 GiB."""
    cluster = Cluster()
    if settings is not None:
        cluster.load_store.apply_settings(settings)
    for name in names:
        cluster.upsert_node(node(name, version=1))
    return cluster


def running_pod(
    name: str, on: str, cpu: str = "500m", limit: str = "", started: float | None = None, **more: Any
) -> Pod:
    """A pod on its node, with an owner if one is named (`owner`)."""
    owner = more.pop("owner", "")
    asks = ContainerRequests({CPU: nanos(cpu)} if cpu else {}, {CPU: nanos(limit)} if limit else {})
    made = pod(name, on=on, requests=pod_requests([asks]), version=more.pop("version", 1), **more)
    return replace(made, started=started, owner=Owner("ReplicaSet", owner, f"uid-{owner}") if owner else None)


def by_name(cluster: Cluster, column: np.ndarray[Any, Any]) -> dict[str, float | None]:
    """Rounded, None for NaN."""
    figures = {node.name: float(column[row]) for row, node in enumerate(cluster.node_table.nodes)}
    return {name: None if figure != figure else round(figure, 6) for name, figure in figures.items()}


def pods_sampled_at(cluster: Cluster) -> np.ndarray[Any, Any]:
    """When the newest sample of each pod was taken, by slot; NaN for none."""
    return np.asarray(np.fmax.reduce([each.pods.sampled_at for each in cluster.load_store.accounting.values()]))


def unsampled(cluster: Cluster) -> dict[str, float | None]:
    return by_name(cluster, cluster.view.load.unsampled(CPU))


def expected(cluster: Cluster) -> dict[str, float | None]:
    return by_name(cluster, cluster.view.load.expected(CPU))
