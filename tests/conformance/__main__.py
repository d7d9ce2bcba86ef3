"""Print the result of comparing plugins with recorded results of kube-scheduler.

python -m tests.conformance FOLDER     a line a plugin; exits 1 on any disagreement, 2 if there is nothing to compare
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance.check_cases import Disagreement, Result, check
from tests.conformance.corpus import SUFFIX, cases

SHOWN_CASES = 5
SHOWN_DIFFERENCES = 3
MAX_LINE = 400


def lines(result: Result) -> Iterator[str]:
    """The plugin's line, and its first disagreements below it."""
    yield str(result)
    yield from _first(result.disagreements)


def summary(results: Sequence[Result]) -> str:
    waiting = sum(result.cases for result in results if result.missing)
    disagreed = sum(len(result.disagreements) for result in results)
    agreed = sum(result.cases for result in results) - waiting - disagreed
    return f"{agreed} cases agree, {disagreed} disagree, {waiting} wait for plugins that are not built"


def _first(disagreements: Sequence[Disagreement]) -> Iterator[str]:
    for case in disagreements[:SHOWN_CASES]:
        yield f"  {case.case}"
        yield from (f"    {each}"[:MAX_LINE] for each in case.differences[:SHOWN_DIFFERENCES])
        if more := len(case.differences[SHOWN_DIFFERENCES:]):
            yield f"    and {more} more differences"
    if more := len(disagreements[SHOWN_CASES:]):
        yield f"  and {more} more cases"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tests.conformance FOLDER", file=sys.stderr)
        return 2
    corpus = cases(Path(arguments[0]))
    if not corpus:
        print(f"{arguments[0]}: no *{SUFFIX} there to compare with", file=sys.stderr)
        return 2
    results: list[Result] = []
    for plugin, recorded in corpus.items():
        results.append(check(plugin, recorded))
        print(*lines(results[-1]), sep="\n", flush=True)
    print(summary(results))
    return 1 if any(result.disagreements for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
