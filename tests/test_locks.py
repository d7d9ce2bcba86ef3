"""The lock files are complete, and no development package is in the runtime set."""

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
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


def test_a_changed_byte_is_not_installed(tmp_path: Path) -> None:
    """A wheel of a locked package is refused once it differs from what was locked, also if name and version are the same."""
    wheel = tmp_path / "links" / "thing-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    write_wheel(wheel, "VALUE = 1")
    lock = tmp_path / "some.lock"
    lock.write_text(f"thing==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    assert 0 == install(lock, wheel.parent, tmp_path / "first").returncode
    write_wheel(wheel, "VALUE = 2")
    refused = install(lock, wheel.parent, tmp_path / "second")
    assert (1, True) == (refused.returncode, "DO NOT MATCH THE HASHES" in refused.stderr), refused.stderr
    assert not (tmp_path / "second" / "thing.py").exists()


def write_wheel(path: Path, content: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("thing.py", content)
        archive.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        archive.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("thing-1.0.dist-info/RECORD", "")


def install(lock: Path, links: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """With the flag that every installation of ours has, as the next test says."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-index",
        "--find-links",
        str(links),
        "--target",
        str(target),
    ]
    return subprocess.run(
        [*command, "--require-hashes", "--requirement", str(lock)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("path", ["tools/bootstrap.py", "tools/image/wheels.py"])
def test_every_installation_from_a_lock_compares_hashes(path: str) -> None:
    """pip would also do it without the flag, but not if a hash were missing from the lock."""
    text = (ROOT / path).read_text()
    installed = [line for line in text.splitlines() if '"--requirement"' in line]
    assert installed
    assert [] == [line for line in installed if "--require-hashes" not in line]
