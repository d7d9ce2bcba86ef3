"""An API server in memory for the objects of an installation: read, list by a label, apply and delete them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.wire.requests import Request

Object = dict[str, Any]
KINDS = {
    "v1": ("Namespace", "Node", "ConfigMap", "Pod"),
    "apps/v1": ("Deployment",),
    "coordination.k8s.io/v1": ("Lease",),
}
CLUSTER_SCOPED = ("Namespace", "Node")
MISSING = json_response({"kind": "Status", "reason": "NotFound"}, 404)


def plural(kind: str) -> str:
    return f"{kind.lower()}s"


class ObjectServer:
    """Holds objects by their path; `on_request` sees each request first, and may change or raise something."""

    def __init__(self, *objects: Object, kinds: Mapping[str, tuple[str, ...]] = MappingProxyType({})) -> None:
        self.kinds = {version: (*KINDS.get(version, ()), *kinds.get(version, ())) for version in {**KINDS, **kinds}}
        self.refused = ""  # the end of paths that nobody may read
        self.objects = {self._path(each): each for each in objects}
        self.on_request: Callable[[Request], None] = lambda request: None
        self.transport = FakeTransport(self._answer)
        self._version = 1

    def has(self, kind: str, name: str) -> bool:
        return any(path.endswith(f"/{plural(kind)}/{name}") for path in self.objects)

    def _path(self, item: Object) -> str:
        version, metadata = item["apiVersion"], item["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        return f"{root}{scope}/{plural(item['kind'])}/{metadata['name']}"

    def _answer(self, request: Request) -> FakeResponse:
        self.on_request(request)
        path, _, query = request.path.partition("?")
        if self.refused and path.endswith(self.refused):
            return json_response({"kind": "Status", "message": "forbidden"}, 403)
        if path == "/apis":
            groups = [{"preferredVersion": {"groupVersion": version}} for version in self.kinds if "/" in version]
            return json_response({"groups": groups})
        if (version := path.removeprefix("/apis/").removeprefix("/api/")) in self.kinds:
            return json_response({"resources": [self._resource(kind) for kind in self.kinds[version]]})
        if "accessreviews" in path:
            return json_response({"status": {"allowed": True}}, 201)
        return self._of_object(request, path, parse_qs(query))

    def _resource(self, kind: str) -> Object:
        return {"name": plural(kind), "kind": kind, "namespaced": kind not in CLUSTER_SCOPED, "verbs": ["list"]}

    def _of_object(self, request: Request, path: str, query: dict[str, list[str]]) -> FakeResponse:
        if request.method in ("PATCH", "PUT", "POST"):
            return self._write(request, path, query)
        if path in self.objects:
            found = self.objects.pop(path) if request.method == "DELETE" else self.objects[path]
            return json_response(found)
        collection = path.rpartition("/")[2]
        if collection not in {plural(kind) for kinds in self.kinds.values() for kind in kinds}:
            return MISSING
        wanted = dict(each.split("=") for each in unquote(query.get("labelSelector", [""])[0]).split(",") if each)
        items = [item for where, item in self.objects.items() if f"/{collection}/" in where and _matches(item, wanted)]
        return json_response({"kind": "List", "metadata": {"resourceVersion": "5"}, "items": items})

    def _write(self, request: Request, path: str, query: dict[str, list[str]]) -> FakeResponse:
        self._version += 1
        item = json.loads(request.body)
        if path.startswith("/api/v1/nodes/"):  # a merge patch of labels
            labels = self.objects[path]["metadata"]["labels"]
            for key in item["metadata"]["labels"]:
                labels.pop(key)
            return json_response(self.objects[path])
        item["metadata"] = {**item["metadata"], "uid": "u", "resourceVersion": str(self._version)}
        if "dryRun" not in query:
            self.objects[self._path(item)] = item
        return json_response(item, 201 if request.method == "POST" else 200)


def _matches(item: Object, wanted: dict[str, str]) -> bool:
    labels = item["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in wanted.items())
