"""Plugins of other packages are found, and errors name the package."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.config.config_files import TRIMTAB_HEAD
from trimtab.apps.plugins import (
    ENTRY_POINT_GROUP,
    FORECASTER_GROUP,
    STRATEGY_GROUP,
    PluginError,
    installed_forecasters,
    installed_plugins,
    installed_strategies,
)
from trimtab.apps.simulate.policies import find_policy, read_configuration
from trimtab.cli import main
from trimtab.core.load.snapshots import SnapshotTimes
from trimtab.core.rescheduling.forecast import Snapshots

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "quiet_nodes"
PAGE = ROOT / "docs" / "plugins.md"
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
BUILD_TOOLS = ROOT / ".venv" / "build-tools"

GOOD = """\
from dataclasses import dataclass
from typing import ClassVar
from trimtab.plugin import Change

@dataclass(frozen=True)
class Late:
    name: ClassVar[str] = "Late"
    requeue_on: ClassVar[Change] = Change.NOTHING
    seconds: int = 5

    def pre_enqueue(self, pod):
        return None
"""

STRATEGY = """\
from dataclasses import dataclass
from typing import ClassVar

@dataclass(frozen=True)
class Late:
    name: ClassVar[str] = "Late"

    def suggest(self, context):
        return ()
"""

Offer = Callable[..., None]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Installs the metadata of a package with one plugin."""

    def offered(
        source: str,
        name: str = "Late",
        target: str = "late_plugin:Late",
        package: str = "late",
        group: str = ENTRY_POINT_GROUP,
    ) -> None:
        (tmp_path / "late_plugin.py").write_text(source)
        meta = tmp_path / f"{package}-1.2.dist-info"
        meta.mkdir()
        (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (meta / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "late_plugin", raising=False)
    yield offered
    sys.modules.pop("late_plugin", None)


def test_nothing_installed() -> None:
    """Without other packages there are no plugins."""
    assert {} == installed_plugins([])


def test_found(offer: Offer) -> None:
    """A package's plugin is found by its entry point."""
    offer(GOOD)
    assert ["Late"] == list(installed_plugins())


def test_arguments_by_fields(offer: Offer, tmp_path: Path) -> None:
    """A file may configure it; its arguments are checked by the fields of its dataclass."""
    offer(GOOD)
    file = tmp_path / "scheduler.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
    body = "- {plugins: {preEnqueue: {enabled: [{name: Late}]}}, pluginConfig: [{name: Late, args: {seconds: %s}}]}\n"
    file.write_text(head + body % "7")
    assert "seconds: 7" in CliRunner().invoke(main, ["config", "show", str(file)]).stdout
    file.write_text(head + body % "soon")
    refused = CliRunner().invoke(main, ["config", "check", str(file)])
    assert 2 == refused.exit_code
    assert "pluginConfig[0].args.seconds: expected an integer, got the string 'soon'" in refused.stderr


@pytest.mark.parametrize(
    ("source", "name", "reason"),
    [
        ("import nowhere", "Late", "it cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("1 +", "Late", "it cannot be imported: SyntaxError"),
        ("x = 1", "Late", "it cannot be imported: AttributeError"),
        ("Late = 5", "Late", "it is not a dataclass"),
        ("class Late: name = 'Late'", "Late", "it is not a dataclass"),
        (GOOD, "Later", "its class is named 'Late'"),
        (GOOD.replace("requeue_on", "other_name"), "Late", "its class has no requeue_on"),
        (GOOD.replace(": int = 5", ": int"), "Late", "it cannot be created with default arguments"),
        (GOOD.replace("def pre_enqueue", "def pre_enqeue"), "Late", "it has none of the methods of a plugin"),
        (GOOD, "NodeName", "the name belongs to a built-in plugin"),
        (GOOD, "DefaultBinder", "the name belongs to a built-in plugin"),
    ],
)
def test_unusable(offer: Offer, source: str, name: str, reason: str) -> None:
    """The error has the package, the reason and the remedy."""
    offer(source, name)
    with pytest.raises(PluginError) as caught:
        installed_plugins()
    message = str(caught.value)
    assert message.startswith(f"the plugin {name} (late_plugin:Late) of the package late 1.2 cannot be used: {reason}")
    assert message.endswith(". Fix that package, or uninstall it")


def test_two_packages(offer: Offer) -> None:
    """Two packages may not have plugins of one name."""
    offer(GOOD)
    offer(GOOD, package="tardy")
    with pytest.raises(PluginError, match=r"the package (late|tardy) 1.2 has a plugin of that name, too"):
        installed_plugins()


def test_strategies(offer: Offer) -> None:
    """Strategies of the rescheduler have a group of their own."""
    offer(STRATEGY, group=STRATEGY_GROUP)
    assert (["Late"], []) == (list(installed_strategies()), list(installed_plugins()))


@pytest.mark.parametrize(
    ("source", "name", "reason"),
    [
        (STRATEGY.replace("suggest", "sugest"), "Late", "it has no method `suggest`"),
        (STRATEGY, "LoadBalancing", "the name belongs to a built-in strategy"),
        (STRATEGY, "KoordinatorLowNodeLoad", "the name belongs to a built-in strategy"),
        (STRATEGY.replace("frozen=True", "kw_only=1 / 0"), "Late", "it cannot be imported: ZeroDivisionError"),
    ],
)
def test_unusable_strategies(offer: Offer, source: str, name: str, reason: str) -> None:
    """The error says that it is a strategy."""
    offer(source, name, group=STRATEGY_GROUP)
    with pytest.raises(PluginError, match=f"the strategy {name} .* cannot be used: {reason}"):
        installed_strategies()


def test_a_file_may_name_the_strategy_of_the_page(offer: Offer, tmp_path: Path) -> None:
    """The example for authors of strategies works: commands and policies know it, and check its arguments."""
    source = next(each for each in CODE.findall(PAGE.read_text()) if "def suggest" in each)
    offer(source, "ReclaimedNodes", "late_plugin:ReclaimedNodes", group=STRATEGY_GROUP)
    file = tmp_path / "policy.yaml"
    strategies = "rescheduling: {strategies: [{name: ReclaimedNodes, args: {label: %s}}]}\n"
    file.write_text(TRIMTAB_HEAD + strategies % "spot/interrupted")
    shown = CliRunner().invoke(main, ["config", "show", str(file)])
    assert "label: spot/interrupted" in shown.stdout, shown.output
    (found,) = read_configuration(find_policy(str(file))).trimtab.rescheduling.strategies  # type: ignore[union-attr]
    assert "ReclaimedNodes" == found.name
    file.write_text(TRIMTAB_HEAD + strategies % "[]")
    refused = CliRunner().invoke(main, ["config", "check", str(file)])
    assert "strategies[0].args.label: expected a string, got a list" in refused.stderr, refused.output


def test_told_by_the_command(offer: Offer, tmp_path: Path) -> None:
    """The command prints one sentence and exits with 2."""
    offer("import nowhere")
    (tmp_path / "any.yaml").write_text("")
    result = CliRunner().invoke(main, ["config", "check", str(tmp_path / "any.yaml")])
    assert 2 == result.exit_code
    assert result.stderr.startswith(
        "trimtab: the plugin Late (late_plugin:Late) of the package late 1.2 cannot be used"
    )


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which the example package is installed, as pip installs it."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--disable-pip-version-check", "--target", str(target), str(EXAMPLE)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(BUILD_TOOLS)})
    return {**os.environ, "PYTHONPATH": str(target)}


