"""A control plane with nodes whose metrics the test sets.

    with MeteredCluster(controlplane_or_skip(), nodes=30) as cluster:
        trimtab_process.install(cluster.rig)
        cluster.exporters.set("node-3", memory=0.9)
        cluster.prometheus.wait_for("up", lambda up: len(up) == 30)
        trimtab_process.start(cluster.rig, ...)      # with cluster.prometheus.url as its source

It has kwok as the kubelet of every node, exporters whose load the test sets, and a Prometheus that scrapes them every second.
Nodes are called node-0, node-1, …; each has its own internal IP (`exporters.ip`).

With `metrics_server=True` the kubelets report the usage in pods' annotations (tools/controlplane/metrics_server.py), and
`start_metrics_server` starts the real one. Start it once pods run: CPU usage needs two scrapes, ten seconds apart.
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
        """Set the options: labels of targets (see Exporters), and arguments for Prometheus and the rig."""
        self._stamped = stamped
        self._binaries = binaries
        self._nodes = nodes
        self._labelled = instance, labels, tuple(pages)
        self._kubelets_tell = metrics_server
        self._prometheus = dict(prometheus or {})
        self._rig = rig
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Start everything and create the nodes; stop again if that fails."""
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
        """Stop everything."""
        self._open.close()

    def start_metrics_server(self) -> Process:
        """Start it after one scrape of kwok, which counts CPU from the first scrape."""
        pages = [f"/metrics/nodes/{name}/metrics/resource" for name in self.exporters.names]
        self.rig.admin.map_concurrently(lambda page: self.rig.scrape(self.rig.kwok, page), pages)
        return self.rig.start_metrics_server()

    def _node(self, name: str) -> dict[str, Any]:
        plain = node(name, cpu=str(CORES), memory=f"{GIBS}Gi")
        return with_kubelet_metrics(plain, self.rig.kwok.url, self.exporters.ip(name))
