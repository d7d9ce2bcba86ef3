"""The capacity of nodes by resource, as columns that are made when they are first read.

Few resources are ever asked for, and a node may name thousands: those cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trimtab.core.model.node import Node
from trimtab.core.tables import ExactColumn


class NodeCapacity(Mapping[str, ExactColumn]):
    """One column per resource that was read, by row; zeros for a resource that no node has."""

    def __init__(self, nodes: Sequence[Node], size: int) -> None:
        self._nodes, self._size = nodes, size
        self._columns: dict[str, ExactColumn] = {}

    def __getitem__(self, resource: str) -> ExactColumn:
        column = self._columns.get(resource)
        if column is None:
            column = self._columns[resource] = ExactColumn(self._size)
            for row, node in enumerate(self._nodes):
                column.set(row, _capacity_of(node, resource))
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def set(self, row: int, node: Node | None) -> None:
        """The row is this node's now, or nobody's."""
        for resource, column in self._columns.items():
            column.set(row, 0 if node is None else _capacity_of(node, resource))

    def grow(self, size: int) -> None:
        self._size = size
        for column in self._columns.values():
            column.grow(size)

    def copy(self, nodes: Sequence[Node]) -> NodeCapacity:
        """The same over a copy of the nodes."""
        copied = NodeCapacity(nodes, self._size)
        copied._columns = {name: column.copy() for name, column in self._columns.items()}
        return copied


def _capacity_of(node: Node, resource: str) -> int:
    for name, amount in node.capacity or node.allocatable:
        if name == resource:
            return amount
    return 0
