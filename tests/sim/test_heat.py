"""The demo's first act under the engine: a node runs hot, pods avoid it, its label comes and goes, pods come back."""

import pytest

from tests.sim.story import Scene, heat, story
from trimtab.apps.demo import by_load, by_requests
from trimtab.sim.compare import Outcome, silent
from trimtab.sim.drive import Drive
from trimtab.sim.heat import BEGINS, ENDS, HEAT, HOT, LEVEL, RISE, START

SEEDS = range(8)
PRESSURE = "pressure.trimtab.dev/cpu"
HEARD = 15.0  # seconds between two looks at the meters


def outcomes(seed: int, lag: float = 0.0) -> tuple[Outcome, Outcome]:
    drives = (Drive(settings, seed, START, lag=lag) for settings in (by_load(), by_requests()))
    measured, requested = (silent(drive, HEAT).outcome(HOT, BEGINS, ENDS) for drive in drives)
    return measured, requested


def placed(scenes: list[Scene], begins: float, ends: float) -> list[str]:
    return [each.node for scene in scenes for each in scene.decided if begins <= each.at < ends]


@pytest.mark.parametrize("seed", SEEDS)
def test_by_measured_load_fewer_pods_go_to_the_hot_node_than_by_requests(seed: int) -> None:
    """The same pods come to both; by requests more go to the hot node, which then wants more than it has."""
    measured, requested = outcomes(seed)
    assert (measured.placed, 0, 0) == (requested.placed, measured.pending, requested.pending)
    assert measured.on_hot < requested.on_hot
    assert measured.highest < 1.0 < requested.highest
    assert 0.0 == measured.missed < requested.missed
    assert measured.spread < requested.spread


@pytest.mark.parametrize("seed", range(3))
def test_measurements_that_come_half_a_minute_late_still_help(seed: int) -> None:
    """Fewer pods go to the hot node than by requests, and it never wants more than it has."""
    measured, requested = outcomes(seed, lag=30.0)
    assert measured.on_hot < requested.on_hot
    assert 0.0 == measured.missed < requested.missed


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_pod_goes_to_the_node_while_the_process_is_at_its_height(seed: int) -> None:
    """From the first look at the height on, until the process falls, every pod goes elsewhere; others did before."""
    scenes = heat(seed)
    assert HOT in placed(scenes, START, BEGINS)
    assert HOT not in placed(scenes, BEGINS + RISE + HEARD, ENDS - RISE)
    assert 5 <= len(placed(scenes, BEGINS + RISE + HEARD, ENDS - RISE))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pods_come_back_when_the_process_has_ended(seed: int) -> None:
    """After its end the node takes more than a third of what comes."""
    after = placed(heat(seed), ENDS, HEAT.scenes[-1].ends)
    assert len(after) / 3 < after.count(HOT)


def test_its_requests_stay_low_while_its_use_is_high() -> None:
    """At the end of the first scene the hot node is the one with the fewest requests and the most use."""
    nodes = heat()[0].pictures[-1].nodes
    assert HOT == min(nodes, key=lambda node: node.cpu.requested).name
    assert HOT == max(nodes, key=lambda node: node.cpu.used or 0.0).name


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_label_comes_in_the_first_scene_and_goes_in_the_second(seed: int) -> None:
    """One label, on the hot node alone, which the picture shows as its mark until it goes."""
    hot, cool = heat(seed)
    (put,), (taken,) = hot.marked, cool.marked
    assert (HOT, ((PRESSURE, "high"),)) == (put.wish.node, put.wish.labels)
    assert (HOT, ((PRESSURE, None),)) == (taken.wish.node, taken.wish.labels)
    assert "marks above 0.8" in put.wish.why
    assert {HOT: "cpu=high"} == {node.name: node.mark for node in hot.pictures[-1].nodes if node.mark}
    assert [""] * 3 == [node.mark for node in cool.pictures[-1].nodes]


def test_reasons_name_the_node_that_requests_speak_for() -> None:
    """While it is hot, words say that requests would choose it, and who spoke against it: scores at first, then a filter."""
    why = [each.why for scene in heat() for each in scene.decided]
    assert any(f"by requests alone: {HOT} (PeakRisk " in each for each in why)
    assert any(
        f"by requests alone: {HOT} (refused by Rescheduler)" in each and "used more than 80% of their CPU" in each
        for each in why
    )


def test_the_comparison_at_the_end_is_of_the_runs_themselves() -> None:
    """The figures shown are those of two runs that nobody watches, one of them the run that was shown."""
    _, ended = story(2)
    assert outcomes(2) == (ended.measured, ended.requested)


def test_the_process_alone_does_not_fill_the_node() -> None:
    """What it takes leaves room for the pods that are there, so that it is placement which decides on the rest."""
    assert 0.5 < LEVEL < 0.8
