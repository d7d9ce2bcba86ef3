"""The HTML report: the same bytes, nothing from elsewhere, whatever names it shows; and what a real browser makes of it."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import zlib
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.apps.simulate.small_scenario import small_jobs, small_scenario
from tools.programs import find_program
from trimtab.apps.simulate.html.page import render_page
from trimtab.apps.simulate.html.png import LEVELS, PALETTE, UNKNOWN, heatmap_png, level_of, shrink
from trimtab.apps.simulate.html.scales import duration_text, round_ticks, time_label, time_ticks
from trimtab.apps.simulate.html.tables import summary_table
from trimtab.apps.simulate.jobs import run_job
from trimtab.apps.simulate.policies import find_policies
from trimtab.apps.simulate.results import CompactionFacts, Results, summarise_results
from trimtab.sim.comparison import Ratio, Summary
from trimtab.sim.measures import Happening, Heatmap, RunResult

LARGEST = 2_000_000  # bytes


@cache
def outcome() -> tuple[Results, list[RunResult]]:
    finished = [(job, run_job(job)) for job in small_jobs(seeds=2)]
    scenarios = {seed: small_scenario(seed) for seed in (1, 2)}
    results, runs = summarise_results(
        "trimtab simulate small", scenarios, find_policies(["stock", "PeakRisk"]), finished
    )
    moved = [replace(runs[0], happenings=[Happening(29000.0, "OOM kill", "default/web")]), *runs[1:]]
    compaction = {"stock": CompactionFacts(3, 29000.0, 7, 0, [2, 2, 3], 3)}
    return replace(results, compaction=compaction, move_costs={"PeakRisk": 0.25}), moved


def test_the_same_results_give_the_same_page() -> None:
    """Byte by byte."""
    assert render_page(*outcome()) == render_page(*outcome())


def test_nothing_comes_from_elsewhere() -> None:
    """No address but namespaces, and a policy for browsers that forbids all of it."""
    page = render_page(*outcome())
    assert [] == re.findall(r"https?://|//[a-z]+\.|@import|url\(", page)
    assert all(source.startswith("data:image/png") for source in re.findall(r'(?:src|href)="([^"]*)"', page))
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("ratio", "mean", "underlined"),
    [
        (Ratio(0.5, 0.4, 0.6), 0.1, "PeakRisk"),
        (Ratio(0.5, 0.0, 1.1), 0.1, None),  # within the noise
        (Ratio(1.5, 1.2, 1.8), 0.3, "stock"),
        (Ratio(1.5, 0.9, 2.1), 0.3, None),
        (Ratio(0.5, None, None), 0.1, None),  # one seed
        (Ratio(1.0, 1.0, 1.0), 0.2, None),
    ],
)
def test_the_lowest_mean_is_underlined_unless_it_is_within_the_noise(
    ratio: Ratio, mean: float, underlined: str | None
) -> None:
    """The baseline's, too."""
    results, _ = outcome()
    hot = {"stock": Summary(0.2, 0.1, None), "PeakRisk": Summary(mean, 0.1, ratio)}
    zero = {"stock": Summary(0.0, 0.0, None), "PeakRisk": Summary(0.0, 0.0, None)}
    table = summary_table(replace(results, summaries={**dict.fromkeys(results.summaries, zero), "hot80": hot}))
    rows = re.findall(r'<th scope="row">.*?</span>(\w+)</th>(.*?)</tr>', table)
    assert [underlined] * (underlined is not None) == [name for name, cells in rows if "class=best" in cells]


def test_what_the_page_says() -> None:
    """Description, policies, finding, intervals, events, compaction, costs, and how to run it again."""
    page = render_page(*outcome())
    for text in (
        "heats up a node &lt;b&gt;&amp;amp; more&lt;/b&gt;",
        "hot nodes than stock",
        "Relative to stock",
        "Hot nodes over time",
        "Distribution of node load",
        "Load of every node",
        "OOM kill · 0.5",
        "Nodes needed",
        "PeakRisk moves 0.25 pods per node-minute",
        "<code>trimtab simulate small</code>",
        'scope="row"',
        "≈",
    ):
        assert text in page, text


def test_names_cannot_end_the_script() -> None:
    """A node called like a tag stays text, in the page and in its data."""
    results, runs = outcome()
    evil = "</script><img src=x onerror=alert(1)>"
    heat = replace(runs[0].heatmap, nodes=[evil] * len(runs[0].heatmap.nodes))
    page = render_page(results, [replace(runs[0], heatmap=heat), *runs[1:]])
    assert evil not in page
    assert 2 == page.count("</script>")


def test_a_run_without_results_has_a_page() -> None:
    """Which says so."""
    results, _ = outcome()
    empty = replace(results, runs=[], summaries={}, compaction={}, move_costs={})
    assert "No run has finished." in render_page(empty, [])


def test_a_baseline_whose_runs_failed() -> None:
    """The others are shown, without ratios and without a finding."""
    results, runs = outcome()
    others = [run for run in runs if run.policy != "stock"]
    left = {
        measure: {"stock": Summary(0.0, None, None), "PeakRisk": Summary(of["PeakRisk"].mean, None, None)}
        for measure, of in results.summaries.items()
    }
    shown = replace(results, runs=[run for run in results.runs if run.policy != "stock"], summaries=left)
    page = render_page(shown, others)
    assert "Load of every node" in page
    assert 'class="finding"' not in page
    assert "Relative to stock" not in page


