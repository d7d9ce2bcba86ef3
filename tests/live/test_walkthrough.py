"""The commands of docs/walkthrough.md on a real control plane with the nodes of its kind cluster, in their order.

Nothing runs in pods here, so commands that need a container runtime, or a chart from the internet, are left out: `LEFT_OUT`
lists how they begin. `trimtab run` runs beside the control plane with the account and the configuration that were installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.objects import node
from tools.controlplane.process import Process, free_port
from tools.controlplane.rig import WORKLOADS, Rig

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

PAGE = trimtab_process.ROOT / "docs" / "walkthrough.md"
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
LEFT_OUT = ("kind ", "helm ", "make image", "kubectl top", "kubectl -n monitoring")
PORT_FORWARD = "port-forward"


def commands() -> list[str]:
    """Every command of the page."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def is_run(command: str) -> bool:
    return not command.startswith(LEFT_OUT) and PORT_FORWARD not in command


@pytest.fixture
def cluster() -> Iterator[Rig]:
    """The nodes of examples/kind/cluster.yaml, and what the Prometheus stack installs that our files need."""
    with Rig(controlplane_or_skip(), controllers=WORKLOADS, kwok=True) as rig:
        rig.ensure_namespace("kube-system")
        rig.ensure_namespace("monitoring")
        workers = ("trimtab-worker", "trimtab-worker2", "trimtab-worker3")
        rig.admin.create_many([node("trimtab-control-plane", taints=[CONTROL_PLANE]), *map(node, workers)])
        rig.kubectl("apply", "--server-side", "-f", str(rig.binaries / "prometheus-operator-crds.yaml"))
        rig.start_kube_scheduler()
        yield rig


class Shell:
    """Runs the page's commands, with kubectl and trimtab on the path, and the cluster's administrator as the user."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self._port = free_port()
        self.rig = rig
        (folder / "kubectl").symlink_to(rig.binaries / "kubectl")
        (folder / "trimtab").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trimtab "$@"\n')
        (folder / "trimtab").chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(rig.admin_kubeconfig),
            "PYTHONPATH": str(trimtab_process.ROOT / "src"),
        }

    def run(self, command: str) -> str:
        """Its output; fails with it unless the command succeeds within a minute."""
        local = command.replace("127.0.0.1:10259", f"127.0.0.1:{self._port}")
        done = subprocess.run(
            ["bash", "-c", local],
            cwd=trimtab_process.ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert 0 == done.returncode, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start_installed(self) -> list[Process]:
        """Scheduler and labeller with the configuration that was installed, as their pods would run; the first serves."""
        flags = ("--bind-address=127.0.0.1", f"--secure-port={self._port}")
        scheduler = trimtab_process.launch(self.rig, self._installed_config("trimtab"), "trimtab", *flags)
        kubeconfig = self.rig.service_account_kubeconfig("trimtab", "trimtab-labeller")
        config = self._installed_config("trimtab-labeller")
        command = [sys.executable, "-m", "trimtab", "labeller", "--config", str(config), "-kubeconfig", str(kubeconfig)]
        log = self.rig.workspace / "labeller.log"
        labeller = Process([*command, "-webaddr", f"127.0.0.1:{free_port()}"], log, self._environment)
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(scheduler), 40, "ready", scheduler)
        return [scheduler, labeller]

    def _installed_config(self, name: str) -> Path:
        file = self.rig.workspace / f"{name}-installed.yaml"
        file.write_text(self.rig.admin.get(f"/api/v1/namespaces/trimtab/configmaps/{name}")["data"]["config.yaml"])
        return file


def test_the_commands_of_the_page_work(cluster: Rig, tmp_path: Path) -> None:
    """In order, each with exit code 0; all pods of the examples are bound, and nothing of ours is left at the end."""
    shell, processes, seen = Shell(cluster, tmp_path), list[Process](), ""
    try:
        for command in filter(is_run, commands()):
            if command.startswith("trimtab deploy status"):
                processes += shell.start_installed()
                trimtab_process.wait_for(lambda: _are_led(cluster), 30, "leaders", *processes)
            seen += shell.run(command)
            if command.startswith("kubectl apply"):
                trimtab_process.wait_for(lambda: not _unbound(cluster), 60, f"all pods bound: {command}", *processes)
    finally:
        for process in processes:
            process.terminate()
    assert "pod-9" in seen
    left = cluster.kubectl("get", "deployments,clusterroles,servicemonitors", "-A", "-o", "name")
    assert "trimtab" not in left


def _are_led(rig: Rig) -> bool:
    leases = rig.admin.list("/apis/coordination.k8s.io/v1/namespaces/trimtab/leases")
    return 2 == sum(bool(lease["spec"].get("holderIdentity")) for lease in leases)


def _unbound(rig: Rig) -> list[str]:
    return [each["metadata"]["name"] for each in rig.admin.list("/api/v1/pods") if not each["spec"].get("nodeName")]


def test_most_of_the_page_is_run() -> None:
    """A new command is run unless it is left out on purpose."""
    ran = [command for command in commands() if is_run(command)]
    assert 20 < len(ran)
    assert any(command.startswith("trimtab explain") for command in ran)
