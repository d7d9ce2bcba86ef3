"""The commands of the image builder.

    python -m tools.image build [--architecture amd64|arm64] [--output dist] [--allow-newer]
    python -m tools.image rootfs FOLDER [--architecture …]    the file system alone, for the Dockerfile
    python -m tools.image lock                                refreshes debian.lock from apt's signed indexes
    python -m tools.image sbom | wheel [--output dist]
    python -m tools.image sign | verify --key FILE [--output dist]    checksums of all files there, and their signature

Exit code 3: something that is needed cannot be had on this machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.image import oci, sbom, signing, wheels
from tools.image.build import build_contents, native_architecture, sizes, start_times, write_image
from tools.image.debian import ARCHITECTURES, newest, read_lock, write_lock
from tools.image.folders import ImageError, Unavailable, version

EXIT_UNAVAILABLE = 3


def build(given: argparse.Namespace) -> None:
    """Build the image, and print what it is."""
    contents = build_contents(given.architecture or native_architecture(), given.allow_newer)
    if list(contents.packages) != read_lock(contents.architecture):
        print("image: a locked Debian package has left the mirrors, so today's versions are used", file=sys.stderr)
    archive, digest = write_image(contents, given.output)
    compressed, uncompressed = sizes(contents.layers)
    print(f"image:    trimtab:{version()} linux/{contents.architecture} {digest}")
    print(f"size:     {compressed:.1f} MB compressed, {uncompressed:.1f} MB unpacked")
    starts = start_times(contents)
    for name, start in starts.items():
        print(f"start:    {start.elapsed:.2f} s ({start.cpu:.2f} s of CPU) for {name}")
    if not starts:
        print("start:    not measured: that needs root and this machine's own architecture")
    print(f"archive:  {archive} (podman load -i, docker load -i, kind load image-archive)")
    print(f"sbom:     {archive.with_suffix('.cdx.json')}")


def rootfs(given: argparse.Namespace) -> None:
    """Unpack the image's file system."""
    contents = build_contents(given.architecture or native_architecture(), given.allow_newer)
    oci.unpack(contents.layers, given.folder)


def lock(given: argparse.Namespace) -> None:
    """Refresh the lock file for every architecture."""
    before = {name: read_lock(name) for name in ARCHITECTURES}
    after = {name: newest(name) for name in ARCHITECTURES}
    write_lock(after)
    for name in ARCHITECTURES:
        for package in sorted(set(after[name]) - set(before[name])):
            print(f"{name}: {package.name} {package.version}")


def write_sbom(given: argparse.Namespace) -> None:
    """Write the lock file's bill of materials."""
    given.output.mkdir(parents=True, exist_ok=True)
    file = given.output / f"trimtab-{version()}.cdx.json"
    file.write_text(sbom.from_lock())
    print(file)


def wheel(given: argparse.Namespace) -> None:
    """Build the wheel."""
    print(wheels.build_wheel(given.output))


def sign(given: argparse.Namespace) -> None:
    """Sign all files of the output folder with a private key."""
    print(signing.sign(given.output, given.key))


def verify(given: argparse.Namespace) -> None:
    """Verify all files of the output folder with the public key."""
    for name in signing.verify(given.output, given.key):
        print(f"{name}: OK")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command and its options."""
    parser = argparse.ArgumentParser(prog="python -m tools.image")
    commands = parser.add_subparsers(required=True)
    actions = (build, rootfs, lock, write_sbom, wheel, sign, verify)
    for action in actions:
        name = action.__name__.removeprefix("write_")
        command = commands.add_parser(name, help=action.__doc__)
        command.set_defaults(action=action)
        if action in (build, rootfs):
            command.add_argument("--architecture", choices=ARCHITECTURES, help="of this machine, unless set")
            command.add_argument("--allow-newer", action="store_true")
        if action is rootfs:
            command.add_argument("folder", type=Path)
        if action in (sign, verify):
            command.add_argument("--key", type=Path, required=True, help="of Ed25519, in PEM")
        if action not in (rootfs, lock):
            command.add_argument("--output", type=Path, default=Path("dist"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run a command; the exit code."""
    given = parse(arguments)
    try:
        given.action(given)
    except ImageError as error:
        print(f"image: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE if isinstance(error, Unavailable) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