def test_a_large_comparison_stays_small() -> None:
    """Ten policies and six seeds, with heatmaps of the largest size and as much noise as possible: at most 2 MB."""
    results, runs = outcome()
    names = [f"policy-{number}" for number in range(10)]
    cells = [[((row * 7919 + column * 104729) % 61) / 40 for column in range(288)] for row in range(64)]
    heat = Heatmap([f"node-{row}" for row in range(64)], [float(column) for column in range(288)], [*map(list, cells)])
    share = [(column * 31 % 100) / 100 for column in range(288)]
    many = [
        replace(runs[0], policy=name, seed=seed, heatmap=heat, hot_share=share) for name in names for seed in range(6)
    ]
    summaries = {
        measure: dict.fromkeys(names, of["PeakRisk"]) | {names[0]: of["stock"]}
        for measure, of in results.summaries.items()
    }
    of_name = [replace(results.policies[0], name=name) for name in names]
    shown = [replace(results.runs[0], policy=run.policy, seed=run.seed) for run in many]
    large = replace(results, policies=of_name, runs=shown, summaries=summaries, compaction={}, move_costs={})
    assert len(render_page(large, many).encode()) < LARGEST


def test_the_picture_has_a_pixel_for_each_value() -> None:
    """Indices into the palette, line by line; unknown is transparent."""
    png = heatmap_png([[0.0, 0.8, None], [1.0, 1.5, 9.0]])
    assert b"\x89PNG" == png[:4]
    assert (3, 2) == struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT")
    (length,) = struct.unpack(">I", png[start - 4 : start])
    lines = zlib.decompress(png[start + 4 : start + 4 + length])
    assert bytes([0, 0, 32, UNKNOWN, 0, 40, 60, 60]) == lines
    assert LEVELS == len(PALETTE) == len(set(PALETTE))
    assert UNKNOWN == level_of(None)


def test_a_thumbnail_keeps_the_peaks() -> None:
    """Of the columns that it joins, the highest."""
    assert [[0.9, 0.4], [None, 0.3]] == shrink([[0.1, 0.9, 0.4], [None, None, 0.3]], 2)


def test_axes() -> None:
    """Round numbers and times, with the day where there are several."""
    assert [0.0, 0.2, 0.4, 0.6, 0.8, 1.0] == round_ticks(0.0, 1.0)
    assert [0.0, 0.005, 0.01] == round_ticks(0.0, 0.011, 3)
    assert ["08:00", "08:30", "09:00"] == [label for _, label in time_ticks(28800.0, 32400.0, 2)]
    assert "day 2 02:00" == time_label(93600.0, 172800.0)
    assert "1 d 2 h" == duration_text(93600.0)
    assert "0 s" == duration_text(0.0)


@cache
def browser() -> str:
    found = find_program("chromium")
    if found is None and os.environ.get("CI"):
        pytest.fail("CI has no Chromium: tools/programs.py should have installed it")
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    return found


@pytest.mark.parametrize(("scheme", "toggle"), [("light", "Dark"), ("dark", "Light")])
@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_renders_it(scheme: str, toggle: str, width: int, tmp_path: Path) -> None:
    """In both schemes and widths, without an error on the console; its script has run."""
    page = tmp_path / "report.html"
    page.write_text(render_page(*outcome()).replace("</body>", f"<script>{PROBE}</script></body>"))
    command = [
        browser(),
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--enable-logging=stderr"),
        "--virtual-time-budget=3000",  # the page is loaded and its script has run
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
        *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", "--dump-dom", page.as_uri()),
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert [] == [line for line in found.stderr.splitlines() if "CONSOLE" in line]
    (probe,) = re.findall(r'<pre id="probe">([^<]*)</pre>', found.stdout)
    assert f"toggle {toggle}, maps 2, overflow false, tip PeakRisk true, background {BACKGROUNDS[scheme]}" == probe
    assert "hot nodes than stock" in found.stdout


BACKGROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 21, 28)"}
# Moves the pointer over a chart and a heatmap, as a reader does, and writes down what it finds.
PROBE = """
const over = (element) => { const box = element.getBoundingClientRect(); element.dispatchEvent(new PointerEvent("pointermove",
  { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 })); };
const images = [...document.querySelectorAll("img.map")];
addEventListener("load", () => {
  images.forEach(over);
  over(document.querySelector("svg[data-chart]"));
  const tip = document.getElementById("tip");
  const result = document.createElement("pre");
  result.id = "probe";
  result.textContent = `toggle ${document.querySelector("button.theme").textContent}, maps ${images.length}, ` +
    `overflow ${document.documentElement.scrollWidth > innerWidth + 1}, ` +
    `tip PeakRisk ${tip.textContent.includes("PeakRisk")}, ` +
    `background ${getComputedStyle(document.body).backgroundColor}`;
  document.body.append(result);
});
"""
