"""Reads recorded cases and builds a cluster from their objects."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.extra_objects import extra_objects
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import PodRequests
from trimtab.wire.decoding import Malformed
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader

Case = Mapping[str, Any]

FOLDER = Path(__file__).parents[3] / "shared" / "conformance"
SUFFIX = ".json.gz"

# One of each for all cases, as in real life: what they remember of one object must not colour another.
PODS = PodReader()
NODES = NodeReader()


class Unreadable(Exception):
    """The wire cannot read, or only in part, what the recorded plugins could."""


def cases(folder: Path) -> dict[str, list[Case]]:
    """All cases by the name of their plugin, random and upstream ones together."""
    found: dict[str, list[Case]] = defaultdict(list)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with gzip.open(path, "rb") as file:
            content = json.load(file)
        if content["format"] != 1:
            raise ValueError(f"{path.name}: format {content['format']} is not one that is understood here")
        found[content["plugin"]] += content["cases"]
    return dict(found)


def read_pod(data: Mapping[str, Any]) -> Pod:
    pod = PODS.read(json.dumps(data).encode())
    if isinstance(pod, Malformed):
        raise Unreadable(str(pod))
    if pod.spec_error:
        raise Unreadable(f"pod {pod.key}: {pod.spec_error}")
    return pod


def read_node(data: Mapping[str, Any]) -> Node:
    node = NODES.read(json.dumps(data).encode())
    if isinstance(node, Malformed):
        raise Unreadable(str(node))
    if node.error:
        raise Unreadable(f"node {node.name}: {node.error}")
    return node


def cluster_of(case: Case) -> Cluster:
    """The recorded snapshot: its nodes, the pods on them, and all other objects."""
    cluster = Cluster()
    for each in extra_objects(case):
        cluster.upsert_object(each)
    for node in case.get("nodes") or ():
        cluster.upsert_node(read_node(node))
    for pod in case.get("existingPods") or ():
        cluster.upsert_pod(read_pod(pod))
    return cluster


def nominated(case: Case) -> list[Pod]:
    """Nominated pods, as the recorded plugins saw them.

    kube-scheduler remembers nominations as references and looks the pods up in its queue. Where none were queued, what
    was added to a node is a pod with a name and nothing else: no requests, no labels, priority 0.
    """
    known = list(map(read_pod, case.get("nominatedPods") or ()))
    if case.get("nominatedQueued"):
        return known
    bare = PodRequests(nonzero=(), assigned_nonzero_cpu=0, assigned_nonzero_memory=0)
    return [
        Pod(each.uid, each.namespace, each.name, nominated_node=each.nominated_node, requests=bare) for each in known
    ]
