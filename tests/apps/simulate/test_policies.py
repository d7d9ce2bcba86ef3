"""Policies: every shipped one runs live too, names and files are found, and samples are trusted for long enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.apps.simulate.policies import (
    find_policies,
    find_policy,
    named_policies,
    notes_on,
    read_configuration,
    settings_of,
)
from trimtab.cli.config import TEMPLATES
from trimtab.config.diagnostics import ConfigError
from trimtab.config.kube_scheduler import default_configuration
from trimtab.core.rescheduling.settings import Mode
from trimtab.sim.scenario import MetricsPipeline

LOAD = """
apiVersion: trimtab.dev/v1alpha1
kind: TrimtabConfiguration
load: {%s}
"""


@pytest.mark.parametrize("name", named_policies())
def test_every_named_policy_is_a_configuration(name: str) -> None:
    """It parses, has a profile, and its first line says what it is."""
    policy = find_policy(name)
    assert 1 == len(read_configuration(policy).settings.profiles)
    assert named_policies()[name].startswith(f"# {name}: ")


@pytest.mark.parametrize("name", ["PeakRisk", "Dynamic", "LeastAllocated"])
def test_a_policy_ranks_alone_what_the_default_filters_leave(name: str) -> None:
    """One score, and the filters of the default profile."""
    profile = settings_of(find_policy(name), 30.0).profiles[0]
    default = default_configuration().settings.profiles[0]
    assert 1 == len(profile.scores)
    assert [each.name for each in default.filters] == [each.name for each in profile.filters]


def test_stock_is_the_default_profile() -> None:
    """The policy called stock has kube-scheduler's scores."""
    stock, default = settings_of(find_policy("stock"), 30.0).profiles[0], default_configuration().settings.profiles[0]
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
    found = settings_of(find_policy(str(path)), interval).load
    assert expected == (found.fresh, found.stale)


def test_a_policy_that_ignores_samples_is_noted() -> None:
    """A template's staleAfter of five minutes suffices for a sample every five minutes, but not if it is late."""
    policy = find_policy("default")
    assert [] == [*notes_on(policy, MetricsPipeline(interval=300.0))]
    (note,) = notes_on(policy, MetricsPipeline(interval=300.0, delay=60.0))
    assert "default ignores samples from an age of 5m on, and the scenario's get as old as 6m" in note


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
    found = settings_of(find_policy(str(file)), 30.0).rescheduling
    assert found is not None and Mode.AUTO is found.mode


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_plans_nothing_in_a_simulation(name: str) -> None:
    """It only observes, and its plans would be lost: they are not made."""
    policy = find_policy(name)
    observing = read_configuration(policy).settings.rescheduling
    assert observing is not None and Mode.OBSERVE is observing.mode
    assert settings_of(policy, 30.0).rescheduling is None
