"""Layers of an image: folders as tar archives whose bytes depend on nothing but names, contents and executable bits."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

EPOCH = 0  # of every file: an unchanged layer keeps its digest from release to release
STICKY = {"tmp": 0o1777}


@dataclass(frozen=True)
class Layer:
    """A compressed layer: its file, its digest, and digest and size of the archive inside."""

    file: Path
    digest: str
    diff_id: str
    uncompressed: int


def pack(folder: Path, file: Path) -> Layer:
    """Write a folder as a layer."""
    plain = file.with_suffix("")
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            add(archive, path, path.relative_to(folder).as_posix())
    content = plain.read_bytes()
    plain.unlink()
    with file.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as compressed:
        compressed.write(content)
    return Layer(file, digest_of(file.read_bytes()), digest_of(content), len(content))


def add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file, link or folder, owned by root and with a mode of three possible ones."""
    info = tarfile.TarInfo(name)
    info.mtime = EPOCH
    info.mode = STICKY.get(name, 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    if path.is_symlink():
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(info)
    elif path.is_dir():
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    else:
        info.size = path.stat().st_size
        with path.open("rb") as content:
            archive.addfile(info, content)


def digest_of(content: bytes) -> str:
    """A digest as OCI writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
