"""The score charts are what the plugins return, complete, and valid SVG."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools import demo_picture, patterns
from tools.curves import DRAWINGS, FOLDER, chart
from tools.plot import Chart, Line, render_svg
from trimtab.config.registry import IN_TREE
from trimtab.core.model.change import Change

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
PAGE = Path(FOLDER).parent / "load.md"
MEASURED = ("benchmark-", "peak-risk-calibration")  # by `bench/`, from traces


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_chart_is_what_its_plugin_returns(name: str) -> None:
    """To a fifth of a pixel, as libraries may round differently; `python -m tools.curves` redraws it."""
    now, committed = render_svg(chart(DRAWINGS[name])), (FOLDER / f"{name}.svg").read_text()
    assert NUMBER.split(now) == NUMBER.split(committed)
    assert [float(each) for each in NUMBER.findall(now)] == pytest.approx(
        [float(each) for each in NUMBER.findall(committed)], abs=0.2
    )


def test_every_load_aware_score_has_a_chart() -> None:
    """Every plugin that scores by load has one, and docs/load.md shows all of them."""
    scoring = {
        name
        for name, kind in IN_TREE.items()
        if hasattr(kind, "score") and Change.LOAD in getattr(kind, "depends_on", Change.NOTHING)
    }
    assert scoring == {drawing.plugin for drawing in DRAWINGS.values()}
    shown = set(re.findall(r"\(img/([a-z-]+)\.svg\)", PAGE.read_text()))
    measured = {path.stem for path in FOLDER.glob("*.svg") if path.stem.startswith(MEASURED)}
    drawn = {path.stem for path in FOLDER.glob("*.svg")} - {demo_picture.FILE.stem, patterns.FILE.stem}
    assert sorted(DRAWINGS) == sorted(shown - measured) == sorted(drawn - measured)


def test_the_rejected_area_is_shaded() -> None:
    """From the first rejected node; charts whose lines disagree have no shading."""
    points = ((0.0, 100.0), (100.0, 0.0))
    shaded = render_svg(Chart("a < b", "load", (Line("one", points, 80.0),)))
    assert "rejected" in shaded and "a &lt; b" in shaded
    assert "rejected" not in render_svg(Chart("a", "load", (Line("one", points, 80.0), Line("two", points))))
    assert "{http://www.w3.org/2000/svg}svg" == ElementTree.fromstring(shaded).tag
