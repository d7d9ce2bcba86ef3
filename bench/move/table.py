"""The table of `make bench-move`, for the terminal and for docs/bench-move.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from statistics import mean

from bench.move.turn import Result

HEADS = (
    "who moves pods",
    "hot node-minutes",
    "pods moved",
    "of these evicted",
    "moved more than once",
    "ready pod-seconds lost",
)
BEGIN, END = "<!-- the table of make bench-move -->", "<!-- its end -->"
BETWEEN = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)


def mean_of(results: Sequence[Result]) -> Result:
    """The mean of each measure."""
    return Result(*(mean(values) for values in zip(*map(astuple, results), strict=True)))


def rows(results: Mapping[str, Sequence[Result]]) -> list[tuple[str, ...]]:
    """One row for each title, with means over its rounds."""
    found = []
    for title, each in results.items():
        digits = 0 if len(each) == 1 else 1
        found.append((title, *(f"{value:,.{digits}f}" for value in astuple(mean_of(each)))))
    return found


def markdown(results: Mapping[str, Sequence[Result]]) -> str:
    """The table with numbers on the right."""
    lines = [HEADS, ("---", *("---:" for _ in HEADS[1:])), *rows(results)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_into(page: Path, content: str) -> None:
    """Replace what is between the two marks of the page."""
    text = page.read_text()
    if not BETWEEN.search(text):
        raise SystemExit(f"{page} has no place for the table: write the lines {BEGIN!r} and {END!r} into it")
    page.write_text(BETWEEN.sub(lambda _: f"{BEGIN}\n{content}\n{END}", text))
