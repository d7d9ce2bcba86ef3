"""Decides where files stand that a configuration names, and how much of them is read; what they mean is left to config."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trimtab.config.yaml import MAX_BYTES


def beside(file: str) -> Callable[[str], tuple[str, bytes]]:
    """A reader of files named in this one, seen from where it stands; it tells where each was, and raises OSError."""
    folder = Path(file).parent

    def read(path: str) -> tuple[str, bytes]:
        found = folder / path
        try:
            with found.open("rb") as stream:
                return str(found), stream.read(MAX_BYTES + 1)
        except ValueError as error:  # a name that no file can have
            raise OSError(str(error)) from None

    return read
