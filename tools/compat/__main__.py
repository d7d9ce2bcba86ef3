"""Runs the live tests against the control planes of other Kubernetes releases, and prints a table.

    make compat VERSIONS="1.31.12 1.33.13 1.37.1"
    make compat VERSIONS=1.37.1 ARGS="tests/live/test_twelve_pods.py -k bound"

Without ARGS all of tests/live runs, except what compares with the flags and metrics of the pinned release's kube-scheduler
(LEFT_OUT). Live tests elsewhere are left out, too: tests/differential and tests/config/test_against_kube_scheduler.py compare
with the pinned release's code, and tests/tools is about the rig.
Exit code 1: a test failed. Exit code 3: a release cannot be built here.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from tools.compat.release import build_release
from tools.controlplane import build
from tools.controlplane.rig import FOLDER_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/live",)
PYTEST = ("-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "live")
# Another release's kube-scheduler has other flags and metrics; Trimtab follows the pinned one.
LEFT_OUT = (
    "tests/live/test_kube_scheduler_flags.py::test_the_list_is_complete",
    "tests/live/test_metrics.py::test_we_have_every_stable_metric_of_kube_scheduler",
    "tests/live/test_metrics.py::test_label_values_are_those_of_kube_scheduler",
    "tests/live/test_metrics.py::test_equal_pods_give_equal_values",
    "tests/live/test_metrics.py::test_missing_metrics_are_documented",
)
VERSION = re.compile(r"1\.\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Run:
    """What the live tests said of one release: reasons by test, and how many passed."""

    version: str
    passed: int
    failed: Mapping[str, str]
    skipped: Mapping[str, str]
    seconds: float


def run_tests(version: str, folder: Path, selection: Sequence[str]) -> Run:
    """Run the live tests on this control plane."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trimtab-compat-") as workspace:
        report = Path(workspace) / "report.xml"
        command = [sys.executable, *PYTEST, *left_out(version), f"--junitxml={report}", *(selection or TESTS)]
        code = subprocess.run(
            command, cwd=ROOT, env={**os.environ, FOLDER_VARIABLE: str(folder)}, check=False
        ).returncode
        if code not in (0, 1):
            raise SystemExit(f"pytest ended with {code} for Kubernetes {version}: see its output above")
        return read_report(version, report.read_text(), time.monotonic() - started)


def left_out(version: str) -> list[str]:
    """Arguments for pytest: on the pinned release nothing is left out."""
    return [] if version == build.pinned_version() else [f"--deselect={test}" for test in LEFT_OUT]


def read_report(version: str, text: str, seconds: float) -> Run:
    """Count a JUnit report."""
    outcomes: dict[str, dict[str, str]] = {"passed": {}, "failed": {}, "skipped": {}}
    for case in ElementTree.fromstring(text).iter("testcase"):  # noqa: S314 (written by our own test run)
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        reason = next((each for each in case if each.tag in ("failure", "error", "skipped")), None)
        kind = "passed" if reason is None else "skipped" if reason.tag == "skipped" else "failed"
        outcomes[kind][name] = "" if reason is None else (reason.get("message") or "").partition("\n")[0]
    return Run(version, len(outcomes["passed"]), outcomes["failed"], outcomes["skipped"], seconds)


def show(console: Console, runs: Sequence[Run]) -> None:
    """A row per release, then what failed and what was skipped."""
    table = Table("Kubernetes", "passed", "failed", "skipped", "minutes")
    for run in runs:
        counts = (run.passed, len(run.failed), len(run.skipped))
        table.add_row(run.version, *map(str, counts), f"{run.seconds / 60:.1f}")
    console.print(table)
    for run in runs:
        for kind, tests in (("failed", run.failed), ("skipped", run.skipped)):
            for name, reason in tests.items():
                console.print(f"{run.version}: {kind}: {name}: {reason}", markup=False)


def parse_version(text: str) -> str:
    """A release such as 1.33.13."""
    if not VERSION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a release: write all three numbers, as in 1.33.13")
    return text


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; at least one release must be named."""
    parser = argparse.ArgumentParser(prog="make compat", description="Run the live tests on other Kubernetes releases.")
    parser.add_argument("versions", nargs="*", type=parse_version, help="releases, as in VERSIONS='1.33.13 1.37.1'")
    parser.add_argument("--tests", nargs=argparse.REMAINDER, default=[], help="arguments for pytest")
    options = parser.parse_args(arguments)
    if not options.versions:
        parser.error("name the releases to test, as in VERSIONS='1.33.13 1.37.1'")
    return options


def run_release(version: str, selection: Sequence[str], console: Console) -> Run | None:
    """Build and test one release; None if it cannot be built here."""
    try:
        folder = build_release(version)
    except build.Unavailable as reason:
        print(f"Kubernetes {version} cannot be built here: {reason}", file=sys.stderr)
        return None
    console.print(f"Kubernetes {version}: {folder}", soft_wrap=True, highlight=False)
    return run_tests(version, folder, selection)


def main(arguments: Sequence[str]) -> int:
    """Build and test one release after the other, then print the table."""
    options, console = parse(arguments), Console()
    found = [run_release(version, options.tests, console) for version in options.versions]
    runs = [run for run in found if run]
    show(console, runs)
    if any(run.failed or not run.passed for run in runs):  # where everything is skipped, nothing is proved
        return 1
    return 0 if len(runs) == len(found) else build.EXIT_UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
