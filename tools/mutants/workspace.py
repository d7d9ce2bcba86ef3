"""A copy of the tree in which files are changed and tests are run."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.house_rules import files
from tools.mutants.mutant import ROOT
from tools.mutants.run_pytest import PRELOADED, run_pytest

PASSED, FAILED = 0, 1  # of pytest; all else means that the tests did not run
HANGS = 1800.0  # seconds; one test ends after pytest's own limit, so this is for a process that never exits
SUMMARY = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - (.*))?$", re.MULTILINE)
FORK_SERVER = multiprocessing.get_context("forkserver")
FORK_SERVER.set_forkserver_preload(PRELOADED)


@dataclass(frozen=True, slots=True)
class TestRun:
    """What pytest answered: its exit code, each test that failed with the reason, and all that it printed."""

    __test__ = False  # to pytest, a class of this name would be one of tests

    code: int
    failures: tuple[tuple[str, str], ...] = ()
    output: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether tests ran: a process that fails to start pytest exits with 1, too, and a skipped test does not fail."""
        return bool(self.failures) if self.code == FAILED else self.code == PASSED and " passed" in self.output


class Workspace:
    """A copy of what git tracks, or would track."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def copied(cls, folder: Path) -> Workspace:
        """Of this tree."""
        for path in files(ROOT):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, folder / path)
        return cls(folder)

    def run_tests(self, tests: Sequence[str], *options: str, hangs: float = HANGS) -> TestRun:
        """Run them in a process of their own; one that does not exit is ended, with all that it started."""
        with tempfile.TemporaryDirectory(prefix="trimtab-pytest-") as folder:
            printed = Path(folder) / "output"
            process = FORK_SERVER.Process(target=run_pytest, args=(self.folder, (*options, *tests), printed))
            process.start()
            try:
                process.join(hangs)
                hanging = process.is_alive()
            finally:
                if process.is_alive() and process.pid is not None:
                    with suppress(ProcessLookupError):  # so early that it leads no group yet
                        os.killpg(process.pid, signal.SIGKILL)
                    process.kill()
                process.join()
            output = printed.read_text(errors="replace") if printed.exists() else ""
        if hanging:
            return TestRun(FAILED, ((tests[0], f"Timeout: pytest did not end in {hangs:.0f} s"),), output)
        found = tuple((match[1], match[2] or "") for match in SUMMARY.finditer(output))
        return TestRun(process.exitcode or 0, found, output)

    def write(self, file: str, text: str) -> None:
        """Also forget its bytecode: that knows a file by its size and second alone."""
        path = self.folder / file
        path.write_text(text)
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()
