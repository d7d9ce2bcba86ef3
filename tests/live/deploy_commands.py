"""Runs `trimtab deploy` on a rig, and lists all that an installation could leave there."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner, Result

from tests.live.trimtab_process import ROOT
from tools.controlplane.client import Document
from tools.controlplane.rig import Rig
from trimtab.apps.deploy.api_client import MAX_LIST_BYTES, ApiClient
from trimtab.cli import main
from trimtab.kube.transport import Response
from trimtab.wire.requests import Request

API, RBAC, ADMISSION = "/api/v1", "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
FLOWCONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
COLLECTIONS = (
    *(f"{API}/{kind}" for kind in ("namespaces", "pods", "services", "configmaps", "serviceaccounts", "secrets")),
    *(f"/apis/apps/v1/{kind}" for kind in ("deployments", "replicasets")),
    *("/apis/batch/v1/cronjobs", "/apis/batch/v1/jobs", "/apis/policy/v1/poddisruptionbudgets"),
    *("/apis/coordination.k8s.io/v1/leases", "/apis/networking.k8s.io/v1/networkpolicies"),
    *(f"{RBAC}/{kind}" for kind in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")),
    *("/apis/scheduling.k8s.io/v1/priorityclasses", f"{FLOWCONTROL}/flowschemas"),
    *(f"{FLOWCONTROL}/prioritylevelconfigurations", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    *(f"{ADMISSION}/{kind}" for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")),
)
# Of the control plane itself, some of it made only after it has become ready.
SYSTEM = re.compile(
    "/kube-|/system|//(catch-all|endpoint|exempt|global|leader-election|node-high|probes|service-accounts|workload)"
)


def deploy(rig: Rig, *arguments: str, kubeconfig: Path | None = None) -> Result:
    """Run the command as an administrator, or as the kubeconfig's user."""
    where = ["--kubeconfig", str(kubeconfig or rig.admin_kubeconfig)]
    return CliRunner().invoke(main, ["deploy", *arguments, *where])


def done(result: Result) -> str:
    """Its output; fails with all of it unless the command succeeded."""
    assert 0 == result.exit_code, result.output
    return result.stdout


def everything(rig: Rig) -> set[str]:
    """All that an installation could leave, by kind, namespace and name; the control plane's own, made late, is not."""

    def names(path: str) -> list[str]:
        found = [each["metadata"] for each in rig.admin.list(path)]
        return [f"{path.rpartition('/')[2]}/{each.get('namespace', '')}/{each['name']}" for each in found]

    found = (name for listed in rig.admin.map_concurrently(names, COLLECTIONS) for name in listed)
    return {name for name in found if "trimtab" in name or "podgroups" in name or not SYSTEM.search(name)}


def exists(rig: Rig, path: str) -> bool:
    return rig.admin.raw("GET", path)[0] == 200


@contextmanager
def writes() -> Iterator[list[str]]:
    """The writes that `trimtab deploy` asks for within the block; dry runs and access reviews are none."""
    seen: list[str] = []
    real = ApiClient.send

    async def noting(self: ApiClient, request: Request, max_bytes: int = MAX_LIST_BYTES) -> Response:
        if request.method != "GET" and "dryRun=All" not in request.path:
            seen.append(f"{request.method} {request.path}")
        return await real(self, request, max_bytes)

    with mock.patch.object(ApiClient, "send", noting):
        yield seen


def start(rig: Rig, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "trimtab", "deploy", *arguments, "--kubeconfig", str(rig.admin_kubeconfig)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def interrupted_install(rig: Rig, survivors: int, namespace: str) -> Result:
    """The status after an install that was interrupted once so many objects were written."""
    with mock.patch.object(ApiClient, "apply", _stopping_after(survivors, _cancel)):
        assert 143 == deploy(rig, "install", "-n", namespace, "--yes").exit_code
    return deploy(rig, "status", "-n", namespace)


def killed_install(rig: Rig, survivors: int, namespace: str) -> Result:
    """The same after one that was killed, which cleans up nothing."""
    arguments = survivors, ["deploy", "install", "-n", namespace, "--yes", "--kubeconfig", str(rig.admin_kubeconfig)]
    code = f"from tests.live.deploy_commands import run_until_killed; run_until_killed(*{arguments!r})"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=60, check=False)
    assert -signal.SIGKILL == ended.returncode, ended
    return deploy(rig, "status", "-n", namespace)


def run_until_killed(survivors: int, arguments: list[str]) -> None:
    """Run the command in this process, which kills itself once so many objects are written."""
    with mock.patch.object(ApiClient, "apply", _stopping_after(survivors, _kill)):
        main(arguments)


def _cancel() -> None:
    raise asyncio.CancelledError


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stopping_after(survivors: int, stop: Callable[[], None]) -> Any:
    """An apply that stops the command once so many objects are written."""
    written, real = 0, ApiClient.apply

    async def stopping(self: ApiClient, item: Document, *, dry_run: bool = False, force: bool = False) -> Document:
        nonlocal written
        if not dry_run and written == survivors:
            stop()
        written += not dry_run
        return await real(self, item, dry_run=dry_run, force=force)

    return stopping
