"""docs/reliability.md has every row of the fault matrix and of the security checks, each with a test or a reason."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "reliability.md").read_text()
ROWS = {"A": 20, "B": 13, "C": 10, "D": 15, "E": 13, "F": 6, "S-": 31}
ROW = re.compile(r"^\| ([A-F]\d+|S-\d+) \| (.+?) \| (.*?) \| (.+?) \|$", re.MULTILINE)


def test_every_row_is_there_once() -> None:
    """In its order; that the named tests exist, `make check` says."""
    expected = [f"{kind}{number}" for kind, count in ROWS.items() for number in range(1, count + 1)]
    assert expected == [row[0] for row in ROW.findall(PAGE)]


def test_every_row_has_a_test_or_says_why_not() -> None:
    """A row without a test of its own names one among what holds, a command, or the reason."""
    bare = [row[0] for row in ROW.findall(PAGE) if "::" not in row[2] + row[3] and "make " not in row[3]]
    words = {number: holds for number, _, _, holds in ROW.findall(PAGE)}
    assert [] == [each for each in bare if not words[each].startswith(("not ", "there is none"))]
