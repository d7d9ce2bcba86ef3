"""Nodes that die: kwok's kubelets without one of them, and what the node lifecycle and pod garbage collectors do then."""

from __future__ import annotations

from pathlib import Path

import yaml

from tools.controlplane.client import Document
from tools.controlplane.rig import Rig

DEAD = "trimtab.test/dead"
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
STRATEGIC = "application/strategic-merge-patch+json"


def write_stages(stock: Path, target: Path, without_kubelet: str) -> Path:
    """kwok's stages, where a node with the annotation stays as it is, and pods on one node neither start nor end."""
    stages = [each for each in yaml.safe_load_all(stock.read_text()) if each]
    for each in stages:
        expressions = each["spec"]["selector"]["matchExpressions"]
        if each["spec"]["resourceRef"]["kind"] == "Node":
            expressions.append({"key": f'.metadata.annotations["{DEAD}"]', "operator": "DoesNotExist"})
        else:
            expressions.append({"key": ".spec.nodeName", "operator": "NotIn", "values": [without_kubelet]})
    target.write_text(yaml.safe_dump_all(stages))
    return target


def set_ready(rig: Rig, node: str, ready: bool) -> None:
    """As the node lifecycle controller does when a kubelet is silent, or speaks again."""
    path, annotation, taints = f"/api/v1/nodes/{node}", None if ready else "true", [] if ready else [UNREACHABLE]
    rig.admin.patch(path, {"metadata": {"annotations": {DEAD: annotation}}, "spec": {"taints": taints}})
    condition = {"type": "Ready", "status": "True" if ready else "Unknown"}
    rig.admin.patch(f"{path}/status", {"status": {"conditions": [condition]}}, STRATEGIC)


def collect(rig: Rig, pod: Document) -> None:
    """As the pod garbage collector does with the pods of a node that is gone."""
    meta = pod["metadata"]
    rig.admin.raw("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=0")
