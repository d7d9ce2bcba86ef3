"""Built modules are named by a hash of their inputs."""

import shutil
from pathlib import Path

import pytest

from tools.controlplane import build


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A modifiable copy of the builder's inputs, and a separate cache."""
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
def test_a_change_of_one_module_does_not_rebuild_the_other(
    copied: Path, changed: str, kubernetes: bool, companions: bool
) -> None:
    """Only the changed module gets another folder, and so does the folder that links both."""
    before = build.module_folder(build.KUBERNETES), build.module_folder(build.COMPANIONS), build.folder()
    (copied / changed).write_text((copied / changed).read_text() + "\n")
    after = build.module_folder(build.KUBERNETES), build.module_folder(build.COMPANIONS), build.folder()
    assert (kubernetes, companions, True) == tuple(old != new for old, new in zip(before, after, strict=True))


def test_built_modules_are_only_linked(copied: Path) -> None:
    """With both modules in the cache nothing is compiled, and the folder has links to both."""
    for module, name in ((build.KUBERNETES, "etcd"), (build.COMPANIONS, "prometheus")):
        build.module_folder(module).mkdir(parents=True)
        (build.module_folder(module) / name).write_text(name)
    folder = build.build()
    assert ["etcd", "prometheus"] == [(folder / name).read_text() for name in ("etcd", "prometheus")]
    assert folder == build.build()


def test_a_failed_build_leaves_no_folder(tmp_path: Path) -> None:
    """And the next attempt starts over."""
    wanted = tmp_path / "wanted"

    def fails(target: Path) -> None:
        (target / "half").touch()
        raise build.Unavailable("no modules")

    with pytest.raises(build.Unavailable):
        build.create_atomically(wanted, fails)
    assert not wanted.exists()
    build.create_atomically(wanted, lambda target: (target / "whole").touch())
    assert ["whole"] == [path.name for path in wanted.iterdir()]
