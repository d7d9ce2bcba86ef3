"""`trimtab version` prints what a bug report needs, and Trimtab runs without uvloop."""

import json
import logging
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from trimtab.apps import event_loop
from trimtab.cli import COMMANDS, main
from trimtab.cli.version import KUBERNETES

ROOT = Path(__file__).parents[2]
# An import of uvloop fails as if it were not installed, and find_spec does not see it.
HIDE_UVLOOP = """
import sys
from importlib.machinery import PathFinder
class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "uvloop" else super().find_spec(name, path, target)
sys.meta_path = [Hidden if finder is PathFinder else finder for finder in sys.meta_path]
"""


def without_uvloop(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that has no uvloop."""
    return subprocess.run([sys.executable, "-c", HIDE_UVLOOP + code], capture_output=True, text=True, check=False)


def test_versions_as_text() -> None:
    """One line per component, the package's own version first."""
    lines = CliRunner().invoke(main, ["version"]).output.splitlines()
    assert f"trimtab:    {version('trimtab')}" == lines[0]
    assert ["trimtab", "kubernetes", "python", "platform", "uvloop"] == [line.partition(":")[0] for line in lines]


def test_versions_as_json() -> None:
    """The same for programs."""
    found = json.loads(CliRunner().invoke(main, ["version", "--output", "json"]).output)
    assert (version("trimtab"), version("uvloop")) == (found["trimtab"], found["uvloop"])


def test_kubernetes_version_is_that_of_the_control_plane() -> None:
    """The version that is claimed is the version that the tests build."""
    built = re.search(r"k8s\.io/kubernetes v(\d+\.\d+)\.", (ROOT / "tools/controlplane/go.mod").read_text())
    assert built is not None
    assert KUBERNETES == built[1]


def test_every_command_imports_without_uvloop() -> None:
    """On a machine without uvloop the whole command line still imports."""
    imports = "".join(f"import trimtab.cli.{name}\n" for name in COMMANDS)
    ended = without_uvloop(f"{imports}import trimtab.apps.process\nassert 'uvloop' not in sys.modules")
    assert (0, "") == (ended.returncode, ended.stderr)


def test_version_says_that_uvloop_is_missing() -> None:
    """`trimtab version` shows on which loop a process would run."""
    ended = without_uvloop("from trimtab.cli import main; main(['version'])")
    assert "uvloop:     no" == ended.stdout.splitlines()[-1]


def test_runs_on_asyncio_without_uvloop(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The result is the same, and one line of the log says so."""

    async def answer() -> int:
        return 7

    monkeypatch.setattr(event_loop, "has_uvloop", lambda: False)
    with caplog.at_level(logging.INFO):
        assert 7 == event_loop.run_event_loop(answer())
    assert ["uvloop is not installed, running on asyncio: slower, otherwise the same"] == caplog.messages
