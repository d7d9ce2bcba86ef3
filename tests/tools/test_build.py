"""Built modules are named by a hash of their inputs."""

import shutil
from pathlib import Path

import pytest

from tools.controlplane import build


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The builder's inputs in a folder where they can be changed, and a cache of its own."""
    target = tmp_path / "inputs"
    shutil.copytree(build.HERE, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    kubernetes = build.Module("kubernetes", target, build.KUBERNETES.programs)
    companions = build.Module("companions", target / "companions", build.COMPANIONS.programs)
    for name, value in {
        "HERE": target,
        "KUBERNETES": kubernetes,
        "COMPANIONS": companions,
        "MODULES": (kubernetes, companions),
    }.items():
        monkeypatch.setattr(build, name, value)
    return target


@pytest.mark.parametrize(
    ("changed", "kubernetes", "companions"),
    [("companions/go.sum", False, True), ("go.sum", True, False), ("differential/world.go", True, False)],
)
def test_a_change_of_one_module_leaves_the_other_alone(
    copied: Path, changed: str, kubernetes: bool, companions: bool
) -> None:
    """Only the module that a file belongs to gets another folder, and the folder that points at both does too."""
    before = build.module_folder(build.KUBERNETES), build.module_folder(build.COMPANIONS), build.folder()
    (copied / changed).write_text((copied / changed).read_text() + "\n")
    after = build.module_folder(build.KUBERNETES), build.module_folder(build.COMPANIONS), build.folder()
    assert (kubernetes, companions, True) == tuple(old != new for old, new in zip(before, after, strict=True))


def test_what_is_built_is_only_pointed_at(copied: Path) -> None:
    """With both modules in the cache nothing is compiled, and the folder reaches into both."""
    for module, name in ((build.KUBERNETES, "etcd"), (build.COMPANIONS, "prometheus")):
        build.module_folder(module).mkdir(parents=True)
        (build.module_folder(module) / name).write_text(name)
    folder = build.build()
    assert ["etcd", "prometheus"] == [(folder / name).read_text() for name in ("etcd", "prometheus")]
    assert folder == build.build()


def test_a_folder_that_failed_half_way_is_not_there(tmp_path: Path) -> None:
    """A failure while a folder is filled leaves nothing under its name, and the next attempt starts afresh."""
    wanted = tmp_path / "wanted"

    def fails(target: Path) -> None:
        (target / "half").touch()
        raise build.Unavailable("no modules")

    with pytest.raises(build.Unavailable):
        build.create_atomically(wanted, fails)
    assert not wanted.exists()
    build.create_atomically(wanted, lambda target: (target / "whole").touch())
    assert ["whole"] == [path.name for path in wanted.iterdir()]
