"""The node table: one row per node, with allocatable, requested, taints, host ports, volumes and images as columns.

Rows are dense: when a node is removed the last row moves into its place, so a row number is valid only until `epoch`
changes. Every other change, and each node added, is logged as (change, row), so that cached results can be recomputed, and
queueing hints asked, for those rows alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy as shallow_copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.labels import NO_LABELS, LabelColumns
from trimtab.core.cluster.node_capacity import NodeCapacity
from trimtab.core.cluster.volume_usage import VolumeUsage
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod
from trimtab.core.model.resources import CPU, MEMORY, PodRequests
from trimtab.core.model.taints import Taint
from trimtab.core.tables import ArrayTable, Bools, ExactColumn, Groups, Index, Ints, clear_amount, column, set_amount

FIRST_CAPACITY = 16
MAX_LOG = 100_000
MAX_TAINT_SETS_PER_ROW, MIN_TAINTS = 4, 100_000
LIMITED_RESOURCES = (CPU, MEMORY)  # of which pods may use more than they request
EVERY_ROW = -1  # in the log: the change affects all rows
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 (a host port's hostIP)


class HostPorts:
    """Pods per host port and row, by protocol, port and address. 0.0.0.0 conflicts with every address of the node."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken: dict[tuple[str, int], dict[str, dict[int, int]]] = {}

    def add(self, row: int, ports: Iterable[HostPort], delta: int) -> None:
        for port in ports:
            by_address = self.taken.setdefault((port.protocol, port.port), {})
            counts = by_address.setdefault(port.ip, {})
            counts[row] = counts.get(row, 0) + delta
            if not counts[row]:
                del counts[row]
            if not counts:
                del by_address[port.ip]
            if not by_address:
                del self.taken[port.protocol, port.port]

    def conflicts(self, ports: Iterable[HostPort], rows: Index) -> Bools:
        """On which of the rows one of the ports is in use."""
        taken = [counts for port in ports for counts in self._counts(port)]
        if len(rows) == 1:  # as for a node that has changed
            row = rows.item(0)
            return np.array([any(row in counts for counts in taken)])
        mask = np.zeros(int(rows.max(initial=0)) + 1, dtype=np.bool_)
        for counts in taken:
            mask[[row for row in counts if row < len(mask)]] = True
        return mask[rows]

    def _counts(self, port: HostPort) -> Iterator[dict[int, int]]:
        """Of the addresses that conflict with the port."""
        for address, counts in self.taken.get((port.protocol, port.port), {}).items():
            if ANY_ADDRESS in (address, port.ip) or address == port.ip:
                yield counts

    def copy(self) -> HostPorts:
        copy = HostPorts()
        copy.taken = {
            key: {address: counts.copy() for address, counts in by_address.items()}
            for key, by_address in self.taken.items()
        }
        return copy


