"""The Makefile: its list of targets, the message if Python is missing, and what CI runs."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGETS = {
    "demo",
    "test",
    "mutants",
    "check",
    "bench",
    "bench-live",
    "bench-move",
    "benchmark",
    "conformance",
    "differential",
    "controlplane",
    "image",
    "image-lock",
    "manifests",
    "sbom",
    "sign",
    "wheel",
    "e2e",
    "compat",
    "audit",
    "soak",
    "lock",
    "format",
    "clean",
    "help",
}


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make there, independent of a make that may be running the tests."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )


def test_help_lists_every_target() -> None:
    """Plain make lists all targets with a description, and does nothing else."""
    rows = [line.split(maxsplit=2) for line in make(ROOT).stdout.splitlines()]
    assert TARGETS == {target for _, target, sentence in rows if sentence}


def test_the_message_if_python_is_missing(tmp_path: Path) -> None:
    """One line says what is needed, and nothing is created."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-build.lock"):
        shutil.copy(ROOT / name, tmp_path)
    result = make(tmp_path, "--silent", "PYTHON=false", "demo")
    said = [line for line in result.stderr.splitlines() if not line.startswith("make")]
    assert 2 == result.returncode
    assert 1 == len(said)
    assert said[0].startswith("Trimtab needs Python 3.11 or newer")
    assert not (tmp_path / ".venv").exists()


def test_ci_runs_check_and_test_and_nothing_else() -> None:
    """The commands of .ci/run, after two lines of setup."""
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert ["make check", "make test"] == lines[3:]
    assert os.access(ROOT / ".ci/run", os.X_OK)
