"""Policies: every shipped one runs live too, names and files are found, and samples are trusted for long enough."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests import build
from tests.config.descheduler.policies import LOW_NODE_LOAD, LOW_NODE_UTILIZATION, koordinator, policy
from trimtab.apps.simulate.policies import (
    find_policies,
    find_policy,
    named_policies,
    notes_on,
    oldest_sample,
    read_configuration,
    settings_of,
)
from trimtab.cli.config import TEMPLATES
from trimtab.config.diagnostics import ConfigError
from trimtab.config.kube_scheduler import default_configuration
from trimtab.core.rescheduling.rivals.descheduler_low_node_utilization import DeschedulerLowNodeUtilization
from trimtab.core.rescheduling.rivals.koordinator_low_node_load import KoordinatorLowNodeLoad
from trimtab.core.rescheduling.settings import Mode
from trimtab.sim.scenario import MetricsPipeline, Scenario, SimulatedNode
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage_patterns import Steady

LOAD = """
apiVersion: trimtab.dev/v1alpha1
kind: TrimtabConfiguration
load: {%s}
"""


def measured(interval: float, delay: float = 0.0, step: float = 1.0) -> Scenario:
    return Scenario("", 3600.0, (), step=step, metrics=MetricsPipeline(interval, delay))


@pytest.mark.parametrize("name", named_policies())
def test_every_named_policy_is_a_configuration(name: str) -> None:
    """It parses, has a profile, and its first line says what it is."""
    policy = find_policy(name)
    assert 1 == len(read_configuration(policy).settings.profiles)
    assert named_policies()[name].startswith(f"# {name}: ")


@pytest.mark.parametrize("name", ["PeakRisk", "Dynamic", "LeastAllocated"])
def test_a_policy_ranks_alone_what_the_default_filters_leave(name: str) -> None:
    """One score, and the filters of the default profile."""
    profile = settings_of(find_policy(name), measured(30.0)).profiles[0]
    default = default_configuration().settings.profiles[0]
    assert 1 == len(profile.scores)
    assert [each.name for each in default.filters] == [each.name for each in profile.filters]


@pytest.mark.parametrize("name", [name for name, text in named_policies().items() if "\n  mode: auto" in text])
def test_a_policy_that_moves_pods_carries_moves_out(name: str) -> None:
    """It is named after the policy that places its pods, and places them in the same way."""
    settings, placing = (settings_of(find_policy(each), measured(30.0)) for each in (name, name.partition("-")[0]))
    assert settings.rescheduling is not None and Mode.AUTO is settings.rescheduling.mode
    assert [repr(each) for each in placing.profiles] == [repr(each) for each in settings.profiles]


def test_stock_is_the_default_profile() -> None:
    """The policy called stock has kube-scheduler's scores."""
    stock = settings_of(find_policy("stock"), measured(30.0)).profiles[0]
    default = default_configuration().settings.profiles[0]
    assert [(each.name, each.weight) for each in default.scores] == [(each.name, each.weight) for each in stock.scores]


@pytest.mark.parametrize(
    ("load", "interval", "expected"),
    [
        ("", 30.0, (120.0, 300.0)),
        ("", 300.0, (600.0, 900.0)),
        ("window: 1h", 300.0, (600.0, 900.0)),
        ("freshFor: 1m, staleAfter: 10m", 300.0, (60.0, 600.0)),
        ("freshFor: 5m", 30.0, (300.0, 300.0)),
        ("staleAfter: 2m", 300.0, (120.0, 120.0)),
    ],
)
def test_samples_are_trusted_for_some_intervals(
    load: str, interval: float, expected: tuple[float, float], tmp_path: Path
) -> None:
    """Two and three of them, unless the file says for how long; a field that it has wins."""
    path = tmp_path / "policy.yaml"
    path.write_text(LOAD % load)
    found = settings_of(find_policy(str(path)), measured(interval)).load
    assert expected == (found.fresh, found.stale)


def test_a_policy_that_ignores_samples_is_noted() -> None:
    """A template's staleAfter of five minutes suffices for a sample every five minutes, but not if it is late."""
    policy = find_policy("default")
    assert [] == [*notes_on(policy, measured(300.0))]
    (note,) = notes_on(policy, measured(300.0, delay=60.0))
    assert "default ignores samples from an age of 5m on, and the scenario's get as old as 6m" in note


@pytest.mark.parametrize(
    ("step", "interval", "delay", "oldest"),
    [
        (1.0, 30.0, 0.0, 30.0),
        (900.0, 30.0, 0.0, 900.0),
        (60.0, 90.0, 0.0, 120.0),  # of the steps that end after 60, 120 and 180 s, the second is never scraped
        (300.0, 200.0, 60.0, 460.0),
    ],
)
def test_how_old_a_sample_gets(step: float, interval: float, delay: float, oldest: float) -> None:
    """A scrape brings the last whole step, so long steps make old samples; these are trusted nevertheless."""
    scenario = measured(interval, delay, step)
    assert oldest == oldest_sample(scenario)
    assert settings_of(find_policy("PeakRisk"), scenario).load.fresh >= 2 * oldest


