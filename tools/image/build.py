"""Builds the image from lock files and the source tree, and measures what it became."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tools.image import oci, sandbox, sbom, wheels
from tools.image.bytecode import Interpreter, unpack_interpreter
from tools.image.debian import Gone, Package, fetch_all, newest, read_lock
from tools.image.folders import ImageError, Unavailable, version
from tools.image.layers import Layer
from tools.image.root_filesystem import PROGRAM, build_layers

STARTS = 5
MEGABYTE = 1e6
NEWEST = "trimtab-image.tar"


class StartTime(NamedTuple):
    """Seconds from exec to exit: elapsed, and of a CPU."""

    elapsed: float
    cpu: float


@dataclass(frozen=True)
class Contents:
    """What an image is made of."""

    architecture: str
    packages: Sequence[Package]
    layers: Sequence[Layer]
    sbom: str


def build_contents(architecture: str, allow_newer: bool = False) -> Contents:
    """All that is in the image."""
    wheels.check_interpreter()
    packages = available_packages(architecture, allow_newer)
    with TemporaryDirectory() as folder:
        own = wheels.build_wheel(Path(folder))
        locked = wheels.locked_wheels(architecture)
        bill = sbom.of_image(packages, locked, own)
        layers = build_layers(packages, locked, own, bill, native_interpreter(architecture, packages))
    return Contents(architecture, packages, layers, bill)


def available_packages(architecture: str, allow_newer: bool) -> list[Package]:
    """The locked packages; if one of them has left the mirrors and `allow_newer` is set, today's versions of all."""
    packages = read_lock(architecture)
    try:
        fetch_all(packages)
    except Gone:
        if not allow_newer:
            raise
        return newest(architecture)
    return packages


def native_interpreter(architecture: str, packages: Sequence[Package]) -> Interpreter:
    """The image's interpreter for this machine."""
    native = native_architecture()
    return unpack_interpreter(packages if native == architecture else read_lock(native))


def native_architecture() -> str:
    """This machine's architecture, as Debian and OCI call it."""
    for name, machine in wheels.MACHINES.items():
        if (platform.system(), platform.machine()) == ("Linux", machine):
            return name
    raise Unavailable(f"{platform.system()} on {platform.machine()} cannot build the image: use the Dockerfile")


def write_image(contents: Contents, folder: Path) -> tuple[Path, str]:
    """Write the archive and, beside it, the bill of materials; returns the archive and the image's digest."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"trimtab-{version()}-{contents.architecture}.tar"
    digest = oci.write_archive(contents.architecture, contents.layers, archive)
    if contents.architecture == native_architecture():  # a name without a version, for scripts
        (folder / NEWEST).unlink(missing_ok=True)
        (folder / NEWEST).symlink_to(archive.name)
    archive.with_suffix(".cdx.json").write_text(contents.sbom)
    return archive, digest


def sizes(layers: Sequence[Layer]) -> tuple[float, float]:
    """Compressed and uncompressed, in megabytes."""
    compressed = sum(layer.file.stat().st_size for layer in layers)
    return compressed / MEGABYTE, sum(layer.uncompressed for layer in layers) / MEGABYTE


def start_times(contents: Contents) -> dict[str, StartTime]:
    """The median start of several; empty where the image cannot be started."""
    if os.geteuid() != 0 or contents.architecture != native_architecture():
        return {}
    imports = ("/usr/bin/python3.11", "-sP", "-c", "import trimtab.apps.process, trimtab.cli.run")
    programs = {"trimtab version": (f"/{PROGRAM}", "version"), "imports of trimtab run": imports}
    with TemporaryDirectory() as folder:
        root = Path(folder, "root")
        oci.unpack(contents.layers, root)
        starts = {name: [start(root, program) for _ in range(STARTS)] for name, program in programs.items()}
    return {name: statistics.median_low(times) for name, times in starts.items()}


def start(root: Path, program: tuple[str, ...]) -> StartTime:
    """Run a program in a sandbox to its end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            sandbox.enter(root, ())
            sandbox.drop_privileges()
            os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
            os.write(writer, repr(time.monotonic()).encode())
            os.execve(program[0], program, dict(each.split("=", 1) for each in oci.ENVIRONMENT))  # noqa: S606 (the image's own program)
        finally:
            os._exit(1)  # the child must not go on as the parent, which would remove the folder
    _, status, used = os.wait4(child, 0)
    ended = time.monotonic()
    began = os.read(reader, 64)
    os.close(reader)
    os.close(writer)
    if status:
        raise ImageError(f"{' '.join(program)} failed in the image, with wait status {status}")
    return StartTime(ended - float(began), used.ru_utime + used.ru_stime)
