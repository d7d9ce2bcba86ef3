"""The wheel, installed into an empty environment with the locked dependencies, as a user of pip does."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.image.built_image import ROOT
from tests.image.test_layers import build_wheel
from tools.image.build import native_architecture
from tools.image.folders import PYTHON, ImageError, version
from tools.image.wheels import locked_wheels

pytestmark = pytest.mark.timeout(300)  # the first run downloads the wheels

FILES = """
from importlib.resources import files
import trimtab
for folder in ("manifests", "config/templates"):
    for file in sorted(file.name for file in (files("trimtab") / folder).iterdir()):
        print(folder, file)
"""

MANIFESTS = """
from trimtab.apps.deploy.kustomization import manifests_folder, read_manifests
folder = manifests_folder()
print(folder.name)
for item in read_manifests(folder, ("labeller", "monitoring")):
    print(item["kind"], item["metadata"]["name"])
"""


def pip(python: Path, *arguments: str) -> None:
    """Install into another environment, which needs no pip of its own."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-compile"]
    subprocess.run([*command, *arguments], check=True, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and nothing but the locked set."""
    if sys.version_info[:2] != PYTHON:
        pytest.skip("the downloaded wheels are those of the image's Python")
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder / "dist")
    try:
        locked = locked_wheels(native_architecture())
    except ImageError as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv/bin/python"
    pip(
        python,
        "--find-links",
        str(locked[0].parent),
        "--require-hashes",
        "--requirement",
        str(ROOT / "requirements.lock"),
    )
    pip(python, "--no-deps", str(wheel))
    return python.parent


def run(environment: Path, *command: str) -> str:
    """What a command prints, without our source tree on the path."""
    clean = {"PATH": "/usr/bin", "LANG": "C.UTF-8"}
    program = [str(environment / command[0]), *command[1:]]
    return subprocess.run(program, capture_output=True, text=True, env=clean, cwd=environment, check=True).stdout


def test_version(environment: Path) -> None:
    """The entry point exists, and has the project's version."""
    assert f"trimtab, version {version()}\n" == run(environment, "trimtab", "--version")


def test_demo(environment: Path) -> None:
    """The demo needs nothing but the wheel and its dependencies."""
    assert "pods bound; on the tainted node: none" in run(environment, "trimtab", "demo", "--plain")


def test_templates_and_manifests_are_inside(environment: Path) -> None:
    """All that is in deploy/ but the chart, and every template, under their own names."""
    manifests = sorted(path.name for path in (ROOT / "deploy").iterdir() if path.name != "chart")
    templates = sorted(
        path.name for path in (ROOT / "src/trimtab/config/templates").iterdir() if path.suffix == ".yaml"
    )
    found = run(environment, "python", "-c", FILES).splitlines()
    assert [f"manifests {name}" for name in manifests] == [line for line in found if line.startswith("manifests")]
    assert set(templates) <= {line.partition(" ")[2] for line in found if line.startswith("config")}


def test_shipped_manifests_can_be_read(environment: Path) -> None:
    """`trimtab deploy` of an installed wheel finds the manifests in the package, also those of components."""
    shown = run(environment, "python", "-c", MANIFESTS).splitlines()
    assert ("manifests", True, True) == (
        shown[0],
        "Deployment trimtab" in shown,
        "Deployment trimtab-labeller" in shown,
    )


def test_requirements_agree_with_the_lock(environment: Path) -> None:
    """pip finds no conflict between the wheel's own requirements and what the lock file installed."""
    command = [sys.executable, "-m", "pip", "--python", str(environment / "python"), "check"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "No broken requirements found.\n") == (ended.returncode, ended.stdout)
