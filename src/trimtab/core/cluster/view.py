"""What plugins look at: columns to read, one cell per node, and a way to pretend that pods were added or gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.cells import Cells, Ints
from trimtab.core.cluster.columns import Columns
from trimtab.core.cluster.mounts import Mounts
from trimtab.core.cluster.moved import Moved, moved
from trimtab.core.cluster.objects import Objects
from trimtab.core.cluster.residents import Residents
from trimtab.core.cluster.stripped import stripped
from trimtab.core.cluster.topology.census import Census
from trimtab.core.load.columns import LoadColumns
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.taints import Taint

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class View:
    """A cluster to be read. Arrays are the live ones: copy before keeping or changing them."""

    __slots__ = ("_columns", "_load", "_memory", "_on_node", "_shifted", "census", "count", "moved", "objects", "pods")

    def __init__(
        self,
        columns: Columns,
        load: LoadColumns | None = None,
        memory: Mapping[str, Any] | None = None,
        objects: Objects | None = None,
        on_node: Mapping[str, Mapping[str, Pod]] | None = None,
        pods: Residents | None = None,
        census: Census | None = None,
    ) -> None:
        self._columns = columns
        self._load = load if load is not None else LoadColumns(rows=len(columns))
        self._memory = memory or {}
        self._on_node = on_node or {}
        self.objects = objects if objects is not None else Objects()
        self.pods = pods if pods is not None else Residents()  # all that hold a place, as columns
        # Counts of pods by row and domain, of the cluster itself: an overlay's own part is in `moved`.
        self.census = census if census is not None else Census(columns, self.pods)
        self.moved: Moved | None = None  # what an overlay adds and takes away
        self._shifted: LoadColumns | None = None
        self.count = len(columns)

    @property
    def nodes(self) -> Sequence[Node]:
        return self._columns.nodes

    @property
    def columns(self) -> Columns:
        """For whoever keeps answers between pods; plugins use the methods below."""
        return self._columns

    def row(self, name: str) -> int | None:
        return self._columns.row.get(name)

    def allocatable(self, resource: str) -> Ints:
        return self._amounts(self._columns.allocatable, resource)

    def capacity(self, resource: str) -> Ints:
        """What the machine has, of which `allocatable` is left for pods."""
        return self._amounts(self._columns.has, resource)

    def requested(self, resource: str) -> Ints:
        return self._amounts(self._columns.requested, resource)

    def limited(self, resource: str) -> Ints:
        """Limits of CPU or memory summed, where a pod without a limit counts with what it asks for."""
        return self._amounts(self._columns.limited, resource)

    @property
    def scored_cpu(self) -> Ints:
        """Requested CPU where containers that ask for nothing count a little; memory alike."""
        return self._columns.scored_cpu.array[: self.count]

    @property
    def scored_memory(self) -> Ints:
        return self._columns.scored_memory.array[: self.count]

    @property
    def pod_count(self) -> Ints:
        return self._columns.pod_count[: self.count]

    @property
    def unschedulable(self) -> Bools:
        return self._columns.unschedulable[: self.count]

    @property
    def taint_set(self) -> NDArray[np.intp]:
        """Which of `taint_sets` each node carries."""
        return self._columns.taint_set[: self.count]

    @property
    def taint_sets(self) -> list[tuple[Taint, ...]]:
        return list(self._columns.taint_sets)

    @property
    def name_hash(self) -> NDArray[np.uint64]:
        return self._columns.name_hash[: self.count]

    def labelled(self, requirement: Requirement) -> Bools:
        """Nodes whose labels meet the requirement."""
        columns = self._columns
        column = columns.labels.column(requirement.key, (node.labels for node in columns.nodes), columns.capacity)
        return column.where(requirement, self.count)

    def named(self, names: Iterable[str]) -> Bools:
        found = np.zeros(self.count, dtype=np.bool_)
        for name in names:
            row = self.row(name)
            if row is not None:
                found[row] = True
        return found

    def port_clashes(self, port: HostPort) -> Bools:
        return self._columns.ports.clashes(port, self.count)

    @property
    def mounts(self) -> Mounts:
        """The volumes that pods use, by node."""
        return self._columns.mounts

    def image_sizes(self, name: str) -> tuple[NDArray[np.intp], Ints]:
        """Rows of the nodes that hold the image, and its size on each."""
        cells = self._columns.image_cells.get(name)
        if cells is None:
            held = self._columns.images.get(name, {})
            rows = np.fromiter(map(self._columns.row.__getitem__, held), dtype=np.intp, count=len(held))
            cells = rows, np.fromiter(held.values(), dtype=np.int64, count=len(held))
            if held:
                self._columns.image_cells[name] = cells
        return cells

    @property
    def load(self) -> LoadColumns:
        """What was measured, and what an overlay's pods change of it; see `load/answers.py`."""
        if self.moved is None:
            return self._load
        if self._shifted is None:
            self._shifted = self._load.shifted(self.moved.slots, self.moved.others)
        return self._shifted

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

    def memory(self, plugin: str) -> Any:
        return self._memory.get(plugin)

    def with_pods(self, added: Mapping[str, Iterable[Pod]], removed: Mapping[str, Iterable[Pod]] | None = None) -> View:
        """Each node as if pods were added to and taken from it alone; only what they touch is copied.

        Amounts and ports are each node's own anyway. Whoever counts pods across nodes looks at `moved`.
        """
        twin = self._columns.shadow()
        twin.requested = {name: cells.copy() for name, cells in self._columns.requested.items()}
        twin.limited = {name: cells.copy() for name, cells in self._columns.limited.items()}
        twin.scored_cpu, twin.scored_memory = self._columns.scored_cpu.copy(), self._columns.scored_memory.copy()
        twin.pod_count, twin.ports = self._columns.pod_count.copy(), self._columns.ports.copy()
        twin.mounts = self._columns.mounts.overlay()
        twin.log = []
        for sign, change in ((twin.add_pod, added), (twin.remove_pod, removed or {})):
            for node, pods in change.items():
                for pod in pods:
                    sign(node, pod)
        overlay = View(twin, self._load, self._memory, self.objects, self._on_node, self.pods, self.census)
        step = moved(self.pods, self._columns.row, added, removed or {})
        overlay.moved = step if self.moved is None else self.moved.joined(step)
        return overlay

    def without(self, slots: NDArray[np.intp], newcomer: Pod) -> View:
        """The same for many pods at once, by their slots in `pods`, on known nodes; for filters of the newcomer alone.

        Nothing can be added to or taken from it again.
        """
        overlay = View(
            stripped(self._columns, self.pods, slots, newcomer.spec),
            self._load,
            self._memory,
            self.objects,
            self._on_node,
            self.pods,
            self.census,
        )
        overlay.moved = Moved(slots) if self.moved is None else self.moved.joined(Moved(slots))
        return overlay

    def _amounts(self, cells: Mapping[str, Cells], resource: str) -> Ints:
        column = cells.get(resource)
        return np.zeros(self.count, dtype=np.int64) if column is None else column.array[: self.count]
