"""Writes a file as a whole or not at all, also if the process is killed or the machine stops.

FILE.tmp-RANDOM ──(written, flushed to disk)──▶ renamed to FILE
      └──(any failure)──▶ removed, and FILE is what it was
"""

from __future__ import annotations

import gzip
import os
import re
import secrets
from collections.abc import Iterable
from errno import EINVAL
from pathlib import Path

OWNER_ONLY = 0o600
BY_UMASK = 0o666
NOT_REGULAR = "is not a regular file"
COMPRESSED = ".gz"
_TEMPORARY = re.compile(r".+\.tmp-[0-9a-f]{8}")


def write_atomically(path: Path, pieces: Iterable[bytes], mode: int = OWNER_ONLY) -> int:
    """Write these bytes, compressed if the name ends in .gz; the size of the file. Raises OSError.

    A file of a cluster is for its owner only; others have BY_UMASK as their mode, which the process' umask narrows.
    """
    if is_special(path):
        raise OSError(EINVAL, NOT_REGULAR, str(path))
    packs, path = path.suffix == COMPRESSED, path.resolve()  # what a link points to is replaced, and not the link
    temporary = path.with_name(f"{path.name}.tmp-{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as plain:
            if packs:
                with gzip.GzipFile("", "wb", fileobj=plain) as packed:
                    packed.writelines(pieces)
            else:
                plain.writelines(pieces)
            plain.flush()
            os.fsync(plain.fileno())
            size = plain.tell()
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return size


def is_special(path: Path) -> bool:
    """Whether there is a device or a pipe, which a rename would replace by a file: as root, /dev/null of the machine."""
    return path.exists() and not path.is_file() and not path.is_dir()


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of a process that was killed."""
    for each in folder.iterdir():
        if _TEMPORARY.fullmatch(each.name):
            each.unlink(missing_ok=True)


def why_not_writable(path: Path) -> str:
    """Why a file cannot be written there, to be said before hours of work; empty if nothing speaks against it."""
    folder = path.parent
    if path.is_dir():
        return "is a directory"
    if is_special(path):
        return NOT_REGULAR
    if not folder.is_dir():
        return f"there is no directory {folder}"
    return "" if os.access(folder, os.W_OK) else f"the directory {folder} is not writable"
