"""Finds scenarios: those that are shipped, by their names, and files, by their paths."""

from __future__ import annotations

from collections.abc import Collection
from importlib import resources
from pathlib import Path

from trimtab.config.diagnostics import ConfigError, Problem, did_you_mean
from trimtab.sim.scenario import Scenario
from trimtab.sim.scenario_file import parse_scenario, read_scenario

SUFFIXES = (".yaml", ".yml")
_FOLDER = resources.files("trimtab.sim") / "scenarios"


def scenario_names() -> tuple[str, ...]:
    """The names of the shipped scenarios, sorted."""
    return tuple(sorted(each.name.removesuffix(".yaml") for each in _FOLDER.iterdir() if each.name.endswith(".yaml")))


def scenario_text(name: str) -> str:
    """The file of a shipped scenario; its first line is a comment that says what it is about."""
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def shipped(name: str) -> Scenario:
    """The shipped scenario of this name."""
    return parse_scenario(scenario_text(name), f"{name}.yaml", Path())


def is_path(given: str, names: Collection[str]) -> bool:
    """Whether it is a path, and none of these names: it has a slash or an ending, or is that of a file that exists."""
    path = Path(given)
    return given not in names and ("/" in given or path.suffix in SUFFIXES or path.is_file())


def find_scenario(name: str, seed: int = 0) -> Scenario:
    """The shipped scenario of this name, or that in a file; raises ConfigError with all problems."""
    names = scenario_names()
    if name in names:
        return shipped(name)
    if is_path(name, names):
        return read_scenario(Path(name), seed)
    message = f"there is no such scenario{did_you_mean(name, names)}: name a file, or one of {', '.join(names)}"
    raise ConfigError([Problem(name[:200], 0, 0, "", message)])
