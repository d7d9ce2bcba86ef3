"""The audit policy of the test API server, and reading its log.

Writes of pods and nodes are logged in full, so that a checker knows requests and allocatable at any time; all requests of
service accounts are logged, so that the use of their permissions can be counted.
"""

import json
from pathlib import Path

from tools.controlplane.client import Document

WRITES = ["create", "update", "patch", "delete", "deletecollection"]
LOGGED_IN_FULL = ["pods", "pods/binding", "pods/eviction", "pods/status", "pods/resize", "nodes", "nodes/status"]

POLICY: Document = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        # Heartbeats of nodes: frequent and irrelevant.
        {"level": "None", "namespaces": ["kube-node-lease"]},
        {"level": "RequestResponse", "verbs": WRITES, "resources": [{"group": "", "resources": LOGGED_IN_FULL}]},
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
    """Write the policy and return the API server's flags for it; the log is never rotated."""
    policy.write_text(json.dumps(POLICY))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=1000000"]


class AuditLog:
    """The log of one start of the API server. Tests ask for its events again and again: each line is parsed once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0  # bytes
        self._events: list[Document] = []

    def events(self) -> list[Document]:
        """All events so far, in order; a last line truncated by a crash is skipped."""
        if self._path.exists():
            with self._path.open("rb") as lines:
                lines.seek(self._read)
                for line in lines:
                    if line.endswith(b"\n"):
                        self._events.append(json.loads(line))
                        self._read += len(line)
        return self._events
