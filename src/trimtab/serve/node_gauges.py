"""Gauges about nodes: how many have trusted data, how load and requests are spread over them, and values of each node.

Only the values of each node have a series per node; they are optional. The others are counts over all nodes, so they stay
few on a large cluster. A value without data is left out, never 0. Arrays are read on the event loop, where the engine
writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from trimtab.core.cluster.view import View
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE
from trimtab.core.tables import Bools, Floats

RESOURCES = (CPU, MEMORY)
USAGE = {CPU: "node_cpu_usage_percent", MEMORY: "node_memory_usage_percent"}
UTILIZATION_LIMITS = (*(tenths / 10 for tenths in range(1, 11)), np.inf)
DIFFERENCE_LIMITS = (*(fifths / 5 for fifths in range(-4, 5)), np.inf)


def cluster_gauges(view: View, measured: bool, pods: bool) -> Iterator[Metric]:
    """Counts and statistics over all nodes. `measured`: there is a source; `pods`: they are watched, so requests count."""
    bases: dict[str, dict[str, Floats]] = {}
    if measured:
        yield _samples_by_state(view)
        yield _statistics(view)
        bases["measured"] = {resource: view.used_share(resource) for resource in RESOURCES}
    if pods:
        bases["requested"] = {resource: requested_share(view, resource) for resource in RESOURCES}
    if measured and pods:
        bases["forecast"] = {resource: forecast_share(view, resource) for resource in RESOURCES}
        yield _load_over_requests(bases["measured"], bases["requested"])
    yield _utilization(bases)


def node_gauges(view: View, pods: bool) -> Iterator[Metric]:
    """A series per node; arrays are copied here, and samples are made of them where the page is rendered."""
    names = [node.name for node in view.nodes]
    for resource, name in USAGE.items():
        shares = (view.used_share(resource) * 100).tolist()
        yield NodeSeries(name, f"Measured {resource} of a node in percent of allocatable.", names, [({}, shares)])
    if not pods:
        return
    for basis, share in {"requested": requested_share, "forecast": forecast_share}.items():
        columns = [({"resource": resource}, (share(view, resource) * 100).tolist()) for resource in RESOURCES]
        documentation = f"What is {basis} of a node in percent of allocatable."
        yield NodeSeries(f"trimtab_node_{basis}_percent", documentation, names, columns)
    counts = view.pod_count.astype(float).tolist()
    yield NodeSeries("trimtab_node_pods", "Pods of a node, including assumed ones.", names, [({}, counts)])


def requested_share(view: View, resource: str) -> Floats:
    """What pods request, as a fraction of allocatable."""
    return _share(view, resource, view.requested(resource).astype(float))


def forecast_share(view: View, resource: str) -> Floats:
    """The usage that decisions reckon with, as a fraction of allocatable."""
    return _share(view, resource, view.load.forecast(resource)[0][: view.count])


def _share(view: View, resource: str, amount: Floats) -> Floats:
    allocatable = view.allocatable(resource)
    return amount / np.where(allocatable > 0, allocatable, np.nan)


def open_to_all(view: View) -> Bools:
    """Nodes that any pod may use: neither cordoned nor with a taint that keeps pods away."""
    hard = [any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) for taint in taints) for taints in view.taint_sets]
    tainted = np.array(hard, dtype=np.bool_)
    return ~(view.unschedulable | tainted[view.taint_set])


def _samples_by_state(view: View) -> Metric:
    documentation = "Nodes by the state of their newest sample: fresh, aging (counts half), stale or missing."
    family = GaugeMetricFamily("trimtab_node_samples", documentation, labels=("resource", "state"))
    count = view.count
    for resource in RESOURCES:
        trust, sampled_at = view.load.trust(resource)[:count], view.load.sampled_at(resource)[:count]
        missing = np.isnan(sampled_at)
        states = {"fresh": trust == 1, "aging": trust == 0.5, "stale": (trust == 0) & ~missing, "missing": missing}
        for state, rows in states.items():
            family.add_metric((resource, state), int(rows.sum()))
    return family


def _statistics(view: View) -> Metric:
    family = GaugeMetricFamily(
        "trimtab_cluster_usage_percent",
        "Measured usage in percent of allocatable over nodes that are open to all pods.",
        labels=("resource", "statistic"),
    )
    for resource in RESOURCES:
        shares = view.used_share(resource)[open_to_all(view)]
        shares = shares[np.isfinite(shares)]
        if len(shares):
            for name, share in {"mean": shares.mean(), "min": shares.min(), "max": shares.max()}.items():
                family.add_metric((resource, name), float(share) * 100)
    return family


def _utilization(bases: Mapping[str, Mapping[str, Floats]]) -> Metric:
    family = GaugeMetricFamily(
        "trimtab_nodes_by_utilization",
        "Nodes whose requested, measured or forecast share of allocatable is at most `le`.",
        labels=("basis", "resource", "le"),
    )
    for basis, columns in bases.items():
        for resource, shares in columns.items():
            _add_counts(family, (basis, resource), shares, UTILIZATION_LIMITS)
    return family


def _load_over_requests(measured: Mapping[str, Floats], requested: Mapping[str, Floats]) -> Metric:
    family = GaugeMetricFamily(
        "trimtab_nodes_by_load_over_requests",
        "Nodes whose measured minus requested share of allocatable is at most `le`: below 0 they use less than requested.",
        labels=("resource", "le"),
    )
    for resource in RESOURCES:
        _add_counts(family, (resource,), measured[resource] - requested[resource], DIFFERENCE_LIMITS)
    return family


def _add_counts(family: GaugeMetricFamily, labels: tuple[str, ...], values: Floats, limits: tuple[float, ...]) -> None:
    """Cumulative counts by limit, as a histogram has them; nodes without a value are in none."""
    for limit, name in zip(limits, map(floatToGoString, limits), strict=True):
        family.add_metric((*labels, name), int((values <= limit).sum()))


class NodeSeries(Metric):
    """A gauge per node whose samples are made when it is rendered; a node without a value has none."""

    def __init__(
        self, name: str, documentation: str, nodes: list[str], columns: list[tuple[dict[str, str], list[float]]]
    ) -> None:
        self._nodes, self._columns = nodes, columns
        super().__init__(name, documentation, "gauge")

    @property
    def samples(self) -> list[Sample]:
        return [
            Sample(self.name, {"node": node, **labels}, value)
            for labels, values in self._columns
            for node, value in zip(self._nodes, values, strict=True)
            if np.isfinite(value)
        ]

    @samples.setter
    def samples(self, samples: list[Sample]) -> None:
        """The base class assigns an empty list."""
