"""Taking a further replica back, if the workload changes at the same moment."""

from __future__ import annotations

import json

from trimtab.core.model.events import SurgeDone, SurgeFailed
from trimtab.core.model.instructions import EndSurge
from trimtab.kube.surge import CONFLICTS, end_surge
from trimtab.wire.outcomes import Reply
from trimtab.wire.requests import Request

SURGE = EndSurge("uid-1", "default", "Deployment", "web", "web-1")
MARKS = {"trimtab.dev/surge-for": "uid-1", "trimtab.dev/surge-replicas": "3"}


class Deployments:
    """An API server with one Deployment of four replicas, whose status changes between so many reads and writes."""

    def __init__(self, changes: int) -> None:
        self.changes, self.version, self.replicas = changes, 1, 4

    async def send(self, request: Request) -> Reply:
        if request.method == "GET":
            metadata = {"resourceVersion": str(self.version), "labels": MARKS}
            return Reply(200, json.dumps({"metadata": metadata, "spec": {"replicas": self.replicas}}).encode())
        if "/pods/" in request.path:
            return Reply(200, b"{}")
        if self.changes:
            self.changes, self.version = self.changes - 1, self.version + 1
        body = json.loads(request.body or b"{}")
        if body["metadata"]["resourceVersion"] != str(self.version):
            return Reply(409, b"{}")
        self.replicas = body["spec"]["replicas"]
        return Reply(200, b"{}")


async def test_a_conflict_is_tried_again() -> None:
    """The Deployment's controller writes its status just when the replacement is ready, which is when we write, too."""
    server = Deployments(changes=2)
    assert SurgeDone("uid-1", 7.0, ended=True) == await end_surge(SURGE, server.send, lambda: 7.0)
    assert 3 == server.replicas


async def test_conflicts_without_end_are_reported() -> None:
    """The engine sends it again later."""
    server = Deployments(changes=CONFLICTS + 1)
    assert isinstance(await end_surge(SURGE, server.send, lambda: 7.0), SurgeFailed)
    assert 4 == server.replicas
