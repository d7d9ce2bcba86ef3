"""Python packages of the image: the locked wheels, downloaded for its platform, Trimtab's own wheel, and how they unpack."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

from tools.image.folders import PYTHON, ROOT, RUNTIME_LOCK, ImageError, Unavailable, cached, hash_of

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBC_MINOR = 36  # of Debian 12
BUILD_TOOLS = Path(sys.prefix, "build-tools")


def check_interpreter() -> None:
    """Bytecode, and markers in the lock file, are those of the running interpreter: it must be the image's version."""
    if sys.version_info[:2] != PYTHON:
        wanted = ".".join(map(str, PYTHON))
        raise Unavailable(
            f"building the image needs Python {wanted}: `make clean image PYTHON=python{wanted}`, or the Dockerfile"
        )


def platforms(architecture: str) -> list[str]:
    """The platform tags that the image's glibc can load, newest first."""
    machine = MACHINES[architecture]
    numbered = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_MINOR, 4, -1)]
    return [*numbered, f"manylinux2014_{machine}"]


def locked_wheels(architecture: str) -> list[Path]:
    """The wheels of the runtime lock file for an architecture, downloaded once."""
    name = f"wheels-{architecture}-{hash_of([RUNTIME_LOCK.read_bytes()])[:16]}"
    return sorted(cached(name, lambda folder: download(folder, architecture)).glob("*.whl"))


def download(folder: Path, architecture: str) -> None:
    """Download the locked wheels; pip compares their hashes."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--requirement", str(RUNTIME_LOCK), "--dest", str(folder)]
    command += ["--python-version", ".".join(map(str, PYTHON)), "--implementation", "cp"]
    command += [part for platform in platforms(architecture) for part in ("--platform", platform)]
    run(command, "pip cannot download the locked wheels: check the network and pip's settings")


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    """Trimtab's own wheel; the same source gives the same bytes."""
    if not BUILD_TOOLS.exists():
        raise Unavailable(f"{BUILD_TOOLS} is missing: run `make demo` once, which creates it")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    run(command, "hatchling cannot build the wheel", {"PYTHONPATH": str(BUILD_TOOLS)}, source)
    return next(folder.glob("trimtab-*.whl"))


def run(command: list[str], trouble: str, environment: Mapping[str, str] | None = None, folder: Path = ROOT) -> None:
    """Run a build command; its own message follows ours if it fails."""
    own = {**os.environ, **(environment or {})}
    ended = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ImageError(f"{trouble}:\n{(ended.stderr or ended.stdout).strip()[-2000:]}")


def unpack(wheel: Path, target: Path, wanted: Callable[[str], bool]) -> None:
    """Unpack a wheel's wanted files, and list those alone in its RECORD."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        if odd := [name for name in names if name.partition("/")[0].endswith(".data")]:
            raise ImageError(f"{wheel.name} has files outside of its package, which this tool cannot place: {odd[0]}")
        kept = {name for name in names if wanted(name)}
        for name in sorted(kept):
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            content = archive.read(name)
            place.write_bytes(shortened(content, kept) if name.endswith(".dist-info/RECORD") else content)


def shortened(record: bytes, kept: set[str]) -> bytes:
    """A RECORD without the files that were left out."""
    rows = [row for row in csv.reader(io.StringIO(record.decode())) if row and row[0] in kept]
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue().encode()


def metadata(wheel: Path) -> Message:
    """A wheel's METADATA: name, version, licence, dependencies."""
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())
