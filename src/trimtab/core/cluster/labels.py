"""Node labels as columns of interned values, one per label key, made when a selector first uses the key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from trimtab.core.model.selectors import Requirement, parse_int64
from trimtab.core.tables import Bools, Index, Ints

ABSENT = 0
NO_LABELS: Mapping[str, str] = {}
MAX_KEYS = 256  # the least recently used key is dropped first
MAX_VALUES_PER_ROW = 4  # above that, a column is mostly values that no node has any more


class LabelColumn:
    """One key: each node's value as an id, 0 where the node lacks the label."""

    __slots__ = ("_is_number", "_numbers", "id_by_value", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Index = np.zeros(capacity, dtype=np.intp)
        self.id_by_value: dict[str, int] = {}
        self.values: list[str | None] = [None]
        self._numbers: Ints = np.zeros(0, dtype=np.int64)  # the values as integers, as far as `Gt` and `Lt` needed them
        self._is_number: Bools = np.zeros(0, dtype=np.bool_)

    def set(self, row: int, value: str | None) -> None:
        if value is None:
            self.ids[row] = ABSENT
            return
        number = self.id_by_value.get(value)
        if number is None:
            number = self.id_by_value[value] = len(self.values)
            self.values.append(value)
        self.ids[row] = number

    def matching(self, requirement: Requirement, ids: Index) -> Bools:
        """Which of these ids of rows are of a value that matches; evaluated once per value, not per row."""
        match requirement.operator:
            case "In" | "NotIn":
                return self._among(requirement.values, ids, wanted=requirement.operator == "In")
            case "Exists" | "DoesNotExist":
                present: Bools = ids != ABSENT
                return present if requirement.operator == "Exists" else ~present
        return self._compared(requirement)[ids]

    def _among(self, values: Iterable[str], ids: Index, *, wanted: bool) -> Bools:
        known = [self.id_by_value[value] for value in values if value in self.id_by_value]
        if len(known) <= 1:
            found: Bools = ids == known[0] if known else np.zeros(len(ids), dtype=np.bool_)
            return found if wanted else ~found
        table = np.full(len(self.values), not wanted)
        table[known] = wanted
        return table[ids]

    def _compared(self, requirement: Requirement) -> Bools:
        """By value, whether `Gt` or `Lt` holds; an unknown operator never does."""
        if len(self._numbers) < len(self.values):
            numbers = [None if value is None else parse_int64(value) for value in self.values]
            self._numbers = np.array([each or 0 for each in numbers], dtype=np.int64)
            self._is_number = np.array([each is not None for each in numbers])
        bound = _bound(requirement)
        if bound is None:
            return np.zeros(len(self.values), dtype=np.bool_)
        return self._is_number & (self._numbers > bound if requirement.operator == "Gt" else self._numbers < bound)

    def grow(self, capacity: int) -> None:
        self.ids = np.concatenate([self.ids, np.zeros(capacity - len(self.ids), dtype=np.intp)])

    def copy(self) -> LabelColumn:
        copy = object.__new__(LabelColumn)
        copy.ids, copy.id_by_value, copy.values = self.ids.copy(), self.id_by_value.copy(), self.values.copy()
        copy._numbers, copy._is_number = self._numbers, self._is_number  # replaced, never changed
        return copy


class LabelColumns:
    """The label columns of all nodes, only for keys that some selector uses, and how many nodes have each key."""

    __slots__ = ("columns", "nodes_with_key")

    def __init__(self) -> None:
        self.columns: dict[str, LabelColumn] = {}
        self.nodes_with_key: Counter[str] = Counter()  # a key that no node has needs no column

    def set(self, row: int, labels: Mapping[str, str], before: Mapping[str, str] = NO_LABELS) -> None:
        """`before` are the labels that the row had."""
        for key, column in tuple(self.columns.items()):
            column.set(row, labels.get(key))
            if len(column.values) > MAX_VALUES_PER_ROW * len(column.ids):
                del self.columns[key]
        if labels != before:
            self.nodes_with_key.update(labels.keys() - before.keys() if before else labels.keys())
            self.remove(before.keys() - labels.keys())

    def remove(self, keys: Iterable[str]) -> None:
        """A row with these keys is removed, or has lost them."""
        for key in keys:
            left = self.nodes_with_key[key] - 1
            if left:
                self.nodes_with_key[key] = left
            else:
                self.nodes_with_key.pop(key)  # `del` is slow for a Counter

    def column(self, key: str, node_labels: Iterable[Mapping[str, str]], capacity: int) -> LabelColumn:
        column = self.columns.pop(key, None)
        if column is None:
            column = LabelColumn(capacity)
            for row, labels in enumerate(node_labels if key in self.nodes_with_key else ()):
                if key in labels:
                    column.set(row, labels[key])
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
        copy.nodes_with_key = self.nodes_with_key.copy()
        return copy


def value_matches(requirement: Requirement, value: str | None) -> bool:
    """What `LabelColumn.matching` says, for the value of one node; None if it lacks the label."""
    match requirement.operator:
        case "In" | "NotIn":
            return (value in requirement.values) is (requirement.operator == "In")
        case "Exists" | "DoesNotExist":
            return (value is not None) is (requirement.operator == "Exists")
    number, bound = None if value is None else parse_int64(value), _bound(requirement)
    if number is None or bound is None:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _bound(requirement: Requirement) -> int | None:
    """What `Gt` or `Lt` compares with; None if it is not a number, or for any other operator."""
    values = requirement.values
    return parse_int64(values[0]) if requirement.operator in ("Gt", "Lt") and len(values) == 1 else None
