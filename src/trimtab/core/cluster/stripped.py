"""The columns as they would be without many pods at once; which pods, and what follows from it, is for others to say.

Only what filters look at is redone: requests, the number of pods and, where the newcomer asks for any, host ports and
volumes. Nothing can be added to the result, because it has no exact sums: add first, then strip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.cells import Cells, Ints
from trimtab.core.cluster.columns import Columns
from trimtab.core.cluster.ports import Ports
from trimtab.core.cluster.residents import Residents
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.resources import CAP

Slots = NDArray[np.intp]


def stripped(columns: Columns, pods: Residents, slots: Slots, newcomer: PodSpec) -> Columns:
    """These pods must stand on known nodes."""
    rows = pods.row[slots]
    twin = columns.shadow()
    twin.requested = {
        name: _less(cells, rows, pods.requested[name][slots]) if name in pods.requested else cells
        for name, cells in columns.requested.items()
    }
    twin.pod_count = columns.pod_count - np.bincount(rows, minlength=len(columns.pod_count))
    tied = slots[pods.tied[slots]].tolist() if newcomer.ports or newcomer.volumes else ()
    if tied and newcomer.ports:
        twin.ports = _fewer(columns.ports, pods, tied)
    if tied and newcomer.volumes:
        twin.mounts = columns.mounts.overlay()
        for row, pod in _standing(pods, tied):
            twin.mounts.add(row, pod.node, pod, -1)
    return twin


def _less(cells: Cells, rows: Slots, amounts: Ints) -> Cells:
    if not amounts.any():
        return cells
    twin = object.__new__(Cells)
    twin.exact, twin.array = [], cells.array.copy()
    np.subtract.at(twin.array, rows, amounts)
    for row in np.flatnonzero(cells.array == CAP).tolist():  # what was cut off at the cap is known only exactly
        left = cells.exact[row] - sum(amounts[rows == row].tolist())
        twin.array[row] = min(left, CAP)
    return twin


def _fewer(ports: Ports, pods: Residents, slots: Iterable[int]) -> Ports:
    leaving: dict[HostPort, list[int]] = defaultdict(list)
    for row, pod in _standing(pods, slots):
        for port in pod.spec.ports:
            leaving[port].append(row)
    twin = Ports(ports.capacity)
    twin.taken = {key: by_address.copy() for key, by_address in ports.taken.items()}
    for port, rows in leaving.items():
        by_address = twin.taken[port.protocol, port.port]
        by_address[port.ip] = by_address[port.ip].copy()
        np.subtract.at(by_address[port.ip], rows, 1)
    return twin


def _standing(pods: Residents, slots: Iterable[int]) -> Iterator[tuple[int, Pod]]:
    for slot in slots:
        pod = pods.pods[slot]
        if pod is not None:
            yield pods.row.item(slot), pod
