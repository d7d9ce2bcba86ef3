"""Files that are written as a whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.apps.atomic_file import BY_UMASK, remove_leftovers, why_not_writable, write_atomically


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_content_mode_and_size(tmp_path: Path, name: str) -> None:
    """Readable by the owner only, whatever the umask; compressed if the name says so."""
    previous = os.umask(0)
    try:
        size = write_atomically(tmp_path / name, [b"one ", b"two"])
    finally:
        os.umask(previous)
    raw = (tmp_path / name).read_bytes()
    assert b"one two" == (gzip.decompress(raw) if name.endswith(".gz") else raw)
    assert (len(raw), 0o600) == (size, (tmp_path / name).stat().st_mode & 0o777)
    assert [name] == [each.name for each in tmp_path.iterdir()]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    """And no other file."""
    file = tmp_path / "a.json"
    file.write_bytes(b"before")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise error

    with pytest.raises(type(error)):
        write_atomically(file, pieces())
    assert (b"before", ["a.json"]) == (file.read_bytes(), [each.name for each in tmp_path.iterdir()])


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if only the flush to the disk fails."""
    file = tmp_path / "report.html"
    file.write_bytes(b"before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, [b"after, and longer"])
    assert (b"before", ["report.html"]) == (file.read_bytes(), [each.name for each in tmp_path.iterdir()])


def test_a_report_has_the_mode_of_any_other_file(tmp_path: Path) -> None:
    """So that a web server or a colleague can read it."""
    previous = os.umask(0o027)
    try:
        write_atomically(tmp_path / "report.html", [b"<p>"], BY_UMASK)
    finally:
        os.umask(previous)
    assert 0o640 == (tmp_path / "report.html").stat().st_mode & 0o777


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    """Nor a device: as root, that would break the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not a regular file" == why_not_writable(pipe)
    with pytest.raises(OSError, match="is not a regular file"):
        write_atomically(pipe, [b"text"])
    assert pipe.is_fifo()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """And what it points to is written."""
    link, file = tmp_path / "latest.json", tmp_path / "monday.json"
    link.symlink_to(file.name)
    for content in (b"new", b"newer"):
        write_atomically(link, [content])
        assert (True, content) == (link.is_symlink(), file.read_bytes())


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    """A file that merely looks similar stays."""
    for name in ("a.json.tmp-0123abcd", "a.json", "b.tmp-0123abcd.json"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert ["a.json", "b.tmp-0123abcd.json"] == sorted(each.name for each in tmp_path.iterdir())


def test_what_speaks_against_it(tmp_path: Path) -> None:
    """Said before the work is done, not after."""
    assert "" == why_not_writable(tmp_path / "a.json")
    assert "is a directory" == why_not_writable(tmp_path)
    assert f"there is no directory {tmp_path / 'x'}" == why_not_writable(tmp_path / "x" / "a.json")
