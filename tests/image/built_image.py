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
    """The image's contents; the test is skipped where Debian's mirrors cannot be reached, which is no failure of ours."""
    try:
        return build_contents(native_architecture(), allow_newer=True)
    except Unavailable as reason:
        pytest.skip(f"the image is not tested: {reason}")


def unpacked_or_skip(folder: Path) -> Path:
    """The image's file system, which only root can start."""
    if not may_mount():
        pytest.skip("the image is not started: that needs root and permission to mount")
    unpack(contents_or_skip().layers, folder)
    return folder


@cache
def may_mount() -> bool:
    """Whether this process may make a mount namespace of its own, and mount in it."""
    tried = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/mnt"]
    return os.geteuid() == 0 and subprocess.run(tried, capture_output=True, check=False).returncode == 0


def run(root: Path, *program: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the image, as its user and without a way to write anywhere but /tmp."""
    command = sandbox.command(root, program)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def output(root: Path, *program: str) -> str:
    """What a program of the image prints; it must succeed."""
    ended = run(root, *program)
    assert (0, "") == (ended.returncode, ended.stderr)
    return ended.stdout
