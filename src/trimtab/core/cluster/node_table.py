"""All columns of the cluster, kept true by adding and taking away nodes and pods; what they mean is for plugins.

Rows are dense: a node that goes leaves its row to the last one, so a row number is good only until `epoch` changes.
Every other change is noted in `log` as (change, row), so that whoever keeps answers can redo just those rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.exact_column import ExactColumn, Ints
from trimtab.core.cluster.host_ports import HostPorts
from trimtab.core.cluster.labels import LabelColumns
from trimtab.core.cluster.volume_usage import VolumeUsage
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY, Amounts
from trimtab.core.model.taints import Taint

FIRST_CAPACITY = 16
MAX_LOG = 100_000
MAX_TAINT_SETS_PER_ROW = 4  # a row
LIMITED_RESOURCES = (CPU, MEMORY)  # of which pods may use more than they ask for
EVERY_ROW = -1  # in the log: the change is felt in all rows


class NodeTable:
    """Node columns. Amounts are exact; labels, taint sets and names are numbers that stand for values."""

    def __init__(self) -> None:
        self.capacity = FIRST_CAPACITY
        self.nodes: list[Node] = []
        self.row: dict[str, int] = {}
        self.allocatable: dict[str, ExactColumn] = {}
        self.node_capacity: dict[
            str, ExactColumn
        ] = {}  # what the machine itself has, of which `allocatable` is left for pods
        self.requested: dict[str, ExactColumn] = {}
        self.limits: dict[str, ExactColumn] = {name: ExactColumn(self.capacity) for name in LIMITED_RESOURCES}
        self.nonzero_cpu = ExactColumn(self.capacity)
        self.nonzero_memory = ExactColumn(self.capacity)
        self.pod_count: Ints = np.zeros(self.capacity, dtype=np.int64)
        self.unschedulable: NDArray[np.bool_] = np.zeros(self.capacity, dtype=np.bool_)
        self.taint_set: NDArray[np.intp] = np.zeros(self.capacity, dtype=np.intp)
        self.taint_sets: dict[tuple[Taint, ...], int] = {(): 0}
        self.name_hash: NDArray[np.uint64] = np.zeros(self.capacity, dtype=np.uint64)
        self.labels = LabelColumns()
        self.host_ports = HostPorts(self.capacity)
        self.volume_usage = VolumeUsage(self.capacity)
        self.images: dict[str, dict[str, int]] = {}
        self.image_columns: dict[str, tuple[NDArray[np.intp], Ints]] = {}  # rows and sizes, made when asked for
        self.with_thresholds = 0  # nodes with thresholds of their own
        self.epoch = 0
        self.label_changes = self.taint_changes = (
            0  # rise whenever a node that is there changes its labels, or its taints
        )
        self.log: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.nodes)

    def log_change(self, change: Change, row: int) -> None:
        if len(self.log) >= MAX_LOG:
            self.bump_epoch()
        self.log.append((int(change), row))

    def bump_epoch(self) -> None:
        """Row numbers, or everything, may have changed: kept answers are void."""
        self.epoch += 1
        self.log = []
        self.image_columns = {}

    def add_node(self, node: Node) -> None:
        if len(self.nodes) == self.capacity:
            self._grow(self.capacity * 2)
        row = len(self.nodes)
        self.nodes.append(node)
        self.row[node.name] = row
        self.name_hash[row] = name_hash(node.name)
        self._fill(row, node)
        self.bump_epoch()

    def update_node(self, node: Node) -> Change:
        row = self.row[node.name]
        old = self.nodes[row]
        changed = node_changes(old, node)
        if changed:
            self._clear(row, old)
            self._fill(row, node)
            self.log_change(changed & ~Change.IMAGES, row)
            self.label_changes += bool(changed & Change.LABELS)
            self.taint_changes += bool(changed & Change.TAINTS)
        if changed & Change.IMAGES:
            self.log_change(Change.IMAGES, EVERY_ROW)  # an image's spread is counted over all nodes
        self.nodes[row] = node
        if len(self.taint_sets) > MAX_TAINT_SETS_PER_ROW * self.capacity:
            self._compact_taint_sets()
        return changed

    def remove_node(self, name: str, pods: Mapping[str, Mapping[str, Pod]]) -> None:
        """Take the node out, and give its row to the last one. `pods` are those on each node, by its name."""
        row, last = self.row.pop(name), len(self.nodes) - 1
        self._clear_row(row, pods)
        if row != last:
            mover = self.nodes[last]
            self._clear_row(last, pods)
            self.nodes[row] = mover
            self.row[mover.name] = row
            self.name_hash[row] = self.name_hash[last]
            self._fill(row, mover)
            for pod in pods.get(mover.name, {}).values():
                self._count(row, pod, 1)
        self.nodes.pop()
        self.bump_epoch()

    def add_pod(self, node: str, pod: Pod, change: Change = Change.POD_ADDED) -> None:
        row = self.row.get(node)
        if row is not None:
            self._count(row, pod, 1)
            self.log_change(change, row)

    def remove_pod(self, node: str, pod: Pod, change: Change = Change.POD_DELETED) -> None:
        row = self.row.get(node)
        if row is not None:
            self._count(row, pod, -1)
            self.log_change(change, row)

    def copy(self) -> NodeTable:
        twin = object.__new__(NodeTable)
        twin.__dict__.update({name: _copied(value) for name, value in self.__dict__.items()})
        return twin

    def shallow_copy(self) -> NodeTable:
        """A twin that shares everything: for overlays, which put in the place of a part what they change of it."""
        twin = object.__new__(NodeTable)
        twin.__dict__.update(self.__dict__)
        return twin

    def _count(self, row: int, pod: Pod, sign: int) -> None:
        demand = pod.requests
        for resource, amount in demand.amounts:
            cells = self.requested.get(resource)
            if cells is None:
                cells = self.requested[resource] = ExactColumn(self.capacity)
            cells.add(row, sign * amount)
        for resource, cells in self.limits.items():
            cells.add(row, sign * demand.limit_of(resource))
        self.nonzero_cpu.add(row, sign * demand.assigned_nonzero_cpu)
        self.nonzero_memory.add(row, sign * demand.assigned_nonzero_memory)
        self.pod_count[row] += sign
        if pod.spec.ports:
            self.host_ports.add(row, pod.spec.ports, sign)
        if pod.spec.volumes:
            self.volume_usage.add(row, self.nodes[row].name, pod, sign)

    def _clear_row(self, row: int, pods: Mapping[str, Mapping[str, Pod]]) -> None:
        node = self.nodes[row]
        for pod in pods.get(node.name, {}).values():
            self._count(row, pod, -1)
        self._clear(row, node)

    def _fill(self, row: int, node: Node) -> None:
        self._set_amounts(self.allocatable, row, node.allocatable)
        self._set_amounts(self.node_capacity, row, node.capacity or node.allocatable)
        self.unschedulable[row] = node.unschedulable
        self.taint_set[row] = self.taint_sets.setdefault(node.taints, len(self.taint_sets))
        self.labels.set(row, node.labels)
        self.with_thresholds += node.thresholds is not None
        for image in node.images:
            for name in image.names:
                self.images.setdefault(name, {})[node.name] = image.size
                self.image_columns.pop(name, None)

    def _set_amounts(self, table: dict[str, ExactColumn], row: int, amounts: Amounts) -> None:
        for resource, amount in amounts:
            cells = table.get(resource)
            if cells is None:
                cells = table[resource] = ExactColumn(self.capacity)
            cells.set(row, amount)

    def _compact_taint_sets(self) -> None:
        """Forget the sets that no node carries any more."""
        self.taint_sets = {(): 0}
        for row, node in enumerate(self.nodes):
            self.taint_set[row] = self.taint_sets.setdefault(node.taints, len(self.taint_sets))

    def _clear(self, row: int, node: Node) -> None:
        self.with_thresholds -= node.thresholds is not None
        for resource, _ in node.allocatable:
            self.allocatable[resource].set(row, 0)
        for resource, _ in node.capacity or node.allocatable:
            self.node_capacity[resource].set(row, 0)
        for image in node.images:
            for name in image.names:
                holders = self.images.get(name, {})
                holders.pop(node.name, None)
                self.image_columns.pop(name, None)
                if not holders:
                    self.images.pop(name, None)

    def _grow(self, capacity: int) -> None:
        for cells in self._exact_columns():
            cells.grow(capacity)
        self.labels.grow(capacity)
        self.host_ports.grow(capacity)
        self.volume_usage.grow(capacity)
        for name in ("pod_count", "unschedulable", "taint_set", "name_hash"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros(capacity - self.capacity, dtype=old.dtype)]))
        self.capacity = capacity

    def _exact_columns(self) -> Iterator[ExactColumn]:
        yield from self.allocatable.values()
        yield from self.node_capacity.values()
        yield from self.requested.values()
        yield from self.limits.values()
        yield self.nonzero_cpu
        yield self.nonzero_memory


def node_changes(old: Node, new: Node) -> Change:
    """What of a node has changed that anything could depend on."""
    changed = Change.NOTHING
    offered = (old.allocatable, old.capacity, old.thresholds)
    if offered != (new.allocatable, new.capacity, new.thresholds):
        changed |= Change.ALLOCATABLE
    if old.labels != new.labels:
        changed |= Change.LABELS
    if old.taints != new.taints or old.unschedulable != new.unschedulable:
        changed |= Change.TAINTS
    if old.images != new.images:
        changed |= Change.IMAGES
    return changed


def name_hash(name: str) -> int:
    """FNV-1a over the name, 64 bits: the same on every machine and in every run."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _copied(value: object) -> object:
    """A copy as deep as this class writes: arrays, columns and containers, but never the frozen values in them."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, list, ExactColumn, LabelColumns, HostPorts, VolumeUsage)):
        return value.copy()
    return value
