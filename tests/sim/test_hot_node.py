"""The hot-node scenario: pods avoid the node, its label is added and removed, pods return; measuring the outcome."""

from functools import partial

import pytest

from tests.sim.demo_recording import RecordedScene, hot_node_scenes, record_demo
from trimtab.apps.demo import load_aware_settings, requests_only_settings
from trimtab.config.registry import default_profile
from trimtab.core.model.resources import CPU
from trimtab.core.settings import Settings
from trimtab.sim.demo.hot_node import (
    HOT_FROM,
    HOT_LEVEL,
    HOT_NODE,
    HOT_NODE_SCENARIO,
    HOT_UNTIL,
    RISE_SECONDS,
    START,
    Outcome,
    UtilisationProbe,
    run_headless,
)
from trimtab.sim.demo.scene import node
from trimtab.sim.driver import SimulationDriver
from trimtab.sim.workloads import MIB, Workload, constant
from trimtab.sim.world import SYSTEM_USAGE

SEEDS = range(8)
PRESSURE = "pressure.trimtab.dev/cpu"
SCRAPE_INTERVAL = 15.0
SYSTEM = SYSTEM_USAGE[CPU] / 1000  # cores


def outcomes(seed: int, lag: float = 0.0) -> tuple[Outcome, Outcome]:
    drivers = (
        SimulationDriver(settings, seed, START, metrics_lag=lag)
        for settings in (load_aware_settings(), requests_only_settings())
    )
    measured, requested = (
        run_headless(driver, HOT_NODE_SCENARIO).outcome(HOT_NODE, HOT_FROM, HOT_UNTIL) for driver in drivers
    )
    return measured, requested


def placed(scenes: list[RecordedScene], begins: float, ends: float) -> list[str]:
    return [each.node for scene in scenes for each in scene.decided if begins <= each.at < ends]


@pytest.mark.parametrize("seed", SEEDS)
def test_by_measured_load_fewer_pods_go_to_the_hot_node_than_by_requests(seed: int) -> None:
    """With the same pods; by requests more go to the hot node, whose wanted usage then exceeds its capacity."""
    measured, requested = outcomes(seed)
    assert (measured.placed, 0, 0) == (requested.placed, measured.pending, requested.pending)
    assert measured.on_hot_node < requested.on_hot_node
    assert measured.peak < 1.0 < requested.peak
    assert 0.0 == measured.unmet_core_seconds < requested.unmet_core_seconds
    assert measured.spread < requested.spread


@pytest.mark.parametrize("seed", range(3))
def test_metrics_that_are_half_a_minute_late_still_help(seed: int) -> None:
    """Fewer pods go to the hot node than by requests, and it never exceeds its capacity."""
    measured, requested = outcomes(seed, lag=30.0)
    assert measured.on_hot_node < requested.on_hot_node
    assert 0.0 == measured.unmet_core_seconds < requested.unmet_core_seconds


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_pod_goes_to_the_node_while_it_is_hottest(seed: int) -> None:
    """From the first sample at full load until it falls, every pod goes to another node; earlier ones did not."""
    scenes = hot_node_scenes(seed)
    assert HOT_NODE in placed(scenes, START, HOT_FROM)
    assert HOT_NODE not in placed(scenes, HOT_FROM + RISE_SECONDS + SCRAPE_INTERVAL, HOT_UNTIL - RISE_SECONDS)
    assert 5 <= len(placed(scenes, HOT_FROM + RISE_SECONDS + SCRAPE_INTERVAL, HOT_UNTIL - RISE_SECONDS))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_node_gets_pods_again_when_it_has_cooled_down(seed: int) -> None:
    """More than a third of those that arrive then."""
    after = placed(hot_node_scenes(seed), HOT_UNTIL, HOT_NODE_SCENARIO.scenes[-1].ends_at)
    assert len(after) / 3 < after.count(HOT_NODE)


