"""Where inputs and results of an image build are: the repository, the user's cache, and results that are computed once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import mkdtemp

from tools.controlplane.build import cache

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RUNTIME_LOCK = ROOT / "requirements.lock"
UNUSED_SECONDS = 14 * 24 * 3600
PYTHON = (3, 11)  # of Debian 12; wheels and bytecode are made for it


class ImageError(Exception):
    """The image cannot be built; the message says what to do."""


class Unavailable(ImageError):
    """Something needed for the build cannot be had on this machine."""


def version() -> str:
    """Trimtab's version."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return found


def hash_of(parts: Iterable[bytes | str]) -> str:
    """A hash of several texts, which are kept apart."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(content)}:".encode() + content)
    return digest.hexdigest()


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache that is made once; it appears when it is complete, and one process makes it at a time."""
    target = cache() / "image" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            unfinished = Path(mkdtemp(dir=target.parent))
            try:
                make(unfinished)
                unfinished.rename(target)
                remove_unused(target)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    os.utime(target)
    return target


def remove_unused(target: Path) -> None:
    """Remove older results of the same kind that no build has used for two weeks."""
    kind = target.name.rpartition("-")[0]
    for other in target.parent.glob(f"{kind}-*"):
        if time.time() - other.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
