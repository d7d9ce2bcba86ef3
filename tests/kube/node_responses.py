"""Lists and watch events of nodes, as an API server writes them."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.kube.fake_transport import FakeResponse, json_response
from trimtab.wire.requests import Request


def node(name: str, version: int) -> dict[str, Any]:
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


def listing(version: int, *items: dict[str, Any]) -> FakeResponse:
    return json_response({"kind": "NodeList", "metadata": {"resourceVersion": str(version)}, "items": list(items)})


def page(version: int, token: str, *items: dict[str, Any]) -> FakeResponse:
    meta = {"resourceVersion": str(version), "continue": token}
    return json_response({"kind": "NodeList", "metadata": meta, "items": list(items)})


def line(kind: str, name: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": node(name, version)}


def bookmark(version: int) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": str(version)}}}


def expired() -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def query(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


def is_probe(request: Request) -> bool:
    return "1" == query(request).get("limit")
