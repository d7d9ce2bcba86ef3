"""Applies each kept mutant to a copy of the tree, and says which ones no test notices.

    make mutants
    make mutants ARGS="--area fences"
    make mutants ARGS=--live
    make mutants ARGS="--only budget-off-by-one"

Only the tests that a mutant names are run. In the end, those that failed are run on the unchanged copy: a mutant is BROKEN if
its test fails there, too. Tests on a real control plane are run with --live, and then they alone; mutants that name no other
test are skipped without it. The checkout itself is never changed. Each mutant gets a line as soon as it has been tried, and
each area a row at the end.
Exit code 1: a mutant survived, or is BROKEN, so that it cannot be tried. Exit code 2: no mutant is selected.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.mutants.mutant import Mutant, read_mutants
from tools.mutants.workspace import Workspace

KILLED, SURVIVED, SKIPPED, BROKEN = OUTCOMES = ("killed", "SURVIVED", "skipped", "BROKEN")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant, why, and the tests that failed if it was killed."""

    mutant: Mutant
    outcome: str
    reason: str
    killers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.mutant.area}/{self.mutant.name}: {self.reason}"


def try_mutant(workspace: Workspace, mutant: Mutant, *, live: bool) -> Result:
    """Run its tests on the changed copy, until one fails."""
    if problem := mutant.problem(workspace.folder):
        return Result(mutant, BROKEN, problem)
    tests = mutant.selection(live=live)
    if not tests:
        return Result(mutant, SKIPPED, "its tests need a real control plane: --live")
    original = (workspace.folder / mutant.file).read_text()
    workspace.write(mutant.file, mutant.applied(original))
    try:
        run = workspace.run_tests(tests, "-x")
    finally:
        workspace.write(mutant.file, original)
    if not run.is_complete:
        return Result(mutant, BROKEN, f"no test ran, pytest exited with {run.code}:\n{run.output}")
    if not run.failures:
        return Result(mutant, SURVIVED, f"{mutant.file}, with {' '.join(tests)}")
    told = "; ".join(f"{test} ({reason})" for test, reason in run.failures)
    return Result(mutant, KILLED, told, tuple(test for test, _ in run.failures))


def failing_tests(workspace: Workspace, tests: Collection[str]) -> dict[str, str]:
    """Those that fail without any mutant, with the reason. Each gets a second chance: a busy machine may fail one, too."""
    for _ in range(2):
        if not tests:
            break
        run = workspace.run_tests(sorted(tests))
        if not run.is_complete:
            return dict.fromkeys(tests, f"no test ran, pytest exited with {run.code}:\n{run.output}")
        failing = dict(run.failures)
        tests = failing.keys()
    return {test: failing[test] for test in tests}


def confirmed(result: Result, failing: Mapping[str, str]) -> Result:
    """A test kills only if it passes without the mutant."""
    test = next((each for each in result.killers if each in failing), None)
    return (
        result
        if test is None
        else replace(result, outcome=BROKEN, reason=f"without it {test} fails, too: {failing[test]}")
    )


def try_all(workspace: Workspace, mutants: Sequence[Mutant], *, live: bool) -> bool:
    """Print one line each, then what is to be done and a table; whether all is as it must be."""
    tried: list[Result] = []
    for number, mutant in enumerate(mutants, 1):
        started = time.monotonic()
        tried.append(result := try_mutant(workspace, mutant, live=live))
        seconds = time.monotonic() - started
        print(f"{number:3}/{len(mutants)} {result.outcome:8} {seconds:5.1f} s  {result}", flush=True)
    failing = failing_tests(workspace, {test for each in tried for test in each.killers})
    results = [confirmed(each, failing) for each in tried]
    to_do = [f"{each.outcome} {each}" for each in results if each.outcome in (SURVIVED, BROKEN)]
    print("\n".join(["", *to_do, *table(results)]))
    return not to_do


def table(results: Sequence[Result]) -> list[str]:
    """A row of each area, and of all."""
    counts = Counter((area, each.outcome) for each in results for area in (each.mutant.area, "all"))
    areas = [*dict.fromkeys(each.mutant.area for each in results), "all"]
    rows = [f"{area:12}" + "".join(f"{counts[area, outcome]:10}" for outcome in OUTCOMES) for area in areas]
    return [f"{'area':12}" + "".join(f"{each:>10}" for each in OUTCOMES), *rows]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Try the kept mutants.")
    parser.add_argument("--only", default="", metavar="NAME", help="this mutant alone")
    parser.add_argument("--area", default="", help="the mutants of one area, such as fences")
    parser.add_argument("--live", action="store_true", help="run only tests on a real control plane")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = parse(arguments)
    mutants = [
        each
        for each in read_mutants()
        if options.only in ("", each.name)
        and options.area in ("", each.area)
        and (not options.live or each.selection(live=True))
    ]
    if not mutants:
        print(
            "no mutant has this name and area (and a live test, with --live): see tools/mutants/*.toml", file=sys.stderr
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="trimtab-mutants-") as folder:
        workspace = Workspace.copied(Path(folder))
        return 0 if try_all(workspace, mutants, live=options.live) else 1


if __name__ == "__main__":
    sys.exit(main())
