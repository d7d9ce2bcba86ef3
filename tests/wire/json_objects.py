"""Kubernetes objects as JSON, for the tests."""

from __future__ import annotations

import json
from typing import Any

from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.wire.decoding import Malformed
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader

Json = dict[str, Any]


def pod_json(spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    identity = {"name": "web-1", "namespace": "shop", "uid": "u-1", "resourceVersion": "41"}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**identity, **metadata},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]} if spec is None else spec,
        "status": {} if status is None else status,
    }


def node_json(spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    identity = {"name": "n-1", "uid": "nu-1", "resourceVersion": "7"}
    return {"kind": "Node", "metadata": {**identity, **metadata}, "spec": spec or {}, "status": status or {}}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def read_pod(value: Json, reader: PodReader | None = None) -> Pod:
    found = (reader or PodReader()).read(encoded(value))
    assert not isinstance(found, Malformed), found.error
    return found


def read_node(value: Json) -> Node:
    found = NodeReader().read(encoded(value))
    assert not isinstance(found, Malformed), found.error
    return found


def container(name: str = "web", requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    return {"name": name, "image": f"{name}:1", "resources": {"requests": requests, "limits": limits}, **more}
