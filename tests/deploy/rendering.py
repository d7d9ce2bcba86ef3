"""Renders the manifests as users do: with kustomize (kubectl) and with Helm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import kubernetes_validate
import yaml

from tools.controlplane.client import Document, Documents
from tools.controlplane.rig import Rig

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = "1.35.8"
CHART = DEPLOY / "chart" / "trimtab"


class Refused(Exception):
    """The program failed; its message is what it printed to stderr."""


def run(command: Sequence[str | Path], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program to its end, or raise Refused."""
    words = [str(word) for word in command]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise Refused(done.stderr + done.stdout)
    return done


def write_overlay(folder: Path, *components: str, **fields: object) -> Path:
    """An overlay of the base in this folder, with these components and further fields of a kustomization."""
    relative = Path(os.path.relpath(DEPLOY.resolve(), folder.resolve()))
    content = {
        "resources": [str(relative)],
        "components": [str(relative / "components" / name) for name in components],
        **fields,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kustomization.yaml").write_text(json.dumps(content))
    return folder


def kustomize(binaries: Path, folder: Path) -> Documents:
    """The objects of a kustomization."""
    return parse(run([binaries / "kubectl", "kustomize", folder]).stdout)


def helm_template(
    binaries: Path, *settings: str, release: str = "trimtab", namespace: str = "trimtab", values: Document | None = None
) -> Documents:
    """The objects of the chart with these settings (`replicas=3`) and values."""
    flags = [word for setting in settings for word in ("--set", setting)]
    command = [binaries / "helm", "template", release, CHART, "--namespace", namespace, "--kube-version", KUBERNETES]
    return parse(run([*command, *flags, "--values", "-"], json.dumps(values or {})).stdout)


def validate_strictly(document: Document) -> None:
    """Raise if the object has a field that Kubernetes does not know, or a value of the wrong type."""
    if "monitoring.coreos.com" not in document["apiVersion"]:
        _validate(json.dumps(document))


@cache  # most objects are the same whatever the values are
def _validate(text: str) -> None:
    kubernetes_validate.validate(json.loads(text), KUBERNETES.rpartition(".")[0], strict=True)


def parse(text: str) -> Documents:
    """All documents of a YAML stream."""
    return [document for document in yaml.safe_load_all(text) if document]


def apply_strictly(rig: Rig, folder: Path) -> str:
    """`kubectl apply -k` with server-side apply and strict validation; returns the server's warnings."""
    kubectl = [rig.binaries / "kubectl", f"--kubeconfig={rig.admin_kubeconfig}"]
    return run([*kubectl, "apply", "--server-side", "--validate=strict", "-k", folder]).stderr


def by_name(documents: Documents) -> Mapping[tuple[str, str, str], Document]:
    """Objects by kind, namespace and name."""
    found = {}
    for each in documents:
        key = each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]
        assert key not in found, f"{key} is there twice"
        found[key] = each
    return found
