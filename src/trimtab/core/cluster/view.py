"""What plugins read: the cluster as columns with one cell per node, and what-if views with pods added or removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.labels import value_matches
from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.objects import Objects
from trimtab.core.cluster.overlay import PodDelta, pod_delta, without_pods
from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.cluster.topology.topology_counts import TopologyCounts
from trimtab.core.cluster.volume_usage import VolumeUsage
from trimtab.core.load.store import LoadStore
from trimtab.core.load.view import LoadView
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.taints import Taint
from trimtab.core.tables import Bools, ExactColumn, Floats, Index, Ints, Selection


class View:
    """A read-only cluster. Arrays are the live ones: copy before keeping or changing them."""

    __slots__ = (
        "_load",
        "_node_table",
        "_on_node",
        "_overlay_load",
        "_plugin_state",
        "count",
        "delta",
        "objects",
        "pod_table",
        "topology_counts",
    )

    def __init__(
        self,
        node_table: NodeTable,
        load: LoadView | None = None,
        plugin_state: Mapping[str, Any] | None = None,
        objects: Objects | None = None,
        on_node: Mapping[str, Mapping[str, Pod]] | None = None,
        pod_table: PodTable | None = None,
        topology_counts: TopologyCounts | None = None,
    ) -> None:
        self._node_table = node_table
        self._load = load if load is not None else LoadView(LoadStore(rows=len(node_table)))
        self._plugin_state = plugin_state or {}
        self._on_node = on_node or {}
        self.objects = objects if objects is not None else Objects()
        self.pod_table = pod_table if pod_table is not None else PodTable()  # every pod that has a place
        # Counts of the cluster itself: what an overlay changes is in `delta`.
        self.topology_counts = (
            topology_counts if topology_counts is not None else TopologyCounts(node_table, self.pod_table)
        )
        self.delta: PodDelta | None = None  # what an overlay adds and removes
        self._overlay_load: LoadView | None = None
        self.count = len(node_table)

    @property
    def nodes(self) -> Sequence[Node]:
        return self._node_table.nodes

    @property
    def node_table(self) -> NodeTable:
        """For caches of results; plugins use the methods below."""
        return self._node_table

    def row(self, name: str) -> int | None:
        return self._node_table.row.get(name)

    # --- resources

    def allocatable(self, resource: str) -> Ints:
        return self._amounts(self._node_table.allocatable, resource)

    def capacity(self, resource: str) -> Ints:
        """The node's capacity, of which `allocatable` is left for pods."""
        return self._amounts(self._node_table.node_capacity, resource)

    def usable(self, resource: str) -> Floats:
        """What pods may use of a resource that a rescheduler limits: `allocatable`, or the capacity that the limit of a
        further resource names; NaN where it is unknown."""
        given = self._load.store.capacities.get(resource)
        if given is not None and given.amount:
            return np.full(self.count, given.amount)
        if given is not None and given.metric:
            measured = self._load.custom(given.metric)[: self.count]
            return np.where(measured >= 0.0, measured, np.nan)
        return self.allocatable(resource if given is None else given.allocatable).astype(np.float64)

    def requested(self, resource: str) -> Ints:
        return self._amounts(self._node_table.requested, resource)

    def limits(self, resource: str) -> Ints:
        """Sum of CPU or memory limits; a pod without a limit counts with its request."""
        return self._amounts(self._node_table.limits, resource)

    @property
    def nonzero_cpu(self) -> Ints:
        """kube-scheduler's NonZeroRequested: containers without a request count with a default."""
        return self._node_table.nonzero_cpu.array[: self.count]

    @property
    def nonzero_memory(self) -> Ints:
        return self._node_table.nonzero_memory.array[: self.count]

    def _amounts(self, columns: Mapping[str, ExactColumn], resource: str) -> Ints:
        exact = columns.get(resource)
        return np.zeros(self.count, dtype=np.int64) if exact is None else exact.array[: self.count]

    # --- other node columns

    @property
    def pod_count(self) -> Ints:
        return self._node_table.pod_count[: self.count]

    @property
    def unschedulable(self) -> Bools:
        return self._node_table.unschedulable[: self.count]

    @property
    def taint_set(self) -> Index:
        """Which of `taint_sets` each node has."""
        return self._node_table.taint_set[: self.count]

    @property
    def taint_sets(self) -> list[tuple[Taint, ...]]:
        return list(self._node_table.taint_sets)

    @property
    def name_hash(self) -> NDArray[np.uint64]:
        return self._node_table.name_hash[: self.count]

    def matching_label(self, requirement: Requirement, rows: Selection | None = None) -> Bools:
        """Which nodes (of these rows) have labels that match the requirement."""
        table, selected = self._node_table, slice(None) if rows is None else rows
        if not self.has_label(requirement.key):
            return np.full(len(self.pod_count[selected]), value_matches(requirement, None))
        column = table.labels.column(requirement.key, (node.labels for node in table.nodes), table.size)
        return column.matching(requirement, column.ids[: self.count][selected])

    def has_label(self, key: str) -> bool:
        """Whether any node has a label with this key."""
        return key in self._node_table.labels.nodes_with_key

    def rows_named(self, names: Iterable[str]) -> Bools:
        found = np.zeros(self.count, dtype=np.bool_)
        for name in names:
            row = self.row(name)
            if row is not None:
                found[row] = True
        return found

    def port_conflicts(self, ports: Iterable[HostPort], rows: Index) -> Bools:
        """On which of the rows one of the host ports is in use."""
        return self._node_table.host_ports.conflicts(ports, rows)

    @property
    def volume_usage(self) -> VolumeUsage:
        """The volumes that pods use, by node."""
        return self._node_table.volume_usage

    def image_sizes(self, name: str) -> tuple[Index, Ints]:
        """Rows of the nodes that have the image, and its size on each."""
        columns = self._node_table.image_columns.get(name)
        if columns is None:
            sizes = self._node_table.images.get(name, {})
            rows = np.fromiter(map(self._node_table.row.__getitem__, sizes), dtype=np.intp, count=len(sizes))
            columns = rows, np.fromiter(sizes.values(), dtype=np.int64, count=len(sizes))
            if sizes:
                self._node_table.image_columns[name] = columns
        return columns

    # --- load, pods, plugin state

    @property
    def load(self) -> LoadView:
        """Measured load, with what an overlay changes of it."""
        if self.delta is None:
            return self._load
        if self._overlay_load is None:
            store = self._load.store.with_delta(self.delta.slots, self.delta.untracked)
            self._overlay_load = self._load.over(store)
        return self._overlay_load

    def used(self, resource: str) -> Floats:
        """Measured usage, NaN without a trusted sample."""
        return self._load.latest(resource)[: self.count]

    def used_share(self, resource: str) -> Floats:
        """Measured usage as a fraction of allocatable, NaN where one of the two is missing."""
        allocatable = self.allocatable(resource)
        return self.used(resource) / np.where(allocatable > 0, allocatable, np.nan)

    def pods_on(self, node: str) -> Mapping[str, Pod]:
        """Pods on the node by UID, including assumed ones."""
        return self._on_node.get(node, {})

    def plugin_state(self, plugin: str) -> Any:
        return self._plugin_state.get(plugin)

    # --- overlays

    def with_pods(
        self, added: Mapping[str, Collection[Pod]], removed: Mapping[str, Collection[Pod]] | None = None
    ) -> View:
        """Each node as if pods, given by node name, were added to and removed from it alone.

        Plugins that count pods across nodes read `delta`.
        """
        table = self._node_table.overlay()
        for sign, change in ((1, added), (-1, removed or {})):
            for node, pods in change.items():
                table.count_pods(node, pods, sign)
        return self._overlay(table, pod_delta(self.pod_table, self._node_table.row, added, removed or {}))

    def without_pods(self, slots: Index, incoming: Pod) -> View:
        """The same without many pods of known nodes at once, for filters of the incoming pod alone.

        Nothing can be added to or removed from the result.
        """
        table = without_pods(self._node_table, self.pod_table, slots, incoming.spec)
        return self._overlay(table, PodDelta(slots))

    def _overlay(self, table: NodeTable, delta: PodDelta) -> View:
        overlay = View(
            table,
            self._load,
            self._plugin_state,
            self.objects,
            self._on_node,
            self.pod_table,
            self.topology_counts,
        )
        overlay.delta = delta if self.delta is None else self.delta.merged(delta)
        return overlay
