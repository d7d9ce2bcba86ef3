"""Decides what a pretended API server says to the doctor; leaves what must be found to the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from email.utils import formatdate
from typing import Any

from tests.config.files import FILE
from tests.kube.fake_transport import Answer, FakeTransport, answered
from tests.sources.fake_prometheus import NODES, NOW
from trimtab.apps.doctor.examination import Case, examine
from trimtab.apps.doctor.finding import Area, Finding, Severity
from trimtab.apps.doctor.server import Named
from trimtab.config.configuration import Configuration
from trimtab.config.scheduler import read
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.kube.stamps import to_the_second
from trimtab.wire.request import Request

PLACE = "https://x:6443"


class Server:
    """Nodes, running pods, the rights that are denied (`verb resource`), whose clock is so far ahead, other pages, and
    what it says to patches."""

    def __init__(
        self,
        nodes: Sequence[Node] = NODES,
        denied: Collection[str] = (),
        ahead: float = 0.0,
        pages: Mapping[str, Answer] | None = None,
        pods: Sequence[Pod] = (),
        patched: Callable[[Request], Answer] = lambda request: answered({"kind": "Node"}),
    ) -> None:
        self.nodes, self.denied, self.ahead, self.pages, self.pods = nodes, denied, ahead, dict(pages or {}), pods
        self.patched = patched
        self.transport = FakeTransport(self._answer)
        self.reviews: list[dict[str, Any]] = []

    def _answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        if request.method == "PATCH":
            return self.patched(request)
        if path in self.pages:
            return self.pages[path]
        if path == "/version":
            return answered({"gitVersion": "v1.35.8"}, date=formatdate(NOW + self.ahead, usegmt=True))
        if path == "/api/v1/nodes":
            return _listed("NodeList", [*map(_written, self.nodes)])
        if path == "/api/v1/pods":
            return _listed("PodList", [*map(_written_pod, self.pods)])
        if path.endswith("selfsubjectreviews"):
            return answered({"status": {"userInfo": {"username": "ann"}}}, 201)
        return self._reviewed(json.loads(request.body)) if path.endswith("accessreviews") else answered(b"", 404)

    def _reviewed(self, review: dict[str, Any]) -> Answer:
        self.reviews.append(review)
        asked = review["spec"]["resourceAttributes"]
        resource = "/".join(asked[key] for key in ("resource", "subresource") if key in asked)
        return answered({"status": {"allowed": f"{asked['verb']} {resource}" not in self.denied}}, 201)

    async def examined(self, configuration: Configuration, account: str = "") -> tuple[Finding, ...]:
        case = Case(configuration, account, now=lambda: NOW)
        return await examine(case, Named(self.transport, PLACE))


def _listed(kind: str, items: list[dict[str, Any]]) -> Answer:
    return answered({"kind": kind, "metadata": {"resourceVersion": "5"}, "items": items})


def _written_pod(pod: Pod) -> dict[str, Any]:
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "resourceVersion": "1"}
    started = {"startTime": to_the_second(pod.started)} if pod.started is not None else {}
    spec = {"nodeName": pod.node, "containers": []}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", **started}}


def _written(node: Node) -> dict[str, Any]:
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
    return read("\n---\n".join(documents), FILE)


def told(findings: Sequence[Finding], severity: Severity, area: Area | None = None) -> list[tuple[str, str, str]]:
    """Subject, sentence and remedy of those of this severity, in one area or all."""
    mine = [each for each in findings if each.severity is severity and area in (None, each.area)]
    return [(each.subject, each.says, each.remedy) for each in mine]
