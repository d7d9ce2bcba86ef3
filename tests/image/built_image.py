"""The image for tests: built once from the cache, and skipped with a reason where it cannot be built or started."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tools.image import sandbox
from tools.image.build import Contents, build_contents, native_architecture
from tools.image.folders import Unavailable
from tools.image.oci import unpack

ROOT = Path(__file__).parents[2]
PYTHON = ("/usr/bin/python3.11", "-sP", "-c")


@cache
def contents_or_skip() -> Contents:
    """The image's contents; where they cannot be had the test is skipped, and failed in CI, where they must be."""
    try:
        return build_contents(native_architecture(), allow_newer=True)
    except Unavailable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


def unpacked_or_skip(folder: Path) -> Path:
    """The image's file system, which only root can start."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a program in another root file system")
    unpack(contents_or_skip().layers, folder)
    return folder


def run(root: Path, *program: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the image, as its user and without a way to write anywhere but /tmp."""
    command = sandbox.command(root, program)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def output(root: Path, *program: str) -> str:
    """What a program of the image prints; it must succeed."""
    ended = run(root, *program)
    assert (0, "") == (ended.returncode, ended.stderr)
    return ended.stdout
