"""A fake API server for the doctor's tests: nodes, pods, access reviews, and answers to patches."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from email.utils import formatdate
from typing import Any

from tests.config.config_files import FILE
from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from tests.sources.fake_prometheus import NODES, NOW
from trimtab.apps.controller_configuration import configuration_for
from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.doctor.finding import Area, Finding, Severity
from trimtab.apps.doctor.run_checks import DoctorRun, run_checks
from trimtab.config.configuration import Configuration
from trimtab.config.kube_scheduler import parse
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.wire.requests import Request, rfc3339

URL = "https://x:6443"


class FakeApiServer:
    """Nodes, running pods, the rights that are denied (`verb resource`), whose clock is so far ahead, other pages, and
    what it says to patches."""

    def __init__(
        self,
        nodes: Sequence[Node] = NODES,
        denied: Collection[str] = (),
        ahead: float = 0.0,
        pages: Mapping[str, FakeResponse] | None = None,
        pods: Sequence[Pod] = (),
        patched: Callable[[Request], FakeResponse] = lambda request: json_response({"kind": "Node"}),
    ) -> None:
        self.nodes, self.denied, self.clock_ahead, self.pages, self.pods = nodes, denied, ahead, dict(pages or {}), pods
        self.on_patch = patched
        self.transport = FakeTransport(self._answer)
        self.reviews: list[dict[str, Any]] = []

    def _answer(self, request: Request) -> FakeResponse:
        path = request.path.partition("?")[0]
        if request.method == "PATCH":
            return self.on_patch(request)
        if path in self.pages:
            return self.pages[path]
        if path == "/version":
            return json_response({"gitVersion": "v1.35.8"}, date=formatdate(NOW + self.clock_ahead, usegmt=True))
        if path == "/api/v1/nodes":
            return _list_response("NodeList", [*map(_node_json, self.nodes)])
        if path == "/api/v1/pods":
            return _list_response("PodList", [*map(_pod_json, self.pods)])
        if path.endswith("selfsubjectreviews"):
            return json_response({"status": {"userInfo": {"username": "ann"}}}, 201)
        return self._reviewed(json.loads(request.body)) if path.endswith("accessreviews") else json_response(b"", 404)

    def _reviewed(self, review: dict[str, Any]) -> FakeResponse:
        self.reviews.append(review)
        attributes = review["spec"]["resourceAttributes"]
        resource = "/".join(attributes[key] for key in ("resource", "subresource") if key in attributes)
        return json_response({"status": {"allowed": f"{attributes['verb']} {resource}" not in self.denied}}, 201)

    async def run_doctor(self, configuration: Configuration, account: str = "") -> tuple[Finding, ...]:
        case = DoctorRun(configuration, account, now=lambda: NOW)
        return await run_checks(case, ApiServer(self.transport, URL))


def _list_response(kind: str, items: list[dict[str, Any]]) -> FakeResponse:
    return json_response({"kind": kind, "metadata": {"resourceVersion": "5"}, "items": items})


def _pod_json(pod: Pod) -> dict[str, Any]:
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "resourceVersion": "1"}
    started = {"startTime": rfc3339(pod.started)} if pod.started is not None else {}
    spec = {"nodeName": pod.node, "containers": []}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", **started}}


def _node_json(node: Node) -> dict[str, Any]:
    addresses = [{"type": "InternalIP", "address": each} for each in node.addresses]
    ready = {"type": "Ready", "status": "True" if node.ready else "False"}
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.taints]
    return {
        "spec": {"taints": taints},
        "metadata": {"name": node.name, "uid": node.name, "resourceVersion": "1", "labels": dict(node.labels)},
        "status": {"allocatable": room, "capacity": room, "addresses": addresses, "conditions": [ready]},
    }


def configured(*documents: str) -> Configuration:
    """What `trimtab run` reads from these documents, label rules left to a labeller."""
    return configuration_for(("scheduler",), parse("\n---\n".join(documents), FILE), FILE)


def findings_of(
    findings: Sequence[Finding], severity: Severity, area: Area | None = None
) -> list[tuple[str, str, str]]:
    """Subject, sentence and remedy of those of this severity, in one area or all."""
    mine = [each for each in findings if each.severity is severity and area in (None, each.area)]
    return [(each.subject, each.message, each.remedy) for each in mine]
