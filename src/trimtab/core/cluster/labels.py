"""Which nodes meet a requirement on their labels: a column of value numbers per label key, made when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from trimtab.core.model.selectors import Requirement, parse_int64

Bools = NDArray[np.bool_]

ABSENT = 0
MAX_KEYS = 256  # the key that nobody asked for longest goes first
MAX_VALUES_PER_ROW = 4  # values a row, from which on a column is thrown away


class LabelColumn:
    """One key: each node's value as a number, 0 where the node lacks the key."""

    __slots__ = ("id_by_value", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: NDArray[np.intp] = np.zeros(capacity, dtype=np.intp)
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
        """Rows whose value meets the requirement: judged once a value, or not even that where values are named."""
        match requirement.operator:
            case "In" | "NotIn":
                table = np.zeros(len(self.values), dtype=np.bool_)
                table[[self.id_by_value[value] for value in requirement.values if value in self.id_by_value]] = True
                return (table if requirement.operator == "In" else ~table)[self.ids[:count]]
            case "Exists" | "DoesNotExist":
                there: Bools = self.ids[:count] != ABSENT
                return there if requirement.operator == "Exists" else ~there
        holds = _comparison(requirement)
        table = np.fromiter(map(holds, self.values), dtype=np.bool_, count=len(self.values))
        return table[self.ids[:count]]

    def grow(self, capacity: int) -> None:
        self.ids = np.concatenate([self.ids, np.zeros(capacity - len(self.ids), dtype=np.intp)])

    def copy(self) -> LabelColumn:
        twin = object.__new__(LabelColumn)
        twin.ids, twin.id_by_value, twin.values = self.ids.copy(), self.id_by_value.copy(), self.values.copy()
        return twin


class LabelColumns:
    """Label columns of all nodes, only for the keys that some selector has asked about."""

    __slots__ = ("columns",)

    def __init__(self) -> None:
        self.columns: dict[str, LabelColumn] = {}

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        for key, column in tuple(self.columns.items()):
            column.set(row, labels.get(key))
            if len(column.values) > MAX_VALUES_PER_ROW * len(column.ids):
                del self.columns[key]  # mostly values that no node has any more: made anew when next asked for

    def column(self, key: str, every: Iterable[Mapping[str, str]], capacity: int) -> LabelColumn:
        column = self.columns.pop(key, None)
        if column is None:
            column = LabelColumn(capacity)
            for row, labels in enumerate(every):
                column.set(row, labels.get(key))
            if len(self.columns) >= MAX_KEYS:
                del self.columns[next(iter(self.columns))]
        self.columns[key] = column  # the one asked for last stands last
        return column

    def grow(self, capacity: int) -> None:
        for column in self.columns.values():
            column.grow(capacity)

    def copy(self) -> LabelColumns:
        twin = LabelColumns()
        twin.columns = {key: column.copy() for key, column in self.columns.items()}
        return twin


def _comparison(requirement: Requirement) -> Callable[[str | None], bool]:
    """What `Gt` and `Lt` ask of one value; an operator that nobody knows matches nothing."""
    bound = parse_int64(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None or requirement.operator not in ("Gt", "Lt"):
        return lambda value: False
    above = requirement.operator == "Gt"

    def holds(value: str | None) -> bool:
        number = None if value is None else parse_int64(value)
        return number is not None and (number > bound if above else number < bound)

    return holds
