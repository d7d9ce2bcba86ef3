"""Tables and groups: what copies share, and what they do not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from trimtab.core import tables
from trimtab.core.model.resources import MAX_AMOUNT
from trimtab.core.tables import ArrayTable, Bools, ExactColumn, Floats, Groups, SharedMatrix, Singles, column


class Measured(ArrayTable):
    """Columns of several types and shapes, whose lengths are no multiple of a cache line."""

    known: Bools = column(False, np.bool_)
    amount: Floats = column(np.nan)
    lines: Floats = column(0.0, np.float32, (3,))


def test_a_copy_has_all_columns_and_shares_none() -> None:
    """Each with its own type, shape and values."""
    table = Measured(5)
    table.known[1], table.amount[2], table.lines[2, 4] = True, 7.0, 3.0
    copy = table.copy()
    for name in Measured.COLUMNS:
        ours, theirs = getattr(table, name), getattr(copy, name)
        np.testing.assert_array_equal(ours, theirs)
        assert (ours.dtype, ours.shape, False) == (theirs.dtype, theirs.shape, np.shares_memory(ours, theirs))
    copy.known[:], copy.amount[:], copy.lines[:] = True, 1.0, 2.0
    assert (1, 7.0, 3.0) == (table.known.sum(), np.nansum(table.amount), table.lines.sum())
    assert (5, 5.0, 30.0) == (copy.known.sum(), copy.amount.sum(), copy.lines.sum())


def test_a_shared_table_is_copied_by_whoever_writes_first() -> None:
    """The other one still has what both had."""
    table = Measured(5)
    table.amount[:] = 1.0
    other = table.share()
    assert np.shares_memory(table.amount, other.amount)
    table.clear(0)
    assert (4.0, 5.0) == (np.nansum(table.amount), np.nansum(other.amount))


def test_a_shared_table_cannot_be_written_by_mistake() -> None:
    """Neither side, before it has a copy of its own."""
    table = Measured(5)
    for each in (table, table.share()):
        with pytest.raises(ValueError, match="read-only"):
            each.amount[0] = 1.0
        each.ensure_writable()
        each.amount[0] = 1.0


def test_groups_are_shared_until_one_side_changes_them() -> None:
    """Both sides may change them, and either sees only what it did itself."""
    groups: Groups[int] = Groups()
    groups.put("a", "x", 1)
    groups.put("b", "y", 2)
    copy = groups.copy()
    assert copy["a"] is groups["a"]
    groups.put("a", "z", 3)
    copy.remove("b", "y")
    assert {"a": {"x": 1, "z": 3}, "b": {"y": 2}} == groups
    assert {"a": {"x": 1}} == copy
    assert {"a": {"x": 1}} == copy.copy()


def test_an_empty_group_is_dropped_and_may_come_back() -> None:
    """Also if nobody had put anything into it."""
    groups: Groups[int] = Groups()
    groups.put("a", "x", 1)
    groups.remove("a", "x")
    groups.remove("b", "x")
    assert {} == groups
    groups.put("a", "y", 2)
    assert {"a": {"y": 2}} == groups


def test_an_exact_column_saturates() -> None:
    """Its array is made of the exact amounts when it is first read."""
    exact = ExactColumn(3)
    exact.set(2, 10**30)
    exact.set(0, 5)
    assert [5, 0, MAX_AMOUNT] == exact.array.tolist()
    assert 10**30 == exact.exact[2]


def rows_of(matrix: SharedMatrix, lines: int) -> Singles:
    return np.array([matrix.line(number) for number in range(lines)])


@pytest.mark.parametrize("seed", range(20))
def test_a_shared_matrix_is_one_of_its_own(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random writes to a matrix and its copies have the effect that they have on plain arrays."""
    monkeypatch.setattr(tables, "PIECE", 4)
    chance, lines = random.Random(seed), 5
    pairs = [(SharedMatrix(lines, 3), np.full((lines, 3), np.nan, dtype=np.float32))]
    for step in range(60):
        matrix, plain = pairs[chance.randrange(len(pairs))]
        line, cell = chance.randrange(lines), chance.randrange(matrix.size)
        match chance.randrange(6):
            case 0:
                cells = np.array(chance.sample(range(matrix.size), chance.randint(1, matrix.size)))
                values = np.array([float(step + each) for each in cells])
                matrix.write(line, cells, values)
                plain[line, cells] = values
            case 1:
                values = np.where(np.arange(lines) % 2, np.float32(step), np.float32(np.nan))
                matrix.write_column(cell, values)
                plain[:, cell] = values
            case 2:
                matrix.clear_line(line)
                plain[line] = np.nan
            case 3:
                grown = matrix.size + chance.randint(0, 5)
                matrix.grow(grown)
                more = np.full((lines, grown - plain.shape[1]), np.nan, dtype=np.float32)
                pairs = [(a, np.hstack([plain, more]) if a is matrix else b) for a, b in pairs]
            case 4:
                pairs.append((matrix.copy(), plain.copy()))
            case 5:
                cells = np.array(chance.sample(range(matrix.size), matrix.size))
                pairs.append((matrix.reordered(cells), plain[:, cells]))
        for matrix, plain in pairs:
            np.testing.assert_array_equal(plain, rows_of(matrix, lines))
            np.testing.assert_array_equal(plain[:, cell % matrix.size], matrix.column(cell % matrix.size))


def test_a_write_to_a_shared_matrix_copies_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else is still the memory of both."""
    monkeypatch.setattr(tables, "PIECE", 4)
    matrix = SharedMatrix(2, 12)
    for number in range(2):
        matrix.write(number, np.arange(12), np.arange(12.0))
    copy = matrix.copy()
    matrix.write_column(5, np.array([50.0, 5.0], dtype=np.float32))
    shared = [
        [np.shares_memory(ours, theirs) for ours, theirs in zip(a, b, strict=True)]
        for a, b in zip(matrix._pieces, copy._pieces, strict=True)
    ]
    assert [[True, False, True], [True, True, True]] == shared
