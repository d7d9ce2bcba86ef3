"""A service account with the read-only role that the documentation shows, and commands that run under it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.live.trimtab_process import ROOT
from tools.controlplane.client import Document
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

ACCOUNT = "system:serviceaccount:watching:reader"
AGGREGATION = "clusterrole-aggregation-controller"  # which gives the ClusterRole view its rules
PAGE = ROOT / "docs" / "snapshot-and-shadow.md"


def documented_role() -> Document:
    """The ClusterRole of the page on both commands."""
    block = PAGE.read_text().split("```yaml\n")[1].partition("```")[0]
    role: Document = yaml.safe_load(block)
    return role


def install_reader(rig: Rig, *, roles: tuple[str, ...] = ("view", "trimtab-reader")) -> Path:
    """Create the account with these roles in all namespaces; its kubeconfig."""
    rig.ensure_namespace("watching")
    rig.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "watching"}},
            documented_role(),
            *(_binding(role) for role in roles),
        ]
    )
    return rig.service_account_kubeconfig("watching", "reader")


def _binding(role: str) -> Document:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"reader-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "watching"}],
    }


def requests_of(rig: Rig) -> list[dict[str, Any]]:
    """What the account has asked the API server for, by its audit log."""
    return [each for each in rig.audit_events() if each["user"]["username"] == ACCOUNT]


def run_command(rig: Rig, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a trimtab command to its end."""
    command = [sys.executable, "-m", "trimtab", *arguments]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "HOME": str(rig.workspace)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def start_command(rig: Rig, log: str, *arguments: str) -> Process:
    """Start one that runs until it is told to end."""
    command = [sys.executable, "-m", "trimtab", *arguments]
    return Process(command, rig.workspace / log, {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})