class NodeTable(ArrayTable):
    """Amounts are exact; labels, taint sets and names are interned as numbers."""

    pod_count: Ints = column(0, np.int64)
    unschedulable: Bools = column(False, np.bool_)
    taint_set: Index = column(0, np.intp)  # which of `taint_sets`
    name_hash: NDArray[np.uint64] = column(0, np.uint64)

    def __init__(self) -> None:
        super().__init__(FIRST_CAPACITY)
        self.nodes: list[Node] = []
        self.row: dict[str, int] = {}
        self.allocatable: dict[str, ExactColumn] = {}
        self.node_capacity = NodeCapacity(self.nodes, self.size)
        self.requested: dict[str, ExactColumn] = {}
        self.limits: dict[str, ExactColumn] = {name: ExactColumn(self.size) for name in LIMITED_RESOURCES}
        self.nonzero_cpu, self.nonzero_memory = ExactColumn(self.size), ExactColumn(self.size)
        self.taint_sets: dict[tuple[Taint, ...], int] = {(): 0}
        self._taints = self._taints_kept = 0  # in all sets, and in those that were kept when some were dropped
        self.labels = LabelColumns()
        self.host_ports = HostPorts()
        self.volume_usage = VolumeUsage(self.size)
        self.images: Groups[int] = Groups()  # size by image name and node name
        self.image_columns: dict[str, tuple[Index, Ints]] = {}  # rows and sizes, computed on demand
        self.annotated = 0  # nodes with annotations that some plugin reads
        self.epoch = 0
        self.log_epoch = 0  # rises when the log starts afresh
        self.label_changes = self.taint_changes = 0  # rise when a known node's labels or taints change
        self.log: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.nodes)

    def log_change(self, change: Change, row: int) -> None:
        if len(self.log) >= MAX_LOG:
            self.bump_epoch()
        self.log.append((int(change), row))

    def bump_epoch(self) -> None:
        """Row numbers, or everything, may have changed: cached results are void."""
        self.epoch += 1
        self.log_epoch += 1
        self.log = []
        self.image_columns = {}

    # --- nodes

    def add_node(self, node: Node) -> None:
        if len(self.nodes) == self.size:
            self.grow(self.size * 2)
        row = len(self.nodes)
        self.nodes.append(node)
        self.row[node.name] = row
        self.name_hash[row] = name_hash(node.name)
        self._fill(row, node)
        self.epoch += 1  # there is one row more; what the log says of the others is still true
        self.image_columns = {}
        self.log_change(Change.NODE_ADDED, row)

    def update_node(self, node: Node) -> Change:
        row = self.row[node.name]
        old = self.nodes[row]
        changed = node_changes(old, node)
        if changed:
            self._unfill(row, old)
            self._fill(row, node, old.labels)
            self.log_change(changed & ~Change.IMAGES, row)
            self.label_changes += bool(changed & Change.LABELS)
            self.taint_changes += bool(changed & Change.TAINTS)
        if changed & Change.IMAGES:
            self.log_change(Change.IMAGES, EVERY_ROW)  # ImageLocality scales by the nodes that have an image
        self.nodes[row] = node
        self._forget_taint_sets()
        return changed

    def remove_node(self, name: str, pods: Mapping[str, Mapping[str, Pod]]) -> None:
        """Remove the node and move the last row into its place. `pods` are those of each node by name."""
        row, last = self.row.pop(name), len(self.nodes) - 1
        self._clear_row(row, pods)
        if row != last:
            moved = self.nodes[last]
            self._clear_row(last, pods)
            self.nodes[row] = moved
            self.row[moved.name] = row
            self.name_hash[row] = self.name_hash[last]
            self._fill(row, moved)
            for pod in pods.get(moved.name, {}).values():
                self._count(row, pod, 1)
        self.nodes.pop()
        self._forget_taint_sets()
        self.bump_epoch()

    def _fill(self, row: int, node: Node, labels_before: Mapping[str, str] = NO_LABELS) -> None:
        for resource, amount in node.allocatable:
            set_amount(self.allocatable, resource, row, amount, self.size)
        self.node_capacity.set(row, node)
        self.unschedulable[row] = node.unschedulable
        self.taint_set[row] = self._taint_set_of(node)
        self.labels.set(row, node.labels, labels_before)
        self.annotated += bool(node.annotations)
        for image in node.images:
            for name in image.names:
                self.images.put(name, node.name, image.size)
                self.image_columns.pop(name, None)

    def _unfill(self, row: int, node: Node) -> None:
        self.annotated -= bool(node.annotations)
        for resource, _ in node.allocatable:
            clear_amount(self.allocatable, resource, row)
        self.node_capacity.set(row, None)
        for image in node.images:
            for name in image.names:
                self.images.remove(name, node.name)
                self.image_columns.pop(name, None)

    def _clear_row(self, row: int, pods: Mapping[str, Mapping[str, Pod]]) -> None:
        node = self.nodes[row]
        for pod in pods.get(node.name, {}).values():
            self._count(row, pod, -1)
        self._unfill(row, node)
        self.labels.remove(node.labels)

    def _taint_set_of(self, node: Node) -> int:
        number = self.taint_sets.get(node.taints)
        if number is None:
            number = self.taint_sets[node.taints] = len(self.taint_sets)
            self._taints += len(node.taints)
        return number

    def _forget_taint_sets(self) -> None:
        """Drop the sets that no node has any more, once they are many or large."""
        if (
            len(self.taint_sets) > MAX_TAINT_SETS_PER_ROW * self.size
            or self._taints > MIN_TAINTS + 2 * self._taints_kept
        ):
            self.taint_sets, self._taints = {(): 0}, 0
            for row, node in enumerate(self.nodes):
                self.taint_set[row] = self._taint_set_of(node)
            self._taints_kept = self._taints

    # --- pods

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

    def count_pods(self, node: str, pods: Collection[Pod], sign: int) -> None:
        """Add (1) or remove (-1) many at once: often they have equal requests."""
        row = self.row.get(node)
        if row is None:
            return
        for requests, number in Counter(each.requests for each in pods).items():
            self._count_requests(row, requests, sign * number)
        for pod in pods:
            self._count_ports_and_volumes(row, pod, sign)
        self.log_change(Change.POD_ADDED if sign > 0 else Change.POD_DELETED, row)

    def _count(self, row: int, pod: Pod, sign: int) -> None:
        self._count_requests(row, pod.requests, sign)
        self._count_ports_and_volumes(row, pod, sign)

    def _count_requests(self, row: int, requests: PodRequests, number: int) -> None:
        for resource, amount in requests.amounts:
            exact = self.requested.get(resource)
            if exact is None:
                set_amount(self.requested, resource, row, number * amount, self.size)
                continue
            exact.add(row, number * amount)
            if not exact.exact:
                del self.requested[resource]
        for resource, exact in self.limits.items():
            exact.add(row, number * requests.limit_of(resource))
        self.nonzero_cpu.add(row, number * requests.assigned_nonzero_cpu)
        self.nonzero_memory.add(row, number * requests.assigned_nonzero_memory)
        self.pod_count[row] += number

    def _count_ports_and_volumes(self, row: int, pod: Pod, sign: int) -> None:
        if pod.spec.ports:
            self.host_ports.add(row, pod.spec.ports, sign)
        if pod.spec.volumes:
            self.volume_usage.add(row, self.nodes[row].name, pod, sign)

    # --- growing and copies

    def grow(self, size: int) -> None:
        super().grow(size)
        for exact in self._exact_columns():
            exact.grow(size)
        self.node_capacity.grow(size)
        self.labels.grow(size)
        self.volume_usage.grow(size)

    def _exact_columns(self) -> Iterator[ExactColumn]:
        for table in (self.allocatable, self.requested, self.limits):
            yield from table.values()
        yield self.nonzero_cpu
        yield self.nonzero_memory

    def copy(self) -> Self:
        copy = super().copy()
        copy.nodes, copy.row, copy.log = self.nodes.copy(), self.row.copy(), self.log.copy()
        copy.allocatable, copy.node_capacity = _copy_values(self.allocatable), self.node_capacity.copy(copy.nodes)
        copy.taint_sets, copy.labels = self.taint_sets.copy(), self.labels.copy()
        copy.images, copy.image_columns = self.images.copy(), self.image_columns.copy()
        copy._copy_pod_columns(self)
        copy.volume_usage = self.volume_usage.copy()
        return copy

    def overlay(self) -> Self:
        """A copy to which pods can be added and removed, as long as this table does not change; shares the rest."""
        copy = shallow_copy(self)
        copy.pod_count, copy.log = self.pod_count.copy(), []
        copy._copy_pod_columns(self)
        copy.volume_usage = self.volume_usage.overlay()
        return copy

    def _copy_pod_columns(self, other: NodeTable) -> None:
        self.requested, self.limits = _copy_values(other.requested), _copy_values(other.limits)
        self.nonzero_cpu, self.nonzero_memory = other.nonzero_cpu.copy(), other.nonzero_memory.copy()
        self.host_ports = other.host_ports.copy()


def _copy_values(columns: dict[str, ExactColumn]) -> dict[str, ExactColumn]:
    return {name: exact.copy() for name, exact in columns.items()}


def node_changes(old: Node, new: Node) -> Change:
    """What changed of a node, among everything a plugin can depend on."""
    changed = Change.NOTHING
    if (old.allocatable, old.capacity, old.annotations) != (new.allocatable, new.capacity, new.annotations):
        changed |= Change.ALLOCATABLE
    if old.labels != new.labels:
        changed |= Change.LABELS
    if old.taints != new.taints or old.unschedulable != new.unschedulable:
        changed |= Change.TAINTS
    if old.images != new.images:
        changed |= Change.IMAGES
    return changed


def name_hash(name: str) -> int:
    """64-bit FNV-1a of the name: the same on every machine and in every run."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
