"""The demo's first act under the engine: a node runs hot, pods avoid it, its label comes and goes, pods come back."""

import pytest

from tests.sim.demo_recording import RecordedScene, hot_node_scenes, record_demo
from trimtab.apps.demo import load_aware_settings, requests_only_settings
from trimtab.sim.demo.hot_node import (
    HOT_FROM,
    HOT_LEVEL,
    HOT_NODE,
    HOT_NODE_SCENARIO,
    HOT_UNTIL,
    RISE_SECONDS,
    START,
)
from trimtab.sim.driver import SimulationDriver
from trimtab.sim.outcome import Outcome, run_headless

SEEDS = range(8)
PRESSURE = "pressure.trimtab.dev/cpu"
HEARD = 15.0  # seconds between two looks at the meters


def outcomes(seed: int, lag: float = 0.0) -> tuple[Outcome, Outcome]:
    drives = (
        SimulationDriver(settings, seed, START, metrics_lag=lag)
        for settings in (load_aware_settings(), requests_only_settings())
    )
    measured, requested = (
        run_headless(drive, HOT_NODE_SCENARIO).outcome(HOT_NODE, HOT_FROM, HOT_UNTIL) for drive in drives
    )
    return measured, requested


def placed(scenes: list[RecordedScene], begins: float, ends: float) -> list[str]:
    return [each.node for scene in scenes for each in scene.decided if begins <= each.at < ends]


@pytest.mark.parametrize("seed", SEEDS)
def test_by_measured_load_fewer_pods_go_to_the_hot_node_than_by_requests(seed: int) -> None:
    """The same pods come to both; by requests more go to the hot node, which then wants more than it has."""
    measured, requested = outcomes(seed)
    assert (measured.placed, 0, 0) == (requested.placed, measured.pending, requested.pending)
    assert measured.on_hot_node < requested.on_hot_node
    assert measured.peak < 1.0 < requested.peak
    assert 0.0 == measured.unmet_core_seconds < requested.unmet_core_seconds
    assert measured.spread < requested.spread


@pytest.mark.parametrize("seed", range(3))
def test_measurements_that_come_half_a_minute_late_still_help(seed: int) -> None:
    """Fewer pods go to the hot node than by requests, and it never wants more than it has."""
    measured, requested = outcomes(seed, lag=30.0)
    assert measured.on_hot_node < requested.on_hot_node
    assert 0.0 == measured.unmet_core_seconds < requested.unmet_core_seconds


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_pod_goes_to_the_node_while_the_process_is_at_its_height(seed: int) -> None:
    """From the first look at the height on, until the process falls, every pod goes elsewhere; others did before."""
    scenes = hot_node_scenes(seed)
    assert HOT_NODE in placed(scenes, START, HOT_FROM)
    assert HOT_NODE not in placed(scenes, HOT_FROM + RISE_SECONDS + HEARD, HOT_UNTIL - RISE_SECONDS)
    assert 5 <= len(placed(scenes, HOT_FROM + RISE_SECONDS + HEARD, HOT_UNTIL - RISE_SECONDS))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pods_come_back_when_the_process_has_ended(seed: int) -> None:
    """After its end the node takes more than a third of what comes."""
    after = placed(hot_node_scenes(seed), HOT_UNTIL, HOT_NODE_SCENARIO.scenes[-1].ends_at)
    assert len(after) / 3 < after.count(HOT_NODE)


def test_its_requests_stay_low_while_its_use_is_high() -> None:
    """At the end of the first scene the hot node is the one with the fewest requests and the most use."""
    nodes = hot_node_scenes()[0].snapshots[-1].nodes
    assert HOT_NODE == min(nodes, key=lambda node: node.cpu.requested).name
    assert HOT_NODE == max(nodes, key=lambda node: node.cpu.used or 0.0).name


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_label_comes_in_the_first_scene_and_goes_in_the_second(seed: int) -> None:
    """One label, on the hot node alone, which the picture shows as its mark until it goes."""
    hot, cool = hot_node_scenes(seed)
    (put,), (taken,) = hot.labelled, cool.labelled
    assert (HOT_NODE, ((PRESSURE, "high"),)) == (put.instruction.node, put.instruction.labels)
    assert (HOT_NODE, ((PRESSURE, None),)) == (taken.instruction.node, taken.instruction.labels)
    assert "marks above 0.8" in put.instruction.reason
    assert {HOT_NODE: "cpu=high"} == {node.name: node.status for node in hot.snapshots[-1].nodes if node.status}
    assert [""] * 3 == [node.status for node in cool.snapshots[-1].nodes]


def test_reasons_name_the_node_that_requests_speak_for() -> None:
    """While it is hot, words say that requests would choose it, and who spoke against it: scores at first, then a filter."""
    why = [each.why for scene in hot_node_scenes() for each in scene.decided]
    assert any(f"by requests alone: {HOT_NODE} (PeakRisk " in each for each in why)
    assert any(
        f"by requests alone: {HOT_NODE} (refused by Rescheduler)" in each and "used more than 80% of their CPU" in each
        for each in why
    )


def test_the_comparison_at_the_end_is_of_the_runs_themselves() -> None:
    """The figures shown are those of two runs that nobody watches, one of them the run that was shown."""
    _, ended = record_demo(2)
    assert outcomes(2) == (ended.measured, ended.requested)


def test_the_process_alone_does_not_fill_the_node() -> None:
    """What it takes leaves room for the pods that are there, so that it is placement which decides on the rest."""
    assert 0.5 < HOT_LEVEL < 0.8
