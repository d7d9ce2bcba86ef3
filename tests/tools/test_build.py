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
    operations = build.Module("operations", target / "operations", build.OPERATIONS.programs)
    for name, value in {
        "HERE": target,
        "KUBERNETES": kubernetes,
        "COMPANIONS": companions,
        "OPERATIONS": operations,
        "MODULES": (kubernetes, companions, operations),
    }.items():
        monkeypatch.setattr(build, name, value)
    return target


@pytest.mark.parametrize(
    ("changed", "rebuilt"),
    [
        ("go.sum", "kubernetes"),
        ("differential/world.go", "kubernetes"),
        ("companions/go.sum", "companions"),
        ("operations/go.sum", "operations"),
    ],
)
def test_a_change_of_one_module_does_not_rebuild_the_others(copied: Path, changed: str, rebuilt: str) -> None:
    """Only the changed module gets another folder, and so does the folder that links all of them."""
    before, folder = [build.module_folder(module) for module in build.MODULES], build.folder()
    (copied / changed).write_text((copied / changed).read_text() + "\n")
    after = [build.module_folder(module) for module in build.MODULES]
    pairs = zip(build.MODULES, before, after, strict=True)
    assert [rebuilt] == [module.name for module, old, new in pairs if old != new]
    assert folder != build.folder()


def test_built_modules_are_only_linked(copied: Path) -> None:
    """With all modules in the cache nothing is compiled, and the folder has links to each."""
    for module, name in zip(build.MODULES, ("etcd", "prometheus", "helm"), strict=True):
        build.module_folder(module).mkdir(parents=True)
        (build.module_folder(module) / name).write_text(name)
    folder = build.build()
    assert ["etcd", "prometheus", "helm"] == [(folder / name).read_text() for name in ("etcd", "prometheus", "helm")]
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
