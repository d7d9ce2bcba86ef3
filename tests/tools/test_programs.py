"""The programs of the tests: found by their usual names, installed in CI only, where none must be missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools import programs


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """No program on the path; what would be installed is written down."""
    commands: list[list[str]] = []
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(subprocess, "run", lambda command, **more: commands.append(command))
    return commands


def test_nothing_is_installed_at_home(installs: list[list[str]]) -> None:
    """A missing program is no error there."""
    assert 0 == programs.main()
    assert [] == installs


def test_ci_installs_them_and_fails_without(
    installs: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By apt-get, as root, and only what is missing."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert 1 == programs.main()
    assert [] == installs  # there is no apt-get either
    for name in ("apt-get", "ip"):
        (tmp_path / name).touch(mode=0o755)
    assert 1 == programs.main()
    assert ["update", "install"] == [command[1] for command in installs]
    assert ["chromium", "nftables"] == installs[1][-2:]
    assert "iproute2" not in installs[1]


def test_a_program_is_found_by_its_names(installs: list[list[str]], tmp_path: Path) -> None:
    """Also as Debian's older name has it."""
    path = tmp_path / "chromium-browser"
    path.touch(mode=0o755)
    assert str(path) == programs.find_program("chromium") == shutil.which("chromium-browser")
