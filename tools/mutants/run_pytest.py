"""One pytest process in a copy of the tree: what is slow to import is there before it starts.

It is forked from a process that has imported the libraries, but neither Trimtab nor any test. hypothesis tries the same
examples each time, and does not look for the smallest one that fails: otherwise it would be luck whether a mutant survives,
an example found for one would be tried with the next, and shrinking would take most of the time.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, settings

PRELOADED = [
    "tools.mutants.run_pytest",
    "hypothesis.strategies",
    "hypothesis.stateful",
    "numpy",
    "aiohttp",
    "msgspec",
    "yaml",
]
OPTIONS = ("-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-rfE")
# pytest would have imported hypothesis itself, to explain its assertions.
PRELOADED_TOO_EARLY = "ignore::pytest.PytestAssertRewriteWarning"


def run_pytest(folder: Path, arguments: Sequence[str], output: Path) -> None:
    """Leave with pytest's exit code. The process leads a group of its own, so that all that it starts can be ended."""
    os.setsid()
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _work_in(folder)
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", derandomize=True, database=None, phases=phases)
    settings.load_profile("mutants")  # tests/conftest.py adds its own settings
    sys.exit(pytest.main([*OPTIONS, "-W", PRELOADED_TOO_EARLY, *arguments]))


def _work_in(folder: Path) -> None:
    """Import from the copy, here and in all processes that tests start; write bytecode, which saves seconds."""
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(folder / "src")]
    sys.dont_write_bytecode = False
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST"):
        os.environ.pop(name, None)
    os.environ |= {"PYTHONPATH": str(folder / "src"), "COLUMNS": "1000"}  # pytest cuts reasons to fit
