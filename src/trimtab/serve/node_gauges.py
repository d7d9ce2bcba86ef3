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


Shares = dict[str, dict[str, Floats]]  # fractions of allocatable by row, by basis and resource


def node_shares(view: View, measured: bool, pods: bool) -> Shares:
    """`measured` if there is a source, `requested` if pods are watched, and `forecast`, the usage that decisions reckon with.

    The forecast is computed in a view of its own: a scrape must not touch what decisions have cached.
    """
    shares: Shares = {}
    if measured:
        shares["measured"] = {resource: view.used_share(resource) for resource in RESOURCES}
    if pods:
        shares["requested"] = {each: _share(view, each, view.requested(each).astype(float)) for each in RESOURCES}
    if measured and pods:
        load = view.load.over(view.load.store)
        shares["forecast"] = {each: _share(view, each, load.forecast(each)[0][: view.count]) for each in RESOURCES}
    return shares


def cluster_gauges(view: View, shares: Shares) -> Iterator[Metric]:
    """Counts and statistics over all nodes."""
    if "measured" in shares:
        yield _samples_by_state(view)
        yield _statistics(view, shares["measured"])
    if "forecast" in shares:
        yield _load_over_requests(shares["measured"], shares["requested"])
    yield _utilization(shares)


def node_gauges(view: View, shares: Shares) -> Iterator[Metric]:
    """A series per node; arrays are copied here, and samples are made of them where the page is rendered."""
    names = [node.name for node in view.nodes]
    for resource, measured in shares.get("measured", {}).items():
        documentation = f"Measured {resource} of a node in percent of allocatable."
        yield NodeSeries(USAGE[resource], documentation, names, [({}, (measured * 100).tolist())])
    for basis in ("requested", "forecast"):
        columns = [({"resource": each}, (share * 100).tolist()) for each, share in shares.get(basis, {}).items()]
        documentation = f"What is {basis} of a node in percent of allocatable."
        if columns:
            yield NodeSeries(f"trimtab_node_{basis}_percent", documentation, names, columns)
    if "requested" in shares:
        pods = view.pod_count.astype(float).tolist()
        yield NodeSeries("trimtab_node_pods", "Pods of a node, including assumed ones.", names, [({}, pods)])


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


def _statistics(view: View, measured: Mapping[str, Floats]) -> Metric:
    family = GaugeMetricFamily(
        "trimtab_cluster_usage_percent",
        "Measured usage in percent of allocatable over nodes that are open to all pods.",
        labels=("resource", "statistic"),
    )
    rows = open_to_all(view)
    for resource, column in measured.items():
        shares = column[rows & np.isfinite(column)]
        if len(shares):
            for name, share in {"mean": shares.mean(), "min": shares.min(), "max": shares.max()}.items():
                family.add_metric((resource, name), float(share) * 100)
    return family


def _utilization(shares: Shares) -> Metric:
    family = GaugeMetricFamily(
        "trimtab_nodes_by_utilization",
        "Nodes whose requested, measured or forecast share of allocatable is at most `le`.",
        labels=("basis", "resource", "le"),
    )
    for basis, columns in shares.items():
        for resource, column in columns.items():
            _add_counts(family, (basis, resource), column, UTILIZATION_LIMITS)
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
