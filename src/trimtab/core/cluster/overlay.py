"""What-if views: the cluster with some pods added and removed.

Each node is seen as if only its own pods had been added or removed, as kube-scheduler evaluates nominated pods and victims
node by node: a pod removed from one node of a zone still counts when another node of that zone is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy as shallow_copy

import numpy as np

from trimtab.core.cluster.node_table import HostPorts, NodeTable
from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.model.pod import Pod, PodSpec
from trimtab.core.model.resources import MAX_AMOUNT
from trimtab.core.tables import ExactColumn, Index, Ints

NO_SLOTS: Index = np.zeros(0, dtype=np.intp)


class PodDelta:
    """Pods added and removed: `slots` of removed pods; `untracked` ones have no slot: the row, the pod, and 1 or -1."""

    __slots__ = ("slots", "untracked")

    def __init__(self, slots: Index = NO_SLOTS, untracked: tuple[tuple[int, Pod, int], ...] = ()) -> None:
        self.slots = slots
        self.untracked = untracked

    def merged(self, other: PodDelta) -> PodDelta:
        return PodDelta(np.concatenate([self.slots, other.slots]), self.untracked + other.untracked)


def pod_delta(
    pod_table: PodTable,
    rows: Mapping[str, int],
    added: Mapping[str, Iterable[Pod]],
    removed: Mapping[str, Iterable[Pod]],
) -> PodDelta:
    """Pods by node name; those on unknown nodes are left out."""
    untracked = [(rows[node], pod, 1) for node, pods in added.items() if node in rows for pod in pods]
    slots = []
    for node, pods in removed.items():
        for pod in pods if node in rows else ():
            slot = pod_table.slot.get(pod.uid)
            if slot is not None:
                slots.append(slot)
            else:
                untracked.append((rows[node], pod, -1))
    for _, pod, _ in untracked:
        pod_table.affinity_terms.id_of(pod)  # so that their terms are found, too, when terms are matched
    return PodDelta(np.array(slots, dtype=np.intp), tuple(untracked))


def without_pods(node_table: NodeTable, pods: PodTable, slots: Index, incoming: PodSpec) -> NodeTable:
    """The node table without many pods of known nodes at once.

    Only what filters read is updated: requests, the pod count and, if the incoming pod has any, host ports and volumes.
    Pods cannot be added to the result, because it has no exact sums: add first, then remove.
    """
    rows = pods.row[slots]
    copy = shallow_copy(node_table)
    removed = frozenset(slots.tolist())
    copy.requested = node_table.requested.copy()
    for name, by_slot in pods.requested.items():
        if name in copy.requested and not removed.isdisjoint(by_slot.exact):
            copy.requested[name] = _subtracted(copy.requested[name], rows, by_slot.array[slots])
    copy.pod_count = node_table.pod_count - np.bincount(rows, minlength=node_table.size)
    affected = slots[pods.has_ports_or_volumes[slots]].tolist() if incoming.ports or incoming.volumes else ()
    if affected and incoming.ports:
        copy.host_ports = _ports_without(node_table.host_ports, pods, affected)
    if affected and incoming.volumes:
        copy.volume_usage = node_table.volume_usage.overlay()
        for row, pod in _placed(pods, affected):
            copy.volume_usage.add(row, pod.node, pod, -1)
    return copy


def _subtracted(exact: ExactColumn, rows: Index, amounts: Ints) -> ExactColumn:
    array = exact.array.copy()
    np.subtract.at(array, rows, amounts)
    for row in np.flatnonzero(exact.array == MAX_AMOUNT).tolist():  # capped in the array: subtract from the exact sum
        left = exact.exact[row] - sum(amounts[rows == row].tolist())
        array[row] = min(left, MAX_AMOUNT)
    return exact.with_array(array)


def _ports_without(ports: HostPorts, pods: PodTable, slots: Iterable[int]) -> HostPorts:
    copy = ports.copy()
    for row, pod in _placed(pods, slots):
        copy.add(row, pod.spec.ports, -1)
    return copy


def _placed(pods: PodTable, slots: Iterable[int]) -> Iterator[tuple[int, Pod]]:
    for slot in slots:
        pod = pods.pods[slot]
        if pod is not None:
            yield pods.row.item(slot), pod
