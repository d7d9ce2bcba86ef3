"""The columns as they would be without many pods at once; which pods, and what follows from it, is for others to say.

Only what filters look at is redone: requests, the number of pods and, where the newcomer asks for any, host ports and
volumes. Nothing can be added to the result, because it has no exact sums: add first, then strip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.exact_column import ExactColumn, Ints
from trimtab.core.cluster.host_ports import HostPorts
from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.resources import MAX_AMOUNT

Slots = NDArray[np.intp]


def without_pods(columns: NodeTable, pods: PodTable, slots: Slots, newcomer: PodSpec) -> NodeTable:
    """These pods must stand on known nodes."""
    rows = pods.row[slots]
    twin = columns.shallow_copy()
    twin.requested = {
        name: _subtracted(cells, rows, pods.requested[name][slots]) if name in pods.requested else cells
        for name, cells in columns.requested.items()
    }
    twin.pod_count = columns.pod_count - np.bincount(rows, minlength=len(columns.pod_count))
    tied = slots[pods.tied[slots]].tolist() if newcomer.ports or newcomer.volumes else ()
    if tied and newcomer.ports:
        twin.host_ports = _ports_without(columns.host_ports, pods, tied)
    if tied and newcomer.volumes:
        twin.volume_usage = columns.volume_usage.overlay()
        for row, pod in _placed(pods, tied):
            twin.volume_usage.add(row, pod.node, pod, -1)
    return twin


def _subtracted(cells: ExactColumn, rows: Slots, amounts: Ints) -> ExactColumn:
    if not amounts.any():
        return cells
    twin = object.__new__(ExactColumn)
    twin.exact, twin.array = [], cells.array.copy()
    np.subtract.at(twin.array, rows, amounts)
    for row in np.flatnonzero(cells.array == MAX_AMOUNT).tolist():  # what was cut off at the cap is known only exactly
        left = cells.exact[row] - sum(amounts[rows == row].tolist())
        twin.array[row] = min(left, MAX_AMOUNT)
    return twin


def _ports_without(ports: HostPorts, pods: PodTable, slots: Iterable[int]) -> HostPorts:
    leaving: dict[HostPort, list[int]] = defaultdict(list)
    for row, pod in _placed(pods, slots):
        for port in pod.spec.ports:
            leaving[port].append(row)
    twin = HostPorts(ports.capacity)
    twin.taken = {key: by_address.copy() for key, by_address in ports.taken.items()}
    for port, rows in leaving.items():
        by_address = twin.taken[port.protocol, port.port]
        by_address[port.ip] = by_address[port.ip].copy()
        np.subtract.at(by_address[port.ip], rows, 1)
    return twin


def _placed(pods: PodTable, slots: Iterable[int]) -> Iterator[tuple[int, Pod]]:
    for slot in slots:
        pod = pods.pods[slot]
        if pod is not None:
            yield pods.row.item(slot), pod
