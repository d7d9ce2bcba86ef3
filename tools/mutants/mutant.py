"""The kept mutants: one changed piece of code each, and the tests that must notice it.

They are data, in one TOML file per area next to this module:

    [[mutant]]
    name = "turn-without-lease"
    file = "src/trimtab/core/controllers.py"
    old = 'return not self.unsynced and self.term is not None'    # exactly once in the file
    new = 'return not self.unsynced'
    tests = ["tests/core/test_engine.py::test_a_turn_decides_only_when_all_is_synced_and_we_lead"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
LIVE = "tests/live/"


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old`, which is in the file exactly once, becomes `new`; one of the tests must then fail."""

    name: str
    area: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def selection(self, *, live: bool) -> tuple[str, ...]:
        """The tests to run: those on a real control plane if `live`, else the others."""
        return tuple(each for each in self.tests if each.startswith(LIVE) == live)

    def applied(self, text: str) -> str:
        """The changed file."""
        return text.replace(self.old, self.new)

    def problem(self, root: Path) -> str:
        """Why it cannot be tried, such as code that has changed since; empty if it can."""
        if self.old == self.new:
            return "new is the same as old"
        path = root / self.file
        found = path.read_text().count(self.old) if path.is_file() else 0
        if found != 1:
            return f"stale: old is {found} times in {self.file}, and must be there once"
        missing = next((each for each in self.tests if not _exists(root, each)), None)
        return f"there is no test {missing}" if missing else "" if self.tests else "it names no test"


def _exists(root: Path, test: str) -> bool:
    path, _, name = test.partition("::")
    return (root / path).is_file() and (not name or f"def {name}(" in (root / path).read_text())


def read_mutants(folder: Path = FOLDER) -> list[Mutant]:
    """All mutants, area by area."""
    return [each for path in sorted(folder.glob("*.toml")) for each in _read(path)]


def _read(path: Path) -> Iterator[Mutant]:
    for row in tomllib.loads(path.read_text())["mutant"]:
        yield Mutant(area=path.stem, **{**row, "tests": tuple(row["tests"])})
