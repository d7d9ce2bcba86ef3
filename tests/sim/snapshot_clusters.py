"""Small clusters as snapshot files, for tests of what-if questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.wire.json_objects import Json, container, encoded, node_json, pod_json
from trimtab.sim.snapshot_document import History, Metadata, Sample, Usage, encode_document
from trimtab.sim.snapshot_file import ClusterSnapshot, read_snapshot

TAKEN = datetime(2026, 1, 31, 8, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"


def worker(name: str, cpu: str = "4", memory: str = "8Gi", zone: str = "", **spec: Any) -> Json:
    room = {"cpu": cpu, "memory": memory, "pods": "110"}
    labels = {"kubernetes.io/hostname": name, **({ZONE: zone} if zone else {})}
    return node_json(spec, {"allocatable": room, "capacity": room}, name=name, uid=f"node-{name}", labels=labels)


def replica(
    name: str,
    on: str = "",
    cpu: str = "1",
    memory: str = "1Gi",
    owner: str = "web",
    kind: str = "ReplicaSet",
    **spec: Any,
) -> Json:
    """A pod of a workload, or with owner "" of nobody; on a node, or pending."""
    owners = [{"kind": kind, "name": owner, "uid": f"owner-{owner}", "apiVersion": "apps/v1", "controller": True}]
    return pod_json(
        {
            "containers": [container(requests={"cpu": cpu, "memory": memory})],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        {"phase": "Running" if on else "Pending"},
        name=name,
        uid=f"pod-{name}",
        labels={"app": owner or name},
        creationTimestamp="2026-01-31T07:00:00Z",
        **({"ownerReferences": owners} if owner else {}),
    )


def budget(name: str, app: str, allowed: int) -> Json:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"budget-{name}", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def used(cpu: float, memory: float = 2.0**29) -> Sample:
    """Millicores and bytes."""
    return Sample(TAKEN.timestamp(), cpu, memory)


def write_cluster(
    folder: Path,
    nodes: Iterable[Json],
    pods: Iterable[Json] = (),
    objects: Mapping[str, Iterable[Json]] | None = None,
    usage: Usage | None = None,
    history: History | None = None,
    **metadata: Any,
) -> Path:
    """A snapshot file of this cluster."""
    every = {"nodes": nodes, "pods": pods, **(objects or {})}
    raw = {kind: [encoded(each) for each in items] for kind, items in every.items()}
    file = folder / "cluster.json"
    file.write_bytes(b"".join(encode_document(Metadata(TAKEN, **metadata), raw, usage, history)))
    return file


def cluster(folder: Path, *arguments: Any, **options: Any) -> ClusterSnapshot:
    """The same, read back."""
    return read_snapshot(write_cluster(folder, *arguments, **options))
