"""The OpenSSF Scorecard checks that a repository can meet by its files; docs/security.md lists the others."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXECUTABLES = (b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"PK\x03\x04", b"!<arch>")


def text(name: str) -> str:
    return (ROOT / name).read_text()


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name]


def test_binary_artifacts() -> None:
    """No program, archive or compiled file is in the tree; pictures and fonts are no programs."""
    assert [] == [path for path in tracked() if path.is_file() and path.read_bytes()[:8].startswith(EXECUTABLES)]


def test_license_and_security_policy() -> None:
    """Apache 2.0, as the package says; how to report a vulnerability, and in which time."""
    assert "Apache License" in text("LICENSE")
    assert "Apache-2.0" == tomllib.loads(text("pyproject.toml"))["project"]["license"]
    policy = text("SECURITY.md")
    assert all(words in policy for words in ("Reporting a vulnerability", "within a week", "Supported versions"))


def test_pinned_dependencies() -> None:
    """Locks with hashes (test_locks), a builder image by digest (test_dockerfile), Debian packages by hash."""
    assert all("--hash=sha256:" in text(f"requirements{part}.lock") for part in ("", "-dev", "-build"))
    assert "@sha256:" in text("Dockerfile")
    packages = json.loads(text("tools/image/debian.lock"))["amd64"]
    assert packages and all(len(each["sha256"]) == 64 for each in packages)


@pytest.mark.parametrize(
    ("check", "target", "words"),
    [
        ("CI-Tests", "test", "tools.retry_failed"),
        ("SAST", "check", "ruff check"),
        ("Vulnerabilities", "audit", "tools.audit"),
        ("SBOM", "sbom", "tools.image sbom"),
        ("Packaging", "wheel", "tools.image wheel"),
        ("Dependency-Update-Tool", "lock", "uv pip compile"),
    ],
)
def test_targets(check: str, target: str, words: str) -> None:
    """Each has a target of the Makefile that does it."""
    shown = subprocess.run(
        ["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert words in shown, check


def test_ci_runs_checks_and_tests() -> None:
    """And nothing in it has credentials or fetches a script."""
    script = text(".ci/run")
    assert "make check" in script and "make test" in script
    assert all(word not in script for word in ("curl", "wget", "TOKEN", "SECRET"))


def test_static_analysis_and_fuzzing() -> None:
    """Ruff's security rules are on; hypothesis feeds decoders and configuration with anything."""
    assert "S" in tomllib.loads(text("pyproject.toml"))["tool"]["ruff"]["lint"]["select"]
    fuzzed = ("tests/wire/test_garbage.py", "tests/config/test_mutations.py", "tests/kube/test_http_parser.py")
    assert all("hypothesis" in text(name) for name in fuzzed)
