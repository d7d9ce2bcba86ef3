"""Node labels as columns of interned values, one per label key, made when a selector first uses the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from trimtab.core.model.selectors import Requirement, parse_int64
from trimtab.core.tables import Bools, Index

ABSENT = 0
MAX_KEYS = 256  # the least recently used key is dropped first
MAX_VALUES_PER_ROW = 4  # above that, a column is mostly values that no node has any more


class LabelColumn:
    """One key: each node's value as an id, 0 where the node lacks the label."""

    __slots__ = ("id_by_value", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Index = np.zeros(capacity, dtype=np.intp)
        self.id_by_value: dict[str, int] = {}
        self.values: list[str | None] = [None]

    def set(self, row: int, value: str | None) -> None:
        if value is None:
            self.ids[row] = ABSENT
            return
        number = self.id_by_value.get(value)
        if number is None:
            number = self.id_by_value[value] = len(self.values)
            self.values.append(value)
        self.ids[row] = number

    def matching(self, requirement: Requirement, count: int) -> Bools:
        """Rows whose value matches; evaluated once per value, not per row."""
        match requirement.operator:
            case "In" | "NotIn":
                table = np.zeros(len(self.values), dtype=np.bool_)
                table[[self.id_by_value[value] for value in requirement.values if value in self.id_by_value]] = True
                return (table if requirement.operator == "In" else ~table)[self.ids[:count]]
            case "Exists" | "DoesNotExist":
                present: Bools = self.ids[:count] != ABSENT
                return present if requirement.operator == "Exists" else ~present
        matches = _comparison(requirement)
        table = np.fromiter(map(matches, self.values), dtype=np.bool_, count=len(self.values))
        return table[self.ids[:count]]

    def grow(self, capacity: int) -> None:
        self.ids = np.concatenate([self.ids, np.zeros(capacity - len(self.ids), dtype=np.intp)])

    def copy(self) -> LabelColumn:
        copy = object.__new__(LabelColumn)
        copy.ids, copy.id_by_value, copy.values = self.ids.copy(), self.id_by_value.copy(), self.values.copy()
        return copy


class LabelColumns:
    """The label columns of all nodes, only for keys that some selector uses."""

    __slots__ = ("columns",)

    def __init__(self) -> None:
        self.columns: dict[str, LabelColumn] = {}

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        for key, column in tuple(self.columns.items()):
            column.set(row, labels.get(key))
            if len(column.values) > MAX_VALUES_PER_ROW * len(column.ids):
                del self.columns[key]

    def column(self, key: str, node_labels: Iterable[Mapping[str, str]], capacity: int) -> LabelColumn:
        column = self.columns.pop(key, None)
        if column is None:
            column = LabelColumn(capacity)
            for row, labels in enumerate(node_labels):
                column.set(row, labels.get(key))
            if len(self.columns) >= MAX_KEYS:
                del self.columns[next(iter(self.columns))]
        self.columns[key] = column  # most recently used last
        return column

    def grow(self, capacity: int) -> None:
        for column in self.columns.values():
            column.grow(capacity)

    def copy(self) -> LabelColumns:
        copy = LabelColumns()
        copy.columns = {key: column.copy() for key, column in self.columns.items()}
        return copy


def _comparison(requirement: Requirement) -> Callable[[str | None], bool]:
    """The `Gt` or `Lt` comparison of one value; an unknown operator matches nothing."""
    bound = parse_int64(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None or requirement.operator not in ("Gt", "Lt"):
        return lambda value: False
    above = requirement.operator == "Gt"

    def matches(value: str | None) -> bool:
        number = None if value is None else parse_int64(value)
        return number is not None and (number > bound if above else number < bound)

    return matches
