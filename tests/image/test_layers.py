"""Layers, archive and wheel depend on nothing but their contents: two builds give the same digests."""

import json
import os
import shutil
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.image.built_image import ROOT, contents_or_skip
from tools.image import oci, wheels
from tools.image.bytecode import add_bytecode, unpack_interpreter
from tools.image.folders import Unavailable
from tools.image.layers import Layer, pack
from tools.image.root_filesystem import add_trimtab

SOURCES = ("src", "deploy", "pyproject.toml", "README.md", "LICENSE")


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    """The wheel; skipped where the build tools are not installed, as in a second worktree."""
    try:
        return wheels.build_wheel(folder, source)
    except Unavailable as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))


def copy_of_the_source(folder: Path) -> Path:
    """The same files with other times and rights, and in another order on the disk."""
    for name in reversed(SOURCES):
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, copy_function=shutil.copy, ignore=shutil.ignore_patterns("*.pyc")
            )
        else:
            shutil.copy(ROOT / name, folder / name)
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
    return folder


def trimtab_layer(wheel: Path, folder: Path) -> Layer:
    """The layer of Trimtab, not from the cache."""
    add_trimtab(wheel, "{}\n", folder / "files")
    add_bytecode(folder / "files", unpack_interpreter(contents_or_skip().packages))
    return pack(folder / "files", folder / "layer.tar.gz")


def test_two_builds_give_the_same_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a copy of the tree, with other file modes and times, in another folder."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    digests = []
    for name in ("first", "second"):
        (tmp_path / name / "source").mkdir(parents=True)
        source = copy_of_the_source(tmp_path / name / "source") if name == "second" else ROOT
        wheel = build_wheel(tmp_path / name / "dist", source)
        layer = trimtab_layer(wheel, tmp_path / name)
        image = oci.write_archive("amd64", [layer], tmp_path / name / "image.tar")
        digests.append((wheel.read_bytes(), layer.digest, layer.diff_id, image))
    assert digests[0] == digests[1]


def test_layer_is_normalised(tmp_path: Path) -> None:
    """Owners, times and all but the executable bit are dropped; links stay links; /tmp is for everyone."""
    files = tmp_path / "files"
    (files / "tmp").mkdir(parents=True)
    (files / "program").write_text("x")
    (files / "program").chmod(0o700)
    (files / "data").write_text("y")
    (files / "link").symlink_to("data")
    layer = pack(files, tmp_path / "layer.tar.gz")
    with tarfile.open(layer.file) as archive:
        found = [(each.name, each.mode, each.uid, each.mtime, each.linkname) for each in archive]
    assert [
        ("data", 0o644, 0, 0, ""), ("link", 0o777, 0, 0, "data"), ("program", 0o755, 0, 0, ""), ("tmp", 0o1777, 0, 0, "")
    ] == found  # fmt: skip


def test_a_changed_file_changes_the_digest(tmp_path: Path) -> None:
    """The digests are of the contents."""
    (tmp_path / "files").mkdir()
    layers = []
    for text in ("one", "two"):
        (tmp_path / "files" / "data").write_text(text)
        layers.append(pack(tmp_path / "files", tmp_path / "layer.tar.gz"))
    assert (layers[0].digest, layers[0].diff_id) != (layers[1].digest, layers[1].diff_id)


def test_wheel_with_files_elsewhere_is_refused(tmp_path: Path) -> None:
    """A wheel's data folder would be installed outside of its package, which nothing here needs."""
    with ZipFile(tmp_path / "odd-1-py3-none-any.whl", "w") as archive:
        archive.writestr("odd-1.data/scripts/odd", "")
    with pytest.raises(wheels.ImageError, match=r"odd-1-py3-none-any\.whl has files outside of its package"):
        wheels.unpack(tmp_path / "odd-1-py3-none-any.whl", tmp_path, lambda path: True)


def test_record_lists_what_was_unpacked() -> None:
    """Files that were left out are not in RECORD either."""
    record = b"a.py,sha256=x,1\na/tests/b.py,sha256=y,2\na-1.dist-info/RECORD,,\n"
    assert b"a.py,sha256=x,1\na-1.dist-info/RECORD,,\n" == wheels.shortened(record, {"a.py", "a-1.dist-info/RECORD"})


def test_image_is_dated_by_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """SOURCE_DATE_EPOCH dates it; a tree without git is of 1970, never of today."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert "2023-11-14T22:13:20Z" == oci.created()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    monkeypatch.setattr(oci, "git", lambda *arguments: "")
    assert ("1970-01-01T00:00:00Z", False) == (oci.created(), "revision" in json.dumps(oci.labels()))
