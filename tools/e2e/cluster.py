"""Five kwok nodes in two zones with all of Kubernetes' controllers, and a default-scheduler: what the suite runs on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import yaml

from tools.controlplane import commands
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process, free_port, wait_ready
from tools.controlplane.rig import Rig, controlplane_folder
from tools.e2e.suite import NODES

STAGES = Path(__file__).with_name("stages.yaml")
ZONES = ("zone-a", "zone-b")
EVERY_CONTROLLER = ("*", commands.LIFECYCLE)
# The suite waits a minute before most specs for these on every node, and goes on without them.
SYSTEM_PODS = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")
SCHEDULED = {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}


@contextmanager
def cluster(workspace: Path) -> Iterator[Rig]:
    """The cluster, without a scheduler; its logs stay in the workspace."""
    workspace.mkdir(parents=True, exist_ok=True)
    stages = write_stages(controlplane_folder() / "kwok-stages.yaml", workspace / "stages.yaml")
    with Rig(kwok=True, stages=stages, controllers=EVERY_CONTROLLER, audited=False, workspace=workspace) as rig:
        rig.admin.create_many(map(zoned_node, range(NODES)))
        rig.ensure_namespace("kube-system")
        for name, index in ((name, index) for name in SYSTEM_PODS for index in range(NODES)):
            create_system_pod(rig, f"{name}-{index}", f"node-{index}")
        yield rig


def write_stages(stock: Path, target: Path) -> Path:
    """kwok's stages and ours in one file; ours replace those of the same name."""
    merged = {each["metadata"]["name"]: each for path in (stock, STAGES) for each in _documents(path)}
    target.write_text(yaml.safe_dump_all(merged.values()))
    return target


def _documents(path: Path) -> list[Document]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def zoned_node(index: int) -> Document:
    """A node in one of the zones, with an address of its own: specs of host ports tell it from loopback."""
    name = f"node-{index}"
    made = node(name, labels={"topology.kubernetes.io/zone": ZONES[index % len(ZONES)]})
    addresses = {"InternalIP": f"10.0.1.{index + 1}", "Hostname": name}
    made["status"]["addresses"] = [{"type": kind, "address": address} for kind, address in addresses.items()]
    return made


def create_system_pod(rig: Rig, name: str, node_name: str) -> None:
    """A pod on this node that requests nothing, with the condition that a scheduler would have set."""
    rig.admin.create(pod(name, "kube-system", cpu="0", memory="0", nodeName=node_name))
    path = f"/api/v1/namespaces/kube-system/pods/{name}/status"
    rig.admin.patch(path, SCHEDULED, "application/strategic-merge-patch+json")


def start_kube_scheduler(rig: Rig) -> Process:
    """kube-scheduler with its defaults."""
    return rig.start_kube_scheduler()


def start_trimtab(rig: Rig, disabled: Sequence[str] = ()) -> Process:
    """Trimtab as default-scheduler under kube-scheduler's own account, without these plugins."""
    profile = {"plugins": {"multiPoint": {"disabled": [{"name": name} for name in disabled]}}} if disabled else {}
    given = {"profiles": [{"schedulerName": "default-scheduler", **profile}]}
    config = rig.workspace / "trimtab.json"
    config.write_text(json.dumps(commands.scheduler_config(given, rig.client_kubeconfig("system:kube-scheduler"))))
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(config), "--serve", address]
    process = Process(command, rig.workspace / "trimtab.log", {}, f"http://{address}")
    return wait_ready(process, lambda: _is_ready(address))


def _is_ready(address: str) -> bool:
    connection = HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    finally:
        connection.close()
