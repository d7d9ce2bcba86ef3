"""Gauges about nodes: how many have trusted data, how load and requests are spread over them, and values of each node.

Only the values of each node have a series per node; they are optional. The others are counts over all nodes, so they stay
few on a large cluster. A value without data is left out, never 0. Columns are read on the event loop, where the engine
writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite, sqrt

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from trimtab.core.cluster.utilization import (
    RESOURCES,
    Utilization,
    cumulative_counts,
    open_to_all,
    percentages,
    sample_states,
    statistics,
    variance,
)
from trimtab.core.cluster.view import View
from trimtab.core.model.resources import CPU, MEMORY

USAGE = {CPU: "node_cpu_usage_percent", MEMORY: "node_memory_usage_percent"}
UTILIZATION_LIMITS = (*(tenths / 10 for tenths in range(1, 11)), inf)
DIFFERENCE_LIMITS = (*(fifths / 5 for fifths in range(-4, 5)), inf)


def cluster_gauges(view: View, columns: Utilization) -> Iterator[Metric]:
    """Counts and statistics over all nodes."""
    if "measured" in columns:
        yield _samples_by_state(view)
        yield _statistics(view, columns)
        yield from _balance(view, columns)
    if "forecast" in columns:
        yield _load_over_requests(columns)
    yield _by_utilization(columns)


def node_gauges(view: View, columns: Utilization) -> Iterator[Metric]:
    """A series per node; columns are copied here, and samples are made of them where the page is rendered."""
    names = [node.name for node in view.nodes]
    for resource, measured in columns.get("measured", {}).items():
        documentation = f"Measured {resource} of a node in percent of allocatable."
        yield NodeSeries(USAGE[resource], documentation, names, [({}, percentages(measured))])
    for basis in ("requested", "forecast"):
        series = [({"resource": each}, percentages(column)) for each, column in columns.get(basis, {}).items()]
        documentation = f"What is {basis} of a node in percent of allocatable."
        if series:
            yield NodeSeries(f"trimtab_node_{basis}_percent", documentation, names, series)
    if "requested" in columns:
        pods: list[float] = view.pod_count.tolist()
        yield NodeSeries("trimtab_node_pods", "Pods of a node, including assumed ones.", names, [({}, pods)])
        documentation = "Pods of a node, including assumed ones; of all types."
        series = [({"pod_type": "all"}, pods)]
        yield NodeSeries("rescheduler_node_pods_count", documentation, names, series, "node_name")
    if "measured" in columns:
        series = [({"resource_type": each}, percentages(column)) for each, column in columns["measured"].items()]
        documentation = "Measured usage of a node in percent of allocatable."
        yield NodeSeries("rescheduler_node_resource_usage_percent", documentation, names, series, "node_name")


def _samples_by_state(view: View) -> Metric:
    documentation = "Nodes by the state of their newest sample: fresh, aging (counts half), stale or missing."
    family = GaugeMetricFamily("trimtab_node_samples", documentation, labels=("resource", "state"))
    for resource in RESOURCES:
        for state, nodes in sample_states(view, resource).items():
            family.add_metric((resource, state), nodes)
    return family


def _statistics(view: View, columns: Utilization) -> Metric:
    family = GaugeMetricFamily(
        "trimtab_cluster_usage_percent",
        "Measured usage in percent of allocatable over nodes that are open to all pods.",
        labels=("resource", "statistic"),
    )
    rows = open_to_all(view)
    for resource, column in columns["measured"].items():
        for name, share in statistics(column, rows).items():
            family.add_metric((resource, name), share * 100)
    return family


def _balance(view: View, columns: Utilization) -> Iterator[Metric]:
    """How evenly nodes are used, over those that are open to all pods; nothing where none is measured."""
    variances = GaugeMetricFamily(
        "rescheduler_pod_distribution_variance",
        "Variance over nodes of measured usage in percent of allocatable, and of the number of pods.",
        labels=("resource_type",),
    )
    score = GaugeMetricFamily(
        "rescheduler_load_balance_score",
        "100 less the standard deviation over nodes of measured usage in percent of allocatable.",
        labels=("resource_type",),
    )
    rows = open_to_all(view)
    for resource, column in columns["measured"].items():
        found = variance(column * 100, rows)
        if found is not None:
            variances.add_metric((resource,), found)
            score.add_metric((resource,), max(100 - sqrt(found), 0.0))
    found = variance(view.pod_count.astype(float), rows) if "requested" in columns else None
    if found is not None:
        variances.add_metric(("pods",), found)
    yield from (variances, score)


def _by_utilization(columns: Utilization) -> Metric:
    family = GaugeMetricFamily(
        "trimtab_nodes_by_utilization",
        "Nodes whose requested, measured or forecast share of allocatable is at most `le`.",
        labels=("basis", "resource", "le"),
    )
    limits = [*map(floatToGoString, UTILIZATION_LIMITS)]
    for basis, by_resource in columns.items():
        for resource, column in by_resource.items():
            for limit, nodes in zip(limits, cumulative_counts(column, UTILIZATION_LIMITS), strict=True):
                family.add_metric((basis, resource, limit), nodes)
    return family


def _load_over_requests(columns: Utilization) -> Metric:
    family = GaugeMetricFamily(
        "trimtab_nodes_by_load_over_requests",
        "Nodes whose measured minus requested share of allocatable is at most `le`: below 0 they use less than requested.",
        labels=("resource", "le"),
    )
    limits = [*map(floatToGoString, DIFFERENCE_LIMITS)]
    for resource in RESOURCES:
        difference = columns["measured"][resource] - columns["requested"][resource]
        for limit, nodes in zip(limits, cumulative_counts(difference, DIFFERENCE_LIMITS), strict=True):
            family.add_metric((resource, limit), nodes)
    return family


class NodeSeries(Metric):
    """A gauge per node whose samples are made when it is rendered; a node without a value has none."""

    def __init__(
        self,
        name: str,
        documentation: str,
        nodes: list[str],
        columns: list[tuple[dict[str, str], list[float]]],
        label: str = "node",
    ) -> None:
        self._nodes, self._columns, self._label = nodes, columns, label
        super().__init__(name, documentation, "gauge")

    @property
    def samples(self) -> list[Sample]:
        return [
            Sample(self.name, {self._label: node, **labels}, value)
            for labels, values in self._columns
            for node, value in zip(self._nodes, values, strict=True)
            if isfinite(value)
        ]

    @samples.setter
    def samples(self, samples: list[Sample]) -> None:
        """The base class assigns an empty list."""
