"""Decides where files stand that a configuration names, and how much of a file is read; what they mean is left to config."""

from __future__ import annotations

from pathlib import Path

from trimtab.config.yaml import MAX_BYTES


class IncludedFiles:
    """Reads files named in another one, seen from where that stands; `found` is what each of them last held."""

    def __init__(self, file: Path) -> None:
        self.states: dict[Path, bytes | str] = {}
        self._folder = file.parent

    def __call__(self, path: str) -> tuple[str, bytes]:
        """Where the file stands, and what it holds; raises OSError."""
        place = self._folder / path
        try:
            content = read_bounded(place)
        except OSError as error:
            self.states[place] = os_error_text(error)
            raise
        self.states[place] = content
        return str(place), content


def read_bounded(file: Path) -> bytes:
    """What the file holds; more than is ever read is not fetched. Raises OSError."""
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except ValueError as error:  # a name that no file can have
        raise OSError(str(error)) from None


def os_error_text(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"