def test_the_example_is_accepted(example: dict[str, str]) -> None:
    """With the example package installed, `trimtab config check` accepts the file that names its plugin."""
    command = [sys.executable, "-m", "trimtab", "config", "check", str(EXAMPLE / "scheduler.yaml")]
    result = subprocess.run(command, env=example, capture_output=True, text=True, check=False)
    assert (0, "") == (result.returncode, result.stderr)
    assert "valid; profiles: quiet" in result.stdout


def test_the_example_is_unknown_without_its_package() -> None:
    """Without the package the same file is rejected with the plugin's name."""
    result = CliRunner().invoke(main, ["config", "check", str(EXAMPLE / "scheduler.yaml")])
    assert 2 == result.exit_code
    assert "unknown plugin 'QuietNodes'" in result.stderr


def test_the_example_keeps_the_laws(example: dict[str, str], tmp_path: Path) -> None:
    """The example's own tests, which run the laws, pass on the installed package."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests")]
    result = subprocess.run(command, env=example, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 0 == result.returncode, result.stdout + result.stderr
    assert "passed" in result.stdout


def test_the_page_shows_the_example() -> None:
    """The page for authors shows the example as it is."""
    assert (EXAMPLE / "quiet_nodes.py").read_text() in PAGE.read_text()


def test_the_example_is_short() -> None:
    """A filter and a score take fewer than 40 lines."""
    assert 40 > len((EXAMPLE / "quiet_nodes.py").read_text().splitlines())


def test_forecasters(offer: Offer, tmp_path: Path) -> None:
    """The example for authors works, beside the one of our own that needs an extra."""
    source = next(each for each in CODE.findall(PAGE.read_text()) if "def forecast" in each)
    offer(source, "payday", "late_plugin:Payday", group=FORECASTER_GROUP)
    assert ["learned", "payday"] == list(installed_forecasters())
    file = tmp_path / "policy.yaml"
    file.write_text(f"{TRIMTAB_HEAD}rescheduling: {{forecast: payday}}\n")
    settings = read_configuration(find_policy(str(file))).settings.rescheduling
    assert settings is not None and "payday" == settings.forecaster.name
    hours = np.arange(48) + 1000
    given = Snapshots(SnapshotTimes(hours[-1:] * 12, hours[::-1]), {}, np.ones(49, dtype=np.float32))
    weights = settings.forecaster.forecast(given).weights
    assert 49.0 == pytest.approx(weights.sum()) and len(np.unique(weights)) > 1


@pytest.mark.parametrize(
    ("source", "name", "reason"),
    [
        (STRATEGY, "Late", "it has no method `forecast`"),
        (STRATEGY.replace("suggest", "forecast"), "learned", "the name belongs to a built-in forecaster"),
        (STRATEGY.replace("suggest", "forecast"), "snapshots", "the name belongs to a built-in forecaster"),
    ],
)
def test_unusable_forecasters(offer: Offer, source: str, name: str, reason: str) -> None:
    """The error says that it is a forecaster."""
    offer(source, name, group=FORECASTER_GROUP)
    with pytest.raises(PluginError, match=f"the forecaster {name} .* cannot be used: {reason}"):
        installed_forecasters()


def test_a_forecaster_whose_extra_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a file that asks for it is refused, with the field and the remedy."""
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    file = tmp_path / "trimtab.yaml"
    file.write_text(f"{TRIMTAB_HEAD}rescheduling: {{forecast: learned}}\n")
    refused = CliRunner().invoke(main, ["config", "check", str(file)])
    assert 2 == refused.exit_code
    assert (
        "rescheduling.forecast: the package lightgbm is not installed: run `pip install 'trimtab[learned]'`"
        in refused.stderr
    )
    file.write_text(f"{TRIMTAB_HEAD}rescheduling: {{forecast: lerned}}\n")
    assert "'lerned' is not one of learned, seasonal, snapshots (did you mean learned?)" in (
        CliRunner().invoke(main, ["config", "check", str(file)]).stderr
    )
    file.write_text(f"{TRIMTAB_HEAD}rescheduling: {{forecast: seasonal}}\n")
    assert 0 == CliRunner().invoke(main, ["config", "check", str(file)]).exit_code
