"""What plugins look at: columns to read, one cell per node, and a way to pretend that pods were added or gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.exact_column import ExactColumn, Ints
from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.objects import Objects
from trimtab.core.cluster.overlay import PodDelta, pod_delta
from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.cluster.topology.topology_counts import TopologyCounts
from trimtab.core.cluster.volume_usage import VolumeUsage
from trimtab.core.cluster.without_pods import without_pods
from trimtab.core.load.view import LoadView
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.taints import Taint

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class View:
    """A cluster to be read. Arrays are the live ones: copy before keeping or changing them."""

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
        self._load = load if load is not None else LoadView(rows=len(node_table))
        self._plugin_state = plugin_state or {}
        self._on_node = on_node or {}
        self.objects = objects if objects is not None else Objects()
        self.pod_table = pod_table if pod_table is not None else PodTable()  # all that hold a place, as columns
        # Counts of pods by row and domain, of the cluster itself: an overlay's own part is in `moved`.
        self.topology_counts = (
            topology_counts if topology_counts is not None else TopologyCounts(node_table, self.pod_table)
        )
        self.delta: PodDelta | None = None  # what an overlay adds and takes away
        self._overlay_load: LoadView | None = None
        self.count = len(node_table)

    @property
    def nodes(self) -> Sequence[Node]:
        return self._node_table.nodes

    @property
    def node_table(self) -> NodeTable:
        """For whoever keeps answers between pods; plugins use the methods below."""
        return self._node_table

    def row(self, name: str) -> int | None:
        return self._node_table.row.get(name)

    def allocatable(self, resource: str) -> Ints:
        return self._amounts(self._node_table.allocatable, resource)

    def capacity(self, resource: str) -> Ints:
        """What the machine has, of which `allocatable` is left for pods."""
        return self._amounts(self._node_table.node_capacity, resource)

    def requested(self, resource: str) -> Ints:
        return self._amounts(self._node_table.requested, resource)

    def limits(self, resource: str) -> Ints:
        """Limits of CPU or memory summed, where a pod without a limit counts with what it asks for."""
        return self._amounts(self._node_table.limits, resource)

    @property
    def nonzero_cpu(self) -> Ints:
        """Requested CPU where containers that ask for nothing count a little; memory alike."""
        return self._node_table.nonzero_cpu.array[: self.count]

    @property
    def nonzero_memory(self) -> Ints:
        return self._node_table.nonzero_memory.array[: self.count]

    @property
    def pod_count(self) -> Ints:
        return self._node_table.pod_count[: self.count]

    @property
    def unschedulable(self) -> Bools:
        return self._node_table.unschedulable[: self.count]

    @property
    def taint_set(self) -> NDArray[np.intp]:
        """Which of `taint_sets` each node carries."""
        return self._node_table.taint_set[: self.count]

    @property
    def taint_sets(self) -> list[tuple[Taint, ...]]:
        return list(self._node_table.taint_sets)

    @property
    def name_hash(self) -> NDArray[np.uint64]:
        return self._node_table.name_hash[: self.count]

    def matching_label(self, requirement: Requirement) -> Bools:
        """Nodes whose labels meet the requirement."""
        columns = self._node_table
        column = columns.labels.column(requirement.key, (node.labels for node in columns.nodes), columns.capacity)
        return column.matching(requirement, self.count)

    def rows_named(self, names: Iterable[str]) -> Bools:
        found = np.zeros(self.count, dtype=np.bool_)
        for name in names:
            row = self.row(name)
            if row is not None:
                found[row] = True
        return found

    def port_conflicts(self, port: HostPort) -> Bools:
        return self._node_table.host_ports.conflicts(port, self.count)

    @property
    def volume_usage(self) -> VolumeUsage:
        """The volumes that pods use, by node."""
        return self._node_table.volume_usage

    def image_sizes(self, name: str) -> tuple[NDArray[np.intp], Ints]:
        """Rows of the nodes that hold the image, and its size on each."""
        cells = self._node_table.image_columns.get(name)
        if cells is None:
            held = self._node_table.images.get(name, {})
            rows = np.fromiter(map(self._node_table.row.__getitem__, held), dtype=np.intp, count=len(held))
            cells = rows, np.fromiter(held.values(), dtype=np.int64, count=len(held))
            if held:
                self._node_table.image_columns[name] = cells
        return cells

    @property
    def load(self) -> LoadView:
        """What was measured, and what an overlay's pods change of it; see `load/reads.py`."""
        if self.delta is None:
            return self._load
        if self._overlay_load is None:
            self._overlay_load = self._load.with_delta(self.delta.slots, self.delta.untracked)
        return self._overlay_load

    def used(self, resource: str) -> Floats:
        """Measured use, NaN where there is no measurement to be trusted."""
        return self._load.latest(resource)[: self.count]

    def used_share(self, resource: str) -> Floats:
        """Measured use of what is allocatable, NaN where one of the two is missing."""
        offered = self.allocatable(resource)
        return self.used(resource) / np.where(offered > 0, offered, np.nan)

    def pods_on(self, node: str) -> Mapping[str, Pod]:
        """Pods that count on the node, by UID, assumed ones included."""
        return self._on_node.get(node, {})

    def plugin_state(self, plugin: str) -> Any:
        return self._plugin_state.get(plugin)

    def with_pods(self, added: Mapping[str, Iterable[Pod]], removed: Mapping[str, Iterable[Pod]] | None = None) -> View:
        """Each node as if pods were added to and taken from it alone; only what they touch is copied.

        Amounts and ports are each node's own anyway. Whoever counts pods across nodes looks at `moved`.
        """
        twin = self._node_table.shallow_copy()
        twin.requested = {name: cells.copy() for name, cells in self._node_table.requested.items()}
        twin.limits = {name: cells.copy() for name, cells in self._node_table.limits.items()}
        twin.nonzero_cpu, twin.nonzero_memory = (
            self._node_table.nonzero_cpu.copy(),
            self._node_table.nonzero_memory.copy(),
        )
        twin.pod_count, twin.host_ports = self._node_table.pod_count.copy(), self._node_table.host_ports.copy()
        twin.volume_usage = self._node_table.volume_usage.overlay()
        twin.log = []
        for sign, change in ((twin.add_pod, added), (twin.remove_pod, removed or {})):
            for node, pods in change.items():
                for pod in pods:
                    sign(node, pod)
        overlay = View(
            twin, self._load, self._plugin_state, self.objects, self._on_node, self.pod_table, self.topology_counts
        )
        step = pod_delta(self.pod_table, self._node_table.row, added, removed or {})
        overlay.delta = step if self.delta is None else self.delta.merged(step)
        return overlay

    def without_pods(self, slots: NDArray[np.intp], incoming: Pod) -> View:
        """The same for many pods at once, by their slots in `pods`, on known nodes; for filters of the newcomer alone.

        Nothing can be added to or taken from it again.
        """
        overlay = View(
            without_pods(self._node_table, self.pod_table, slots, incoming.spec),
            self._load,
            self._plugin_state,
            self.objects,
            self._on_node,
            self.pod_table,
            self.topology_counts,
        )
        overlay.delta = PodDelta(slots) if self.delta is None else self.delta.merged(PodDelta(slots))
        return overlay

    def _amounts(self, cells: Mapping[str, ExactColumn], resource: str) -> Ints:
        column = cells.get(resource)
        return np.zeros(self.count, dtype=np.int64) if column is None else column.array[: self.count]
