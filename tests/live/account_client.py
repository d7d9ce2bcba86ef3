"""A client with a service account's token, and permissions beyond the shipped ones, so that a policy alone refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tools.controlplane.client import Client, Document
from tools.controlplane.rig import Rig
from trimtab.wire.outcomes import Reply
from trimtab.wire.requests import Request

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
STEPS = "application/json-patch+json"
ALL_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
RBAC = "rbac.authorization.k8s.io"


def grant_too_much(rig: Rig, account: str, resources: Mapping[str, Sequence[str]]) -> None:
    """Bind all verbs on these resources, by API group, to the account of the namespace trimtab."""
    rules = [{"apiGroups": [group], "resources": [*each], "verbs": [*ALL_VERBS]} for group, each in resources.items()]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "trimtab"}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "too-much"}, "rules": rules}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "too-much"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "too-much"},
        "subjects": [subject],
    }
    rig.apply([role, binding])


class Account:
    """A client with the token of an account in the namespace trimtab; each answer is the status with the message."""

    def __init__(self, rig: Rig, name: str, headers: Mapping[str, str] | None = None) -> None:
        token = rig.service_account_token("trimtab", name)
        port = int(rig.url.rpartition(":")[2])
        self.client = Client(port, rig.credentials.tls(), {"Authorization": f"Bearer {token}", **(headers or {})})

    def asks(self, method: str, path: str, body: Any = None, content: str = "application/json") -> tuple[int, str]:
        sent = None if body is None else json.dumps(body).encode()
        status, answer = self.client.raw(method, path, sent, content)
        return status, json.loads(answer).get("message", "")

    def patches(self, path: str, change: Any, content: str = MERGE) -> tuple[int, str]:
        """A list of operations is a JSON patch."""
        return self.asks("PATCH", path, change, STEPS if isinstance(change, list) else content)

    async def send(self, request: Request) -> Reply:
        """As the product's own transport sends it."""
        status, answer = self.client.raw(request.method, request.path, request.body, request.content_type)
        return Reply(status, answer)

    def sends(self, request: Request) -> int:
        return self.client.raw(request.method, request.path, request.body, request.content_type)[0]


def assert_refused(account: Account, rig: Rig, path: str, change: Any, words: str, content: str = MERGE) -> None:
    """403 with these words, and the object is unchanged."""
    before = rig.admin.get(path)["metadata"]["resourceVersion"]
    status, message = account.patches(path, change, content)
    assert (403, True) == (status, words in message), message
    assert before == rig.admin.get(path)["metadata"]["resourceVersion"]


def labelled(**labels: str | None) -> Document:
    return {"metadata": {"labels": labels}}


def annotated(**annotations: str | None) -> Document:
    return {"metadata": {"annotations": annotations}}
