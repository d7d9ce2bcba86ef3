"""Problems with a configuration file and notes on it, each with its position."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

MAX_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message about one position of a file; line 0 means the file as a whole."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        """The form that editors and terminals make clickable."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return printable(": ".join(part for part in (place, self.path, self.message) if part))


class Problem(Diagnostic):
    """The file cannot be used until this is fixed."""


class Note(Diagnostic):
    """The file can be used, but part of it may not do what its author expects."""


class Info(Note):
    """A note that needs no change of the file."""


class ConfigError(Exception):
    """All problems of one file, in the order of its lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
        super().__init__(self.problems)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        if (more := len(self.problems) - MAX_SHOWN) > 0:
            lines.append(f"and {more} more problems")
        return "\n".join(lines)


def printable(text: str) -> str:
    """One line without control characters, which a file can contain as escapes."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def did_you_mean(word: str, choices: Collection[str]) -> str:
    """The nearest valid name as the end of a sentence; empty if none is near."""
    spelt = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(word[:100].lower(), spelt, n=1)
    return f" (did you mean {spelt[near[0]]}?)" if near else ""
