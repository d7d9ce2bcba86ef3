"""tools/retry_failed.py: what a second failure, a second success and many failures mean for the run."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TESTS = """
import pathlib, pytest

FAILURES, OTHERS, SKIPPED = {failures}, {others}, {skipped}

def test_that_passes():
    pass

@pytest.mark.parametrize("name", ["a b"])
def test_that_fails(name):
    with pathlib.Path("attempts").open("a") as attempts:
        attempts.write("x")
    attempts = len(pathlib.Path("attempts").read_text())
    if attempts == SKIPPED:
        pytest.skip("no control plane")
    assert attempts > FAILURES

@pytest.mark.parametrize("number", range(OTHERS))
def test_of_many(number):
    assert False
"""


def run(folder: Path, *flags: str, failures: int, others: int = 0, skipped: int = 0) -> tuple[int, str]:
    """Exit code and output where one test fails so many times, or skips itself at one attempt, and others always fail."""
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text(TESTS.format(failures=failures, others=others, skipped=skipped))
    command = [
        sys.executable,
        "-m",
        "tools.retry_failed",
        "-q",
        "-p",
        "no:xdist",
        f"--rootdir={folder}",
        *flags,
        "tests",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_nothing_is_repeated_where_all_pass(tmp_path: Path) -> None:
    """The exit code and the report are those of one run."""
    code, said = run(tmp_path, failures=0)
    assert 0 == code
    assert "2 passed" in said
    assert "again" not in said


def test_a_test_that_passes_alone_is_reported_as_flaky(tmp_path: Path) -> None:
    """The run passes; its first failure is in the output, and its name is at the end."""
    code, said = run(tmp_path, failures=1)
    assert 0 == code
    assert "1 failed, 1 passed" in said
    assert "FLAKY tests/test_it.py::test_that_fails[a b]" in said
    assert "xx" == (tmp_path / "attempts").read_text()


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    """It is not tried a third time."""
    code, said = run(tmp_path, failures=9)
    assert 1 == code
    assert "FLAKY" not in said
    assert "xx" == (tmp_path / "attempts").read_text()


def test_many_failures_are_no_coincidence(tmp_path: Path) -> None:
    """Six of seven fail: none is run again."""
    code, said = run(tmp_path, failures=1, others=5)
    assert 1 == code
    assert "6 tests failed: too many to run them again" in said
    assert "x" == (tmp_path / "attempts").read_text()


def test_a_test_that_is_skipped_the_second_time_has_not_passed(tmp_path: Path) -> None:
    """As live tests are where the control plane is gone."""
    code, said = run(tmp_path, failures=1, skipped=2)
    assert 1 == code
    assert "FLAKY" not in said


def test_a_run_that_stops_at_its_first_failure_stays_failed(tmp_path: Path) -> None:
    """Nobody knows of the tests that were not run."""
    code, said = run(tmp_path, "-x", failures=1, others=1)
    assert 1 == code
    assert "again" not in said
