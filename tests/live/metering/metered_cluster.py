"""Decides how a cluster with measured nodes stands on one machine; leaves its story to the test.

    with Metered(built(), nodes=30) as scene:
        product.install(scene.rig)
        scene.exporters.set("node-3", memory=0.9)
        scene.prometheus.seen("up", lambda up: len(up) == 30)
        product.start(scene.rig, ...)      # with scene.prometheus.url as its source

One control plane, kwok as the kubelet of every node, exporters whose load the test sets, a Prometheus that scrapes them
every second. Node names are node-0, node-1, …; each has an internal IP of its own (`exporters.ip`).

With `metrics_server=True` the kubelets tell the usage that pods are annotated with (metrics_server.py), and
`start_metrics_server` starts the real one: when the pods run, for a usage of CPU takes it two scrapes, ten seconds apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.live.metering.exporters import Exporters
from tools.controlplane.metrics_server import with_kubelet_metrics
from tools.controlplane.objects import node
from tools.controlplane.process import Process
from tools.controlplane.prometheus import Prometheus
from tools.controlplane.rig import Rig

CORES, GIBS = 8, 16


class MeteredCluster:
    """The rig, its exporters and its Prometheus."""

    rig: Rig
    exporters: Exporters
    prometheus: Prometheus

    def __init__(
        self,
        binaries: Path,
        nodes: int = 30,
        *,
        instance: str = "{ip}:9100",
        labels: Mapping[str, str] | None = None,
        pages: Iterable[str] = ("node", "cadvisor"),
        stamped: bool = False,
        metrics_server: bool = False,
        prometheus: Mapping[str, Any] | None = None,
        **rig: Any,
    ) -> None:
        """Settle the options: how targets are labelled (Exporters), and what Prometheus and the rig are told besides."""
        self._stamped = stamped
        self._binaries = binaries
        self._nodes = nodes
        self._labelled = instance, labels, tuple(pages)
        self._kubelets_tell = metrics_server
        self._prometheus = dict(prometheus or {})
        self._rig = rig
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Start all of it and create the nodes; what was started is stopped again if that fails half-way."""
        with ExitStack() as opened:
            names = [f"node-{index}" for index in range(self._nodes)]
            self.exporters = opened.enter_context(Exporters(names, CORES, GIBS << 30, self._stamped))
            asked = Prometheus(self.exporters.targets(*self._labelled), binaries=self._binaries, **self._prometheus)
            self.prometheus = opened.enter_context(asked)
            asked_rig = Rig(self._binaries, kwok=True, metered=self._kubelets_tell, **self._rig)
            self.rig = opened.enter_context(asked_rig)
            self.rig.admin.create_many(self._node(name) for name in names)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all of it."""
        self._open.close()

    def start_metrics_server(self) -> Process:
        """Start it; kwok counts CPU from the first time it is asked, so ask once before."""
        pages = [f"/metrics/nodes/{name}/metrics/resource" for name in self.exporters.names]
        self.rig.admin.map_concurrently(lambda page: self.rig.scrape(self.rig.kwok, page), pages)
        return self.rig.start_metrics_server()

    def _node(self, name: str) -> dict[str, Any]:
        plain = node(name, cpu=str(CORES), memory=f"{GIBS}Gi")
        return with_kubelet_metrics(plain, self.rig.kwok.url, self.exporters.ip(name))
