"""Runs pytest, and runs the tests that failed once more, alone on the machine.

    python -m tools.retry_failed -n 4 -m live      every argument is pytest's

Tests that wait for servers share two cores with dozens of them, so one in a thousand fails for want of time. A test that
fails twice fails the run, and so does one that is skipped the second time. One that passes alone is reported as flaky, below
the complete report of its failure. Nothing is run again where more than `MOST` tests failed: that is no coincidence. What
hypothesis found fails again: it repeats its examples, in CI by derandomizing and elsewhere from its database.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

MOST = 5
TESTS_FAILED = 1  # pytest's exit code; the others say that it could not run
STOPS_EARLY = ("-x", "--exitfirst", "--maxfail")  # options after which some tests were not run at all


class Report(NamedTuple):
    """The node IDs of the tests that passed, and of those that failed or whose fixtures did."""

    passed: list[str]
    failed: list[str]


def read_report(path: Path) -> Report:
    """A JUnit report of pytest."""
    cases = ElementTree.parse(path).iter("testcase")  # noqa: S314 (pytest has just written it)
    found: dict[str, set[str]] = {}
    for each in cases:
        outcomes = {child.tag for child in each} & {"failure", "error", "skipped"}
        found.setdefault(node_id(each.get("classname", ""), each.get("name", "")), set()).update(outcomes)
    return Report(
        [name for name, outcomes in found.items() if not outcomes],
        [name for name, outcomes in found.items() if outcomes & {"failure", "error"}],
    )


def node_id(classname: str, name: str) -> str:
    """`tests/live/test_moves.py::test_a_move` of the class name `tests.live.test_moves` and the name of the test."""
    return f"{classname.replace('.', '/')}.py::{name}"


def run(folder: str, *arguments: str) -> tuple[int, Report]:
    """pytest's exit code, and its report."""
    report = Path(folder) / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *arguments, f"--junit-xml={report}"]
    code = subprocess.run(command, check=False).returncode
    return code, read_report(report) if report.exists() else Report([], [])


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        code, first = run(folder, *arguments)
        if code != TESTS_FAILED or any(each.startswith(STOPS_EARLY) for each in arguments):
            return code
        if len(first.failed) > MOST:
            print(f"{len(first.failed)} tests failed: too many to run them again", flush=True)
            return code
        print("running again, alone:", *first.failed, sep="\n  ", flush=True)
        code, second = run(folder, "-q", "-p", "no:xdist", *first.failed)
    for each in second.passed:
        print(f"FLAKY {each}: failed once, and passed when it was run alone")
    return code if set(second.passed) == set(first.failed) else code or TESTS_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
