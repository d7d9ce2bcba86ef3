"""Which host ports are taken on which nodes; a column of counts per protocol, port and address."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.model.pod import HostPort

Bools = NDArray[np.bool_]

ANY_ADDRESS = "0.0.0.0"

Counts = NDArray[np.int32]


class HostPorts:
    """Counts of pods that hold a port. A port on 0.0.0.0 clashes with the same port on any address of the node."""

    __slots__ = ("capacity", "taken")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.taken: dict[tuple[str, int], dict[str, Counts]] = {}

    def add(self, row: int, ports: Iterable[HostPort], delta: int) -> None:
        for port in ports:
            by_address = self.taken.setdefault((port.protocol, port.port), {})
            counts = by_address.get(port.ip)
            if counts is None:
                counts = by_address[port.ip] = np.zeros(self.capacity, dtype=np.int32)
            counts[row] += delta
            if delta < 0 and not counts.any():  # a port that nobody holds any more costs nothing
                del by_address[port.ip]
                if not by_address:
                    del self.taken[port.protocol, port.port]

    def conflicts(self, port: HostPort, count: int) -> Bools:
        by_address = self.taken.get((port.protocol, port.port), {})
        clash = np.zeros(count, dtype=np.bool_)
        for address, counts in by_address.items():
            if ANY_ADDRESS in (address, port.ip) or address == port.ip:
                clash |= counts[:count] > 0
        return clash

    def grow(self, capacity: int) -> None:
        extra = np.zeros(capacity - self.capacity, dtype=np.int32)
        self.capacity = capacity
        self.taken = {
            key: {address: np.concatenate([counts, extra]) for address, counts in by_address.items()}
            for key, by_address in self.taken.items()
        }

    def copy(self) -> HostPorts:
        twin = HostPorts(self.capacity)
        twin.taken = {
            key: {address: counts.copy() for address, counts in by_address.items()}
            for key, by_address in self.taken.items()
        }
        return twin
