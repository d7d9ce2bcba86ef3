"""Runs Trimtab as a process on a rig, with its own service account."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from tests.live.audit_checker import Report, check_audit
from tools.controlplane.client import ApiError, Document
from tools.controlplane.process import Process, free_port
from tools.controlplane.rig import Rig

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = f"{ROOT / 'src'}:{ROOT}"
ACCOUNT = "system:serviceaccount:trimtab:trimtab"
SCHEDULER = "trimtab"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases/trimtab"
# What the default profile needs, and the plugins to disable if only the first file is applied.
ROLES = ("rbac.yaml", "rbac-volumes.yaml", "rbac-preemption.yaml", "policies.yaml")
OPTIONAL = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "DefaultPreemption")
WITHOUT_OPTIONAL = {
    "schedulerName": SCHEDULER,
    "plugins": {"multiPoint": {"disabled": [{"name": name} for name in OPTIONAL]}},
}


def install(rig: Rig, *roles: str) -> None:
    """Apply the shipped namespace, service account and roles."""
    for file in roles or ROLES:
        rig.apply(ROOT / "deploy" / file)


def start(rig: Rig, name: str = "trimtab", own: Document | None = None, **settings: object) -> Process:
    """Start `trimtab run` with these settings, and those of our own document."""
    return launch(rig, write_config(rig, name, own, **settings), name)


def write_config(rig: Rig, name: str = "trimtab", own: Document | None = None, **settings: object) -> Path:
    """Write a KubeSchedulerConfiguration and, if `own` has any fields, a TrimtabConfiguration, as JSON, which is YAML."""
    stock: Document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": SCHEDULER}],
        **settings,
    }
    ours = [{"apiVersion": "trimtab.dev/v1alpha1", "kind": "TrimtabConfiguration", **own}] if own else []
    file = rig.workspace / f"{name}.yaml"
    file.write_text("\n---\n".join(map(json.dumps, [stock, *ours])))
    return file


def launch(
    rig: Rig, config: Path, name: str = "trimtab", *flags: str, namespace: str = "trimtab", account: str = "trimtab"
) -> Process:
    """Start `trimtab run --config FILE` with only the permissions that were installed, and further flags."""
    return launch_as(rig, rig.service_account_kubeconfig(namespace, account), config, name, *flags)


def launch_as(rig: Rig, kubeconfig: Path, config: Path, name: str, *flags: str) -> Process:
    """The same with this kubeconfig."""
    url = f"http://127.0.0.1:{free_port()}"
    command = run_command(config, kubeconfig, url, name, *flags)
    return Process(command, rig.workspace / f"{name}.log", {"PYTHONPATH": PYTHONPATH}, url)


def run_command(config: Path, kubeconfig: Path, url: str, name: str, *flags: str) -> list[str]:
    """`trimtab run` that serves its pages there."""
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(config), "--kubeconfig", str(kubeconfig)]
    return [*command, "--serve", url.removeprefix("http://"), "--identity", name, *flags]


def trimtab(*arguments: str) -> str:
    """The output of another trimtab command."""
    command = [sys.executable, "-m", "trimtab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True).stdout


def page(process: Process, path: str) -> tuple[int, str]:
    """GET a page of the process: status and text."""
    host, port = process.url.removeprefix("http://").split(":")
    connection = HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def is_ready(process: Process) -> bool:
    try:
        return page(process, "/readyz")[0] == 200
    except OSError:
        return False


def wait_for(met: Callable[[], object], seconds: float, what: str, *processes: Process) -> None:
    """Wait for a condition; a failure shows the end of the processes' logs."""
    deadline = time.monotonic() + seconds
    while not met():
        if time.monotonic() > deadline:
            logs = "\n".join(f"--- {process.name}\n{process.log_tail()}" for process in processes)
            raise AssertionError(f"not within {seconds:.0f} s: {what}\n{logs}")
        time.sleep(0.1)


def pods(rig: Rig, namespace: str = "default") -> list[Document]:
    return rig.admin.list(f"/api/v1/namespaces/{namespace}/pods")


def bound(rig: Rig, namespace: str = "default") -> dict[str, str]:
    """The nodes of bound pods, by pod name."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods(rig, namespace) if pod["spec"].get("nodeName")
    }


def delete_lease(rig: Rig) -> None:
    """Nobody leads any more; without a lease nothing is done."""
    try:
        rig.admin.delete(LEASE)
    except ApiError as error:
        assert error.status == 404


def check_audit_log(rig: Rig) -> Report:
    """Check everything that our service account did on this rig."""
    pods, nodes = rig.admin.list("/api/v1/pods"), rig.admin.list("/api/v1/nodes")
    return check_audit(rig.audit_events(), pods, nodes, ACCOUNT, (SCHEDULER,))
