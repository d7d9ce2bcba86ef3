"""The picture of the usage patterns is what they return, and shows each kind."""

import re
from xml.etree import ElementTree

import pytest

from tools.patterns import FILE, PATTERNS, render_patterns
from trimtab.sim.scenario_file.patterns import PATTERN_FIELDS

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_the_picture_is_what_the_patterns_return() -> None:
    """To a fifth of a pixel; `python -m tools.patterns` redraws it."""
    now, committed = render_patterns(), FILE.read_text()
    assert NUMBER.split(now) == NUMBER.split(committed)
    assert [float(each) for each in NUMBER.findall(now)] == pytest.approx(
        [float(each) for each in NUMBER.findall(committed)], abs=0.2
    )
    assert "{http://www.w3.org/2000/svg}svg" == ElementTree.fromstring(now).tag


def test_every_kind_is_shown() -> None:
    """Each pattern that a file may name has a panel."""
    assert {*PATTERN_FIELDS} - {"noise"} == {title.partition(":")[0] for title in PATTERNS}
