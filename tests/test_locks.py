"""The lock files are complete, and no development package is in the runtime set."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?: ; (?P<marker>[^\\]+))? \\$", re.MULTILINE)
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")


def pins(lock: str) -> set[tuple[str, str]]:
    """Names and versions of all packages in a lock file."""
    return {(match["name"], match["version"]) for match in PIN.finditer((ROOT / lock).read_text())}


def needs(name: str) -> set[str]:
    """The dependencies of an installed package without extras, on any machine."""
    try:
        asked = [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError:
        return set()
    return {canonicalize_name(need.name) for need in asked if "extra" not in str(need.marker)}


def reachable() -> set[str]:
    """All transitive dependencies of the declared runtime dependencies."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found: set[str] = set()
    waiting: set[str] = {canonicalize_name(Requirement(line).name) for line in declared}
    while waiting:
        found.add(name := waiting.pop())
        waiting |= needs(name) - found
    return found


def test_runtime_lock_has_no_unneeded_package() -> None:
    """Every package in it is a transitive runtime dependency."""
    assert set() == {name for name, _ in pins("requirements.lock")} - reachable()


def test_runtime_lock_is_complete() -> None:
    """Every declared runtime dependency is locked."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    locked = {name for name, _ in pins("requirements.lock")}
    assert set() == {canonicalize_name(Requirement(line).name) for line in declared} - locked


def test_runtime_lock_is_part_of_the_dev_lock() -> None:
    """What is tested is what runs: with the same versions."""
    assert set() == pins("requirements.lock") - pins("requirements-dev.lock")


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes(lock: str) -> None:
    """Every entry is pinned to one version and has at least one sha256."""
    entries = re.split(r"\n(?=\S)", (ROOT / lock).read_text().strip())
    assert [] == [entry for entry in entries if not PIN.match(entry) or "--hash=sha256:" not in entry]


def test_development_tools_are_not_in_the_runtime_lock() -> None:
    """Neither development nor build dependencies."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    direct = {canonicalize_name(Requirement(line).name) for group in groups.values() for line in group}
    assert set() == direct & {name for name, _ in pins("requirements.lock")}
