"""Reads Debian packages: the fields of their control file, and their files, unpacked without running any script.

A .deb is an ar archive of two tar archives, control.tar and data.tar.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

MAGIC = b"!<arch>\n"
HEADER = 60
MERGED = ("bin", "lib", "lib64", "sbin")  # folders that are links into /usr since Debian 12


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of an ar archive."""
    if not archive.startswith(MAGIC):
        raise ValueError("not a Debian package")
    at = len(MAGIC)
    while at < len(archive):
        header = archive[at : at + HEADER]
        size = int(header[48:58])
        yield header[:16].decode().strip().rstrip("/"), archive[at + HEADER : at + HEADER + size]
        at += HEADER + size + size % 2


def open_part(deb: Path, part: str) -> tarfile.TarFile:
    """The control.tar or data.tar of a package."""
    content = next(content for name, content in members(deb.read_bytes()) if name.startswith(f"{part}.tar"))
    return tarfile.open(fileobj=io.BytesIO(content))


def control(deb: Path) -> str:
    """The control file: name, version, dependencies."""
    with open_part(deb, "control") as archive:
        file = archive.extractfile("./control")
        assert file is not None
        return file.read().decode()


def fields(text: str) -> dict[str, str]:
    """The fields of a control file, without continuation lines."""
    return dict(re.findall(r"^(\S+): (.*)$", text, re.MULTILINE))


def unpack(deb: Path, target: Path, wanted: Callable[[str], bool]) -> None:
    """Unpack the files that are wanted, by their path in the image; folders appear as far as they are needed."""
    with open_part(deb, "data") as archive:
        for member in archive:
            path = merged(member.name.removeprefix("./"))
            if member.isdir() or not wanted(path):
                continue
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            write(archive, member, place, target)


def merged(path: str) -> str:
    """A path with the folder that /bin, /lib, /lib64 or /sbin is a link to."""
    return f"usr/{path}" if path.partition("/")[0] in MERGED else path


def write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path, target: Path) -> None:
    """Write one file or link."""
    if member.issym():
        place.symlink_to(member.linkname)
    elif member.islnk():
        place.hardlink_to(target / merged(member.linkname.removeprefix("./")))
    else:
        file = archive.extractfile(member)
        assert file is not None, f"{member.name} is neither a file nor a link"
        place.write_bytes(file.read())
        is_program = member.mode & 0o100 and place.suffix != ".py"  # some modules are marked as programs, too
        place.chmod(0o755 if is_program else 0o644)