def test_its_requests_stay_low_while_its_usage_is_high() -> None:
    """At the end of the first scene the hot node has the lowest requests and the highest usage."""
    nodes = hot_node_scenes()[0].snapshots[-1].nodes
    assert HOT_NODE == min(nodes, key=lambda node: node.cpu.requested).name
    assert HOT_NODE == max(nodes, key=lambda node: node.cpu.used or 0.0).name


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_label_is_added_in_the_first_scene_and_removed_in_the_second(seed: int) -> None:
    """One label, on the hot node only, which snapshots show as its status."""
    hot, cool = hot_node_scenes(seed)
    (put,), (taken,) = hot.labelled, cool.labelled
    assert (HOT_NODE, ((PRESSURE, "high"),)) == (put.instruction.node, put.instruction.labels)
    assert (HOT_NODE, ((PRESSURE, None),)) == (taken.instruction.node, taken.instruction.labels)
    assert "labels above 0.8" in put.instruction.reason
    assert {HOT_NODE: "cpu=high"} == {node.name: node.status for node in hot.snapshots[-1].nodes if node.status}
    assert [""] * 3 == [node.status for node in cool.snapshots[-1].nodes]


def test_reasons_name_the_node_that_requests_would_choose() -> None:
    """While it is hot, the text says that requests would choose it, and why not: scores at first, then a filter."""
    why = [each.why for scene in hot_node_scenes() for each in scene.decided]
    assert any(f"by requests alone: {HOT_NODE} (PeakRisk " in each for each in why)
    assert any(
        f"by requests alone: {HOT_NODE} (rejected by Rescheduler)" in each and "used more than 80% of their CPU" in each
        for each in why
    )


def test_the_comparison_at_the_end_matches_headless_runs() -> None:
    """One of the two is the run that was shown."""
    _, ended = record_demo(2)
    assert outcomes(2) == (ended.measured, ended.requested)


def test_the_external_load_alone_does_not_fill_the_node() -> None:
    """It leaves capacity for the pods that are there, so that placement makes the difference."""
    assert 0.5 < HOT_LEVEL < 0.8


def test_an_outcome_agrees_with_a_plain_recount() -> None:
    """Two nodes with 4 cores, one with an external load of 110 % for 100 s, and three pods that fit only the other."""
    driver = SimulationDriver(Settings((default_profile("trimtab"),)), 1, 0.0)
    for name in ("hot", "cold"):
        driver.world.put_node(node(name, 4, 16))
    driver.world.external_load["hot", CPU] = constant(1.1)
    pod = Workload("web", 3000, MIB, constant(0.0), constant(0.0))
    for at in (10.0, 20.0, 30.0):
        driver.clock.call_later(at, partial(driver.world.create_pod, pod, "trimtab"))
    probe = UtilisationProbe(driver.world)
    while driver.clock.step(100.0):
        pass
    found = probe.outcome("hot", 15.0, 100.0)
    on_hot = sum(each.node == "hot" and each.created >= 15.0 for each in driver.world.pods.values())
    assert (2, 1, on_hot) == (found.placed, found.pending, found.on_hot_node)
    assert 100.0 == found.seconds_above_80
    assert 1.1 + SYSTEM / 4 == pytest.approx(found.peak)
    assert 100 * (0.4 + SYSTEM) == pytest.approx(found.unmet_core_seconds)
    assert 1.1 == pytest.approx(found.spread)


@pytest.mark.parametrize(("begins", "count"), [(0.0, 1), (50.0, 0)])
def test_pods_count_as_on_the_hot_node_only_while_it_was_hot(begins: float, count: int) -> None:
    """A pod that was created before does not count."""
    driver = SimulationDriver(Settings((default_profile("trimtab"),)), 1, 0.0)
    driver.world.put_node(node("hot", 4, 16))
    driver.clock.call_later(
        10.0, partial(driver.world.create_pod, Workload("web", 1, 1, constant(1), constant(1)), "trimtab")
    )
    probe = UtilisationProbe(driver.world)
    while driver.clock.step(60.0):
        pass
    assert count == probe.outcome("hot", begins, 60.0).on_hot_node
