"""The live cluster of `make bench-move`: a real control plane, kwok nodes, and machines that Prometheus can scrape.

    with MoveCluster(scale, workspace) as cluster, cluster.prometheus() as prometheus:
        first = cluster.create(workload, "turn-1")     # the place of each pod, by its name

The same cluster serves every turn. Prometheus is a new one each time, so that nobody sees the metrics of an earlier turn. The
first pods are bound by us, to the same nodes each time, because kube-scheduler chooses at random among equal ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Self

import yaml

from bench.move.timescale import TimeScale
from bench.move.workload import CORES, GIBIBYTES, NODES, Place, Workload
from tests.live.metering.exporters import Exporters
from tools.controlplane.client import Document, Documents
from tools.controlplane.objects import node
from tools.controlplane.prometheus import Prometheus
from tools.controlplane.rig import WORKLOADS, Rig, controlplane_folder

START_SECONDS = 30.0  # from a pod's binding until it is ready
SCRAPE_SECONDS, LOOKBACK_SECONDS = 15.0, 300.0
WAIT_SECONDS, POLL_SECONDS = 120.0, 0.2


class MoveCluster:
    """The control plane and the machines of its nodes."""

    rig: Rig
    machines: Exporters

    def __init__(self, scale: TimeScale, workspace: Path) -> None:
        """Set the options; the workspace keeps the logs of all processes."""
        self.scale, self._workspace = scale, workspace
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Start the control plane and create the nodes; stop again if that fails."""
        with ExitStack() as opened:
            names = [f"node-{number}" for number in range(NODES)]
            self.machines = opened.enter_context(Exporters(names, CORES, GIBIBYTES << 30))
            stages = self._write_stages(controlplane_folder() / "kwok-stages.yaml")
            rig = Rig(kwok=True, stages=stages, controllers=WORKLOADS, workspace=self._workspace)
            self.rig = opened.enter_context(rig)
            self.rig.ensure_namespace("kube-system")
            self.rig.admin.create_many(node(name, cpu=str(CORES), memory=f"{GIBIBYTES}Gi") for name in names)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything."""
        self._open.close()

    def _write_stages(self, stock: Path) -> Path:
        """kwok's own stages, but a pod takes its time to become ready."""
        self._workspace.mkdir(parents=True, exist_ok=True)
        stages: Documents = [each for each in yaml.safe_load_all(stock.read_text()) if each]
        for stage in (each for each in stages if each["metadata"]["name"] == "pod-ready"):
            stage["spec"]["delay"] = {"durationMilliseconds": round(self.scale.real(START_SECONDS) * 1000)}
        target = self._workspace / "stages.yaml"
        target.write_text(yaml.safe_dump_all(stages))
        return target

    def prometheus(self) -> Prometheus:
        """A Prometheus without data that scrapes the machines; `instance` is the node's name, as the descheduler needs it."""
        lookback = f"--query.lookback-delta={self.scale.duration(LOOKBACK_SECONDS)}"
        interval = self.scale.duration(SCRAPE_SECONDS)
        targets = self.machines.targets("{name}")
        return Prometheus(targets, binaries=self.rig.binaries, interval=interval, flags=[lookback])

    def create(self, workload: Workload, namespace: str) -> dict[str, Place]:
        """Create all Deployments, bind their pods, and wait until they are ready: the place of each pod, by its name."""
        admin = self.rig.admin
        self.rig.ensure_namespace(namespace)
        admin.create_many(each.deployment(namespace) for each in workload.applications)
        wanted = len(workload.places)
        self._wait(lambda: len(self.pods(namespace)) == wanted, f"{wanted} pods")
        placed = _assign(workload, self.pods(namespace))
        admin.map_concurrently(lambda pod: self._bind(namespace, pod, workload.first_nodes[placed[pod]]), placed)
        self._wait(lambda: sum(map(is_ready, self.pods(namespace))) == wanted, f"{wanted} ready pods")
        return placed

    def delete(self, workload: Workload, namespace: str) -> None:
        """Delete all Deployments, and wait until their pods are gone."""
        root = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self.rig.admin.delete_many(f"{root}/{each.name}" for each in workload.applications)
        self._wait(lambda: not self.pods(namespace), "no pods")

    def pods(self, namespace: str) -> Documents:
        """All pods there."""
        return self.rig.admin.list(f"/api/v1/namespaces/{namespace}/pods")

    def _bind(self, namespace: str, pod: str, target: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"kind": "Node", "name": target},
        }
        self.rig.admin.call("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", body)

    def _wait(self, met: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not met():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {WAIT_SECONDS:.0f} s: {what}; the logs are in {self._workspace}")
            time.sleep(POLL_SECONDS)


def is_ready(pod: Document) -> bool:
    """Whether the pod is ready and stays."""
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def application_of(pod: Document) -> str:
    """The Deployment of the pod."""
    name: str = pod["metadata"]["labels"]["app"]
    return name


def _assign(workload: Workload, pods: Documents) -> dict[str, Place]:
    """Any pod of a Deployment may have any of its places."""
    ordered = sorted(pods, key=lambda pod: (application_of(pod), pod["metadata"]["name"]))
    numbered = (enumerate(group) for _, group in groupby(ordered, application_of))
    return {pod["metadata"]["name"]: (application_of(pod), number) for group in numbered for number, pod in group}
