"""The browser of the tests: found by its usual names, installed in CI only, where it must not be missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools import browser


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """No browser on the path; what would be installed is written down."""
    commands: list[list[str]] = []
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(subprocess, "run", lambda command, **more: commands.append(command))
    return commands


def test_nothing_is_installed_at_home(installs: list[list[str]]) -> None:
    """A missing browser is no error there."""
    assert 0 == browser.main()
    assert [] == installs


def test_ci_installs_it_and_fails_without(
    installs: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By apt-get, as root."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert 1 == browser.main()
    assert [] == installs  # there is no apt-get either
    (tmp_path / "apt-get").touch(mode=0o755)
    assert 1 == browser.main()
    assert ["update", "install"] == [command[1] for command in installs]


def test_it_is_found_by_its_names(installs: list[list[str]], tmp_path: Path) -> None:
    """Also as Debian's older name has it."""
    path = tmp_path / "chromium-browser"
    path.touch(mode=0o755)
    assert str(path) == browser.find_browser() == shutil.which("chromium-browser")
