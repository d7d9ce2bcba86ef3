"""Snapshot files for the tests."""

from __future__ import annotations

import gzip
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.wire.json_objects import node_json, pod_json

HEAD = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ClusterSnapshot"}
TAKEN = {"taken": "2026-01-31T08:00:00Z", "trimtab": "1.0", "kubernetes": "v1.35.0"}
ROOM = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "capacity": {"cpu": "4", "memory": "8Gi"}}


def document(**fields: Any) -> dict[str, Any]:
    """A snapshot of one node with one pod on it."""
    objects = {
        "nodes": [node_json(status=ROOM)],
        "pods": [pod_json({"nodeName": "n-1", "containers": []}, {"phase": "Running"})],
        "namespaces": [{"metadata": {"name": "shop", "uid": "ns"}}],
    }
    return deepcopy({**HEAD, "metadata": TAKEN, "objects": objects, **fields})


def write(folder: Path, content: Any, name: str = "cluster.json") -> Path:
    """Write a document, or any bytes, compressed if the name says so."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    file = folder / name
    file.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return file
