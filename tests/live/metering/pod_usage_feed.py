"""Reports the usage of the cluster's pods to the exporters, like kubelets.

    with PodUsageFeed(rig, exporters, share=0.5):      # each running pod uses half of what it requests
        ...

Only running pods are reported, a few tenths of a second after they started.
"""

from __future__ import annotations

import threading
from typing import Self

from tests.live.metering.exporters import Exporters
from tests.live.node_accounting import pod_requests
from tools.controlplane.rig import Rig

INTERVAL = 0.3

PodOnNode = tuple[str, str, str]
"""Node, namespace, pod."""


class PodUsageFeed:
    """A thread that polls the pods until the block ends."""

    def __init__(self, rig: Rig, exporters: Exporters, share: float = 0.5) -> None:
        self._rig, self._exporters, self._share = rig, exporters, share
        self._shown: set[PodOnNode] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(INTERVAL):
            self._sync()

    def _sync(self) -> None:
        running = {}
        for pod in self._rig.admin.list("/api/v1/pods"):
            meta, node = pod["metadata"], pod["spec"].get("nodeName")
            if pod["status"].get("phase") == "Running" and node in self._exporters.names:
                running[node, meta["namespace"], meta["name"]] = pod_requests(pod)
        for tenant in self._shown - running.keys():
            self._exporters.end(*tenant)
        for tenant in running.keys() - self._shown:
            asked = running[tenant]
            cores, bytes_ = asked.get("cpu", 0) / 1000 * self._share, asked.get("memory", 0) * self._share
            self._exporters.run(*tenant, cpu=cores, memory=bytes_)
        self._shown = {*running}
