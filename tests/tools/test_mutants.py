"""The kept mutants fit the code as it is, and the command tells which of them survive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from tools.mutants.__main__ import BROKEN, KILLED, SKIPPED, SURVIVED, failing_tests, main, try_all, try_mutant
from tools.mutants.mutant import ROOT, Mutant, read_mutants
from tools.mutants.run_pytest import PRELOADED
from tools.mutants.workspace import FORK_SERVER, TestRun, Workspace

MUTANTS = read_mutants()
AREAS = {"wiring", "fences", "hints", "accounting", "trust", "labels", "ledger", "guards", "queue", "preemption"}
OLD = "return amount + 1"
ADDED = Mutant("one-less", "wiring", "src/trimtab/core/engine.py", OLD, "return amount", ("tests/test_add.py",))
LIVE_ONLY = replace(ADDED, tests=("tests/live/test_add.py",))
TESTS = """
from trimtab.core.engine import add


def test_one():
    assert add(1) == 2
"""
FAILING = """
import pytest


@pytest.mark.parametrize("word", ["a word", "another"])
def test_two(word):
    assert word == "another"
"""


@pytest.fixture(autouse=True, scope="module")
def own_fork_server() -> Iterator[None]:
    """There is one in a process: that of an earlier test would have imported other modules."""
    forkserver._forkserver._stop()
    FORK_SERVER.set_forkserver_preload(PRELOADED)
    yield
    forkserver._forkserver._stop()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_can_still_be_tried(mutant: Mutant) -> None:
    """Its old text is in its file exactly once, the new one differs, and the tests that it names exist."""
    assert not mutant.problem(ROOT)


def test_there_are_many_of_every_area() -> None:
    """And no two have one name."""
    assert len(MUTANTS) >= 60
    assert {each.area for each in MUTANTS} == AREAS
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"new": OLD}, "new is the same as old"),
        ({"old": "return"}, "stale: old is 2 times in src/trimtab/core/engine.py, and must be there once"),
        ({"file": "src/gone.py"}, "stale: old is 0 times in src/gone.py, and must be there once"),
        ({"tests": ("tests/test_gone.py",)}, "there is no test tests/test_gone.py"),
        ({"tests": ("tests/test_add.py::test_gone",)}, "there is no test tests/test_add.py::test_gone"),
        ({"tests": ()}, "it names no test"),
    ],
)
def test_what_makes_a_mutant_stale(workspace: Workspace, changes: dict[str, Any], problem: str) -> None:
    """Each reason names what is to be corrected."""
    assert problem == replace(ADDED, **changes).problem(workspace.folder)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A tiny tree instead of a copy of this one."""
    for file, text in (
        ("src/trimtab/__init__.py", ""),
        ("src/trimtab/core/__init__.py", ""),
        ("src/trimtab/core/engine.py", f"def add(amount):\n    {OLD}\n\n\ndef other():\n    return 5\n"),
        ("tests/live/test_add.py", TESTS),
        ("tests/test_add.py", TESTS),
        ("tests/test_fails.py", FAILING),
        ("tests/test_hangs.py", TESTS + "    import time\n\n    time.sleep(60)\n"),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return Workspace(tmp_path)


def test_the_tests_run_on_the_changed_copy(workspace: Workspace) -> None:
    """Not on the code that is installed; afterwards the file is as it was."""
    before = (workspace.folder / ADDED.file).read_text()
    result = try_mutant(workspace, ADDED, live=False)
    assert (KILLED, "tests/test_add.py::test_one (assert 1 == 2)") == (result.outcome, result.reason)
    assert before == (workspace.folder / ADDED.file).read_text()
    assert 0 == workspace.run_tests(ADDED.tests).code


def test_the_bytecode_of_a_changed_file_is_forgotten(workspace: Workspace) -> None:
    """It knows a file by its size and second alone, and would hide a mutant of the same size."""
    cache = workspace.folder / "src/trimtab/core/__pycache__"
    cache.mkdir()
    for name in ("engine.cpython-311.pyc", "engine.cpython-311.opt-1.pyc", "engine_room.cpython-311.pyc"):
        (cache / name).touch()
    workspace.write(ADDED.file, "")
    assert ["engine_room.cpython-311.pyc"] == [each.name for each in cache.iterdir()]


def test_a_test_that_fails_without_any_mutant(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """It kills nothing; all other mutants are tried."""
    mutants = [replace(ADDED, tests=("tests/test_fails.py::test_two",)), replace(ADDED, area="queue")]
    assert not try_all(workspace, mutants, live=False)
    *_, broken, _, wiring, queue, _ = capsys.readouterr().out.splitlines()
    assert broken.startswith(
        "BROKEN wiring/one-less: without it tests/test_fails.py::test_two[a word] fails, too: AssertionError: "
    )
    assert [["wiring", "0", "0", "0", "1"], ["queue", "1", "0", "0", "0"]] == [wiring.split(), queue.split()]


def test_a_test_that_failed_once_is_tried_again(workspace: Workspace) -> None:
    """A busy machine fails a test that waits for a time."""
    answers = [TestRun(1, (("tests/test_add.py::test_one", "Failed: Timeout"),)), TestRun(0, (), "1 passed")]
    workspace.run_tests = lambda *_: answers.pop(0)  # type: ignore[method-assign]
    assert {} == failing_tests(workspace, {"tests/test_add.py::test_one", "tests/test_add.py::test_two"})
    assert [] == answers


def test_tests_that_cannot_be_run_without_any_mutant(workspace: Workspace) -> None:
    """All of them count as failing."""
    workspace.run_tests = lambda *_: TestRun(4, (), "not found")  # type: ignore[method-assign]
    assert {"tests/test_gone.py": "no test ran, pytest exited with 4:\nnot found"} == failing_tests(
        workspace, {"tests/test_gone.py"}
    )


def test_a_process_that_never_exits_is_ended(workspace: Workspace) -> None:
    """And counts as a test that took too long."""
    started = time.monotonic()
    run = workspace.run_tests(["tests/test_hangs.py"], hangs=3.0)
    assert (("tests/test_hangs.py", "Timeout: pytest did not end in 3 s"),) == run.failures
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("run", "mutant", "outcome"),
    [
        (TestRun(1, (("tests/test_add.py::test_one", "assert 1 == 2"),)), ADDED, KILLED),
        (TestRun(0, (), "1 passed"), ADDED, SURVIVED),
        (TestRun(2, (), "no such option"), ADDED, BROKEN),
        (TestRun(1, (), "Traceback"), ADDED, BROKEN),
        (TestRun(0, (), "1 skipped"), ADDED, BROKEN),
        (TestRun(0, (), "1 passed"), replace(ADDED, old="gone"), BROKEN),
        (TestRun(0, (), "1 passed"), LIVE_ONLY, SKIPPED),
    ],
    ids=["killed", "survived", "no test ran", "pytest did not start", "all skipped", "stale", "live"],
)
def test_what_becomes_of_a_mutant(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], run: TestRun, mutant: Mutant, outcome: str
) -> None:
    """A line says so at once, and a table in the end. None may survive or be stale; those are named again."""
    answers = [run, TestRun(0, (), "1 passed")]
    workspace.run_tests = lambda *_: answers.pop(0)  # type: ignore[method-assign]
    assert (outcome in (KILLED, SKIPPED)) == try_all(workspace, [mutant], live=False)
    lines = capsys.readouterr().out.splitlines()
    assert [outcome, "wiring/one-less:"] == [lines[0].split()[1], lines[0].split()[4]]
    assert (outcome in (SURVIVED, BROKEN)) == any(line.startswith(f"{outcome} wiring/one-less: ") for line in lines)
    header, area, total = (line.split() for line in lines[-3:])
    assert ["area", "wiring", "all"] == [header[0], area[0], total[0]]
    assert ["1", "1"] == [row[header.index(outcome)] for row in (area, total)]


def test_live_tests_are_run_alone() -> None:
    """The quick ones kill the same mutant sooner, and nobody would learn whether the live ones do."""
    both = replace(ADDED, tests=("tests/test_add.py", "tests/live/test_add.py"))
    assert [("tests/test_add.py",), ("tests/live/test_add.py",)] == [
        both.selection(live=live) for live in (False, True)
    ]


@pytest.mark.parametrize("arguments", [["--only", "gone"], ["--area", "gone"], ["--live", "--only", "nan-accepted"]])
def test_nothing_is_selected(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Nothing is run."""
    assert 2 == main(arguments)
    assert "no mutant has this name and area" in capsys.readouterr().err
