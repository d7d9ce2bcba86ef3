"""Plain nodes and pods for tests and benchmarks."""

from collections.abc import Mapping, Sequence
from typing import Any

from tools.controlplane.client import Document

CONDITIONS = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}


def node(
    name: str,
    cpu: str = "8",
    memory: str = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    extended: Mapping[str, str] | None = None,
) -> Document:
    """A node that is ready from the start: the API server keeps the status given on creation."""
    room = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": str(pods), **(extended or {})}
    known = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**known, **(labels or {})}},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": kind, "status": status} for kind, status in CONDITIONS.items()],
        },
    }


def pod(
    name: str,
    namespace: str = "default",
    cpu: str = "100m",
    memory: str = "128Mi",
    scheduler: str = "default-scheduler",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Document:
    """A pod with one container; other fields of its spec (nodeName, tolerations, …) as keywords."""
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }
