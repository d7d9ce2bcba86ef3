"""Reads CSV tables of traces strictly: whatever cannot be used is reported with its file, line, column and field."""

from __future__ import annotations

import csv
import gzip
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from trimtab.config.config_node import Report
from trimtab.config.diagnostics import ConfigError, Problem, did_you_mean
from trimtab.sim.usage_patterns import without_gaps

UsageArray = NDArray[np.float32]

MAX_FIELD_BYTES = 1 << 26  # a series of weeks is one field
MAX_PROBLEMS = 50  # after these the rest of a file is not worth reading
LARGEST = 1e15
NO_SAMPLE = -1.0


class Row(Struct, frozen=True):
    """One line of a table, whose cells are read by the names of their columns."""

    line: int
    cells: list[str]
    columns: dict[str, int]
    report: Report

    def text(self, name: str) -> str:
        """The cell; empty if there is no such column."""
        return self.cells[self.columns[name]].strip() if name in self.columns else ""

    def name(self, column: str) -> str:
        found = self.text(column)
        if not found:
            self.error(column, "is empty: every line needs a name")
        return found

    def number(self, name: str, low: float = 0.0, default: float | None = None) -> float:
        """A number of this size or more; an empty cell is the default, if there is one."""
        text = self.text(name)
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            self.error(name, f"{text[:40]!r} is not a number")
            return low
        if not isfinite(value) or not low <= value <= LARGEST:
            self.error(name, f"{text[:40]} is not between {low:g} and {LARGEST:g}")
            return low
        return value

    def integer(self, name: str, low: int = 0, default: int | None = None) -> int:
        value = self.number(name, low, default)
        if value != int(value):
            self.error(name, f"{value:g} is not an integer")
        return int(value)

    def series(self, name: str) -> UsageArray | None:
        """Numbers with spaces in between; where there is no sample (-1), the one before counts, or else the first.

        None after a problem.
        """
        text = self.text(name)
        values = _numbers(text)
        if values is None or not len(values):
            self.error(name, self._first_error(text))
            return None
        missing = values == NO_SAMPLE
        if not np.all(np.isfinite(values) & ((values >= 0) | missing) & (values <= LARGEST)):
            self.error(name, self._first_error(text))
            return None
        if missing.all():
            self.error(name, "has no sample at all")
            return None
        if missing.any():
            values = without_gaps(np.where(missing, np.nan, values))
        return values.astype(np.float32)

    def _first_error(self, text: str) -> str:
        for number, word in enumerate(text.split(), start=1):
            try:
                value = float(word)
            except ValueError:
                return f"value {number}, {word[:40]!r}, is not a number"
            if not isfinite(value) or value > LARGEST or (value < 0 and value != NO_SAMPLE):
                return f"value {number}, {word[:40]}, is not usage: write 0 or more, or -1 for no sample"
        return "is empty: the trace may be cut short" if not text else "cannot be read"

    def error(self, name: str, message: str) -> None:
        before = self.cells[: self.columns.get(name, 0)]
        column = sum(map(len, before)) + len(before) + 1
        self.report.problems.append(Problem(self.report.file, self.line, column, name, message))


def _numbers(text: str) -> NDArray[np.float64] | None:
    """Many numbers at once; None if one of them is none, which numpy only warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, dtype=np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            return None


def read_rows(path: Path, required: Collection[str], optional: Collection[str] = ()) -> Iterator[Row]:
    """The lines of a table with these columns, in any order; raises ConfigError, at the latest after the last line.

    Other columns are ignored. The rows share one report, which is finished when all have been taken.
    """
    report = Report(str(path))
    lines = read_lines(path, complete=True)
    header = [each.strip() for each in next(lines, ["", []])[1]]
    if not any(header):
        fail(report.file, "is empty: the trace may be cut short")
    columns = {name: header.index(name) for name in (*required, *optional) if name in header}
    for name in required:
        if name not in columns:
            near = did_you_mean(name, header)
            report.problems.append(Problem(report.file, 1, 1, name, f"there is no such column{near}: add it"))
    report.finish()
    for line, cells in lines:
        if len(cells) != len(header):
            message = f"has {len(cells)} fields, and the header {len(header)}: the trace may be cut short"
            report.problems.append(Problem(report.file, line, 1, "", message))
        else:
            yield Row(line, cells, columns, report)
        if len(report.problems) >= MAX_PROBLEMS:
            break
    report.finish()


def read_lines(path: Path, complete: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV file, plain or compressed, with their numbers, without empty ones; raises ConfigError.

    complete: the last line must end as the others do; if not, it may have lost some digits.
    """
    before = csv.field_size_limit(MAX_FIELD_BYTES)
    try:
        with _open_text(path) as file:
            lines = _Lines(file)
            reader = csv.reader(lines, strict=True)
            yield from ((reader.line_num, cells) for cells in reader if cells)
            if complete and not lines.last.endswith(("\n", "\r")):
                fail(
                    str(path),
                    "ends without a newline: the trace may be cut short. If it is whole, add one",
                    reader.line_num,
                )
    except (EOFError, zlib.error):
        fail(str(path), "ends in the middle of the compressed data: copy it again")
    except gzip.BadGzipFile:
        fail(str(path), "is not a gzip file: remove .gz from its name if it is plain text")
    except OSError as error:
        fail(str(path), f"cannot be read ({error.strerror or type(error).__name__})")
    except (csv.Error, ValueError) as error:
        fail(str(path), f"is not a CSV file: {error}")
    finally:
        csv.field_size_limit(before)


class _Lines:
    """The lines of a file, and the one that was read last."""

    def __init__(self, file: TextIO) -> None:
        self._file, self.last = file, "\n"

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.last = line
            yield line


def _open_text(path: Path) -> TextIO:
    """Whatever the locale is; the mark that spreadsheets put before the first line is skipped."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", newline="", encoding="utf-8-sig")
    return path.open(newline="", encoding="utf-8-sig")


def find_file(folder: Path, names: Sequence[str]) -> Path:
    """The first of these files that the folder has, plain or compressed; raises ConfigError if there is none."""
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    if folder.is_dir():
        fail(str(folder), f"there is no file {' or '.join(names)} in this folder, plain or with .gz")
    return fail(str(folder), "there is no such folder: a path in a scenario is relative to its file")


def fail(file: str, message: str, line: int = 0) -> NoReturn:
    """Raises ConfigError with one problem of a whole file, or of a line."""
    raise ConfigError([Problem(file, line, 1 if line else 0, "", message)])
