"""Decides what the API server writes down and how it is read back; leaves judging it to the reader.

Pods and nodes are logged whole at every write, so that a judge knows at any time what each asked for or offered;
requests of service accounts are logged one and all, so that the use of their permissions can be counted.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from tools.controlplane.client import Document

WRITES = ["create", "update", "patch", "delete", "deletecollection"]
WATCHED_CLOSELY = ["pods", "pods/binding", "pods/eviction", "pods/status", "pods/resize", "nodes", "nodes/status"]

POLICY: Document = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        # Heartbeats of the nodes: many, and nobody's decision.
        {"level": "None", "namespaces": ["kube-node-lease"]},
        {"level": "RequestResponse", "verbs": WRITES, "resources": [{"group": "", "resources": WATCHED_CLOSELY}]},
        {
            "level": "RequestResponse",
            "verbs": WRITES,
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {
            "level": "Metadata",
            "verbs": WRITES,
            "resources": [{"group": group, "resources": ["events"]} for group in ("", "events.k8s.io")],
        },
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


def flags(policy: Path, log: Path) -> list[str]:
    """Write the policy and name it and the log to the API server; the log is never rotated."""
    policy.write_text(json.dumps(POLICY))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=1000000"]


def events(log: Path) -> Iterator[Document]:
    """The events of one log in the order they were written; a last line cut short by a crash is left out."""
    if not log.exists():
        return
    with log.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
