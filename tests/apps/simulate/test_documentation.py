"""docs/simulator.md: measures, fields of the results, flags and exit codes are those of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.apps.simulate.small_scenario import small_scenario
from trimtab.apps.simulate.policies import find_policies
from trimtab.apps.simulate.results import summarise_results, to_json
from trimtab.cli import simulate
from trimtab.sim.measures import MEASURES

PAGE = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text()


def test_every_measure_is_documented() -> None:
    """In the order of the code, with its unit and its words."""
    expected = [f"| `{each.name}` | {each.unit} | {each.text} |" for each in MEASURES]
    start = PAGE.index("| measure | unit |")
    found = PAGE[start:].split("\n\n")[0].splitlines()[2:]
    assert expected == found


def test_every_field_of_the_results_is_documented() -> None:
    """And no other."""
    results, _ = summarise_results("", {1: small_scenario()}, find_policies(["stock"]), [])
    table = PAGE[PAGE.index("| field | content |") :].split("\n\n")[0]
    documented = [name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert [*json.loads(to_json(results))] == documented


def test_every_flag_is_documented() -> None:
    """By its name, except for --list and --help, which are in the text."""
    flags = {name for param in simulate.command.params for name in param.opts if name.startswith("--")}
    table = PAGE[PAGE.index("| flag |") :].split("\n\n")[0]
    assert flags - {"--list"} == {name for name in re.findall(r"--[a-z-]+", table) if name != "---"}
    assert "--list" in PAGE


def test_every_exit_code_is_documented() -> None:
    """As the command's own help has them."""
    codes = [0, simulate.FAILED, simulate.BAD_INPUT, simulate.VIOLATED, simulate.INTERRUPTED]
    table = PAGE[PAGE.index("| exit code |") :].split("\n\n")[0]
    assert codes == [int(line.split("|")[1]) for line in table.splitlines()[2:]]


def test_the_picture_is_small() -> None:
    """At most 150 kB."""
    (picture,) = re.findall(r"\((img/[^)]*)\)", PAGE)
    assert (Path(__file__).parents[3] / "docs" / picture).stat().st_size <= 150_000
