"""A LoadView of a recorded case's metrics.

A case has the response of load-watcher: percentages by node, and their window. Here they are put into columns without
validation, because the recorded plugins trust everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from tests.conformance.corpus import Case, cluster_of, read_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.load.store import LoadStore
from trimtab.core.load.view import LoadView
from trimtab.core.model.readings import Statistic
from trimtab.core.tables import Floats

RESOURCES = {"CPU": "cpu", "Memory": "memory"}
KINDS = {"AVG": ("mean", "latest"), "STD": ("deviation",)}
Metric = Mapping[str, Any]


class Recorded(LoadView):
    """The figures of one response: the last one of each kind counts, and `latest` is the last that is no deviation."""

    def __init__(self, held: Cluster, metrics: Mapping[str, Any]) -> None:
        super().__init__(LoadStore(rows=len(held.node_table)))
        self.held, self.end = held, float(metrics["window"]["end"])
        self.figures = {
            kind: {name: np.full(self.rows, np.nan) for name in RESOURCES.values()}
            for kind in ("latest", "mean", "deviation")
        }
        self.came_at: dict[str, float] = {}
        for node, row in held.node_table.row.items():
            for metric in _metrics(metrics, node):
                self._note(row, metric)

    def _note(self, row: int, metric: Metric) -> None:
        resource = RESOURCES[metric["type"]]
        amount = metric["value"] / 100 * float(self.held.node_table.node_capacity[resource].array[row])
        for kind in KINDS.get(metric["operator"], ("latest",)):
            self.figures[kind][resource][row] = amount

    def reported(self, resource: str, statistic: Statistic, *, trusted: bool = True) -> Floats:
        return self.figures[statistic.value][resource]

    def mean(self, resource: str, *, trusted: bool = True) -> Floats:
        return self.figures["mean"][resource]

    def deviation(self, resource: str, *, trusted: bool = True) -> Floats:
        return self.figures["deviation"][resource]

    def sampled_at(self, resource: str) -> Floats:
        return np.full(self.rows, self.end)

    @property
    def placed_at(self) -> Floats:
        times = np.full(len(self.held.pod_table.row), -np.inf)
        for uid, slot in self.held.pod_table.slot.items():
            times[slot] = self.came_at.get(uid, -np.inf)
        return times


def view_of(case: Case) -> View:
    """The recorded cluster, with its measurements and the pods that were bound of late, where it has any."""
    held = cluster_of(case)
    if "metrics" not in case:
        return held.view
    load = Recorded(held, case["metrics"])
    for bound in case.get("recentlyBound") or ():
        pod = read_pod(bound["pod"])
        held.upsert_pod(replace(pod, phase="Running"))
        load.came_at[pod.uid] = float(bound["timestamp"])
    return View(
        held.node_table, load, on_node=held.on_node, pod_table=held.pod_table, topology_counts=held.topology_counts
    )


def _metrics(metrics: Mapping[str, Any], node: str) -> Iterator[Metric]:
    known = metrics["data"]["NodeMetricsMap"] or {}
    yield from (known.get(node) or {}).get("metrics") or ()
