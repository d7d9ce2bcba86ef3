"""The builder's cache: what is made once, what a failed build leaves, and what is removed."""

import os
from pathlib import Path

import pytest

from tools.image.folders import UNUSED_SECONDS, cached, hash_of


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    return tmp_path / "image"


def write(text: str, folder: Path) -> None:
    """Make a folder with one file."""
    (folder / "file").write_text(text)


def test_folder_is_made_once() -> None:
    """The second request finds the first result."""
    first = cached("layer-a-1", lambda folder: write("one", folder))
    assert first == cached("layer-a-1", lambda folder: write("two", folder))
    assert "one" == (first / "file").read_text()


def test_failed_build_leaves_nothing(cache: Path) -> None:
    """An interrupted build is not taken for a result, and the next one starts over."""

    def fail(folder: Path) -> None:
        write("half", folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("layer-a-1", fail)
    assert [".layer-a-1.lock"] == [path.name for path in cache.iterdir()]
    assert "whole" == (cached("layer-a-1", lambda folder: write("whole", folder)) / "file").read_text()


def test_unused_folders_of_the_same_kind_are_removed(cache: Path) -> None:
    """Old layers go when a new one of their kind is made; those in use and other kinds stay."""
    for name, age in {"layer-a-old": 1, "layer-a-new": -60, "layer-b-old": 1}.items():
        folder = cached(name, lambda folder: write("", folder))
        os.utime(folder, (then := folder.stat().st_mtime - UNUSED_SECONDS - age, then))
    cached("layer-a-next", lambda folder: write("", folder))
    assert ["layer-a-new", "layer-a-next", "layer-b-old"] == sorted(path.name for path in cache.glob("layer-*"))


def test_parts_are_kept_apart() -> None:
    """Text that moves from one input to the next is another input."""
    assert hash_of(["ab", "c"]) != hash_of(["a", "bc"])