def test_load_is_seen_between_long_steps() -> None:
    """The newest sample of a scenario with steps of a quarter of an hour is always trusted."""
    node = SimulatedNode(build.node("n-1"), system_cpu=Steady(1000.0))
    scenario = Scenario("long", 3600.0, (node,), step=900.0)
    simulation = Simulation(scenario, settings_of(find_policy("PeakRisk"), scenario), seed=1)
    for at in range(960, 3600, 60):
        simulation.run_until(at)
        assert 1000.0 == simulation.engine.cluster.view.load.latest("cpu")[0], at


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """The second is called by its path; the same file twice is refused."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tuned.yaml").write_text(LOAD % "window: 1h")
    paths = [str(tmp_path / folder / "tuned.yaml") for folder in ("one", "two")]
    assert ["tuned", paths[1]] == [policy.name for policy in find_policies(paths)]
    with pytest.raises(ConfigError, match="is given twice"):
        find_policies(["stock", "stock"])


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    """A misspelt name with the nearest, a missing file, and an invalid one with its place."""
    invalid = tmp_path / "invalid.yaml"
    invalid.write_text(LOAD % "window: 2d")
    with pytest.raises(ConfigError) as error:
        find_policies(["PeekRisk", str(tmp_path / "none.yaml"), str(invalid)])
    text = str(error.value)
    assert "did you mean PeakRisk?" in text
    assert "none.yaml: cannot be read" in text
    assert "invalid.yaml:4:" in text


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    """The same text is the same policy wherever it is, and another text is another."""
    paths = [tmp_path / name for name in ("a.yaml", "b.yaml", "c.yaml")]
    for path, window in zip(paths, ("1h", "1h", "30m"), strict=True):
        path.write_text(LOAD % f"window: {window}")
    first, second, third = (find_policy(str(path)).digest for path in paths)
    assert first == second != third


def test_a_policy_may_move_pods(tmp_path: Path) -> None:
    """In a simulation `auto` is allowed."""
    file = tmp_path / "moving.yaml"
    file.write_text("apiVersion: trimtab.dev/v1alpha1\nkind: TrimtabConfiguration\nrescheduling: {mode: auto}\n")
    found = settings_of(find_policy(str(file)), measured(30.0)).rescheduling
    assert found is not None and Mode.AUTO is found.mode


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_plans_nothing_in_a_simulation(name: str) -> None:
    """It only observes, and its plans would be lost: they are not made."""
    policy = find_policy(name)
    observing = read_configuration(policy).settings.rescheduling
    assert observing is not None and Mode.OBSERVE is observing.mode
    assert settings_of(policy, measured(30.0)).rescheduling is None


IN_CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: descheduler-policy}
data:
  policy.yaml: |
"""


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("text", "rival"),
    [
        (policy(LowNodeUtilization=LOW_NODE_UTILIZATION), DeschedulerLowNodeUtilization),
        (koordinator(LowNodeLoad=LOW_NODE_LOAD), KoordinatorLowNodeLoad),
    ],
)
def test_the_policy_of_a_descheduler(text: str, rival: type, wrapped: bool, tmp_path: Path) -> None:
    """As it stands, also in its ConfigMap: the rival is carried out, and the stock profile places the pods."""
    file = tmp_path / "theirs.yaml"
    file.write_text(IN_CONFIG_MAP + indent(text, "    ") if wrapped else text)
    found = find_policy(str(file))
    settings = settings_of(found, measured(30.0))
    assert settings.rescheduling is not None and settings.rescheduling.mode is Mode.AUTO
    assert [rival] == [type(each) for each in settings.rescheduling.rivals]
    default = default_configuration().settings.profiles
    assert [repr(each.scores) for each in default] == [repr(each.scores) for each in settings.profiles]
    assert [] == [*notes_on(found, measured(30.0))]


def test_what_is_not_run_of_the_policy_of_a_descheduler(tmp_path: Path) -> None:
    """A note names it; and what the descheduler would refuse is an error with its place."""
    file = tmp_path / "theirs.yaml"
    file.write_text(policy(LowNodeUtilization=LOW_NODE_UTILIZATION, RemoveDuplicates="{}"))
    (note,) = notes_on(find_policy(str(file)), measured(30.0))
    assert "RemoveDuplicates is not run" in note
    file.write_text(policy(LowNodeUtilization="{thresholds: {cpu: 120}}"))
    with pytest.raises(ConfigError, match=r"theirs\.yaml:\d+:\d+"):
        find_policy(str(file))
