"""Compiles the image's modules with the image's own interpreter, so that the result does not depend on the builder's Python.

The interpreter is unpacked into the cache and started through its own dynamic loader, which needs neither root nor a chroot.
Bytecode is the same on every architecture: an image for another one is compiled with the interpreter for this machine.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.image import deb_archive
from tools.image.debian import Package, fetch_all
from tools.image.folders import ImageError, cached, hash_of


@dataclass(frozen=True)
class Interpreter:
    """An unpacked interpreter, and what identifies it."""

    root: Path
    version: str

    def command(self) -> list[str]:
        """The program and its options: it writes no bytecode of its own modules."""
        loader = next((self.root / "usr/lib").glob("*-linux-gnu/ld-linux-*.so.*"))
        return [str(loader), "--library-path", str(loader.parent), str(self.root / "usr/bin/python3.11"), "-BsP"]


def unpack_interpreter(packages: Sequence[Package]) -> Interpreter:
    """The interpreter of these packages, which must be for this machine's architecture."""

    def make(folder: Path) -> None:
        for deb in fetch_all(packages):
            deb_archive.unpack(deb, folder, lambda path: path.startswith("usr/") and not path.startswith("usr/share/"))

    key = hash_of(package.sha256 for package in packages)[:16]
    version = next(package.version for package in packages if package.name == "python3.11-minimal")
    return Interpreter(cached(f"interpreter-{key}", make), version)


def add_bytecode(folder: Path, interpreter: Interpreter) -> None:
    """Compile every module in the folder as it will be found in the image, whose root cannot be written.

    The bytecode is never compared with its source, which saves two system calls per import. A fixed hash seed gives the
    same bytes each time.
    """
    options = [
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        str(folder),
        "-p",
        "/",
        str(folder),
    ]
    environment = {"PYTHONHASHSEED": "0", "PYTHONHOME": str(interpreter.root / "usr")}
    command = [*interpreter.command(), *options]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ImageError(f"the image's modules cannot be compiled:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
