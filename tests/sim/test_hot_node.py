"""The hot node of the demo: pods avoid it, its label is added and removed, pods return; measuring the outcome."""

import pytest
from msgspec.structs import replace

from tests.sim.demo_recording import RecordedScene, hot_node_scenes, record_demo
from tests.sim.small_world import node, scenario, stock, template, workload
from trimtab.apps.demo import load_aware_settings, requests_only_settings
from trimtab.sim.demo.hot_node import (
    DURATION,
    HOT_BEGINS,
    HOT_ENDS,
    HOT_LEVEL,
    HOT_NODE,
    HOT_NODE_PLAY,
    RISE_SECONDS,
    Outcome,
    UtilisationProbe,
    run_headless,
)
from trimtab.sim.scenario import OwnerKind, SimulatedNode
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage_patterns import Steady, Surge, Total

SEEDS = range(8)
PRESSURE = "pressure.trimtab.dev/cpu"
SCENARIO = HOT_NODE_PLAY.scenario()
START, END = SCENARIO.begins, SCENARIO.ends
HOT_FROM, HOT_UNTIL = START + HOT_BEGINS, START + HOT_ENDS
SCRAPE_INTERVAL = SCENARIO.metrics.interval


def outcomes(seed: int, lag: float = 0.0) -> tuple[Outcome, Outcome]:
    """By measured load, and by requests."""
    late = replace(SCENARIO, metrics=replace(SCENARIO.metrics, delay=lag))
    measured, requested = (
        run_headless(Simulation(late, settings, seed)) for settings in (load_aware_settings(), requests_only_settings())
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
    after = placed(hot_node_scenes(seed), HOT_UNTIL, END)
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


def test_the_scenes_tell_what_the_scenario_has() -> None:
    """The process, its node, level, times and rise, and the scenario's duration; it alone does not fill the node."""
    systems = {each.node.name: each.system_cpu for each in SCENARIO.nodes}
    hot = systems[HOT_NODE]
    assert isinstance(hot, Total)
    assert Surge(HOT_LEVEL * 8000, HOT_FROM, HOT_UNTIL, RISE_SECONDS) in hot.patterns
    assert all(isinstance(system, Steady) for name, system in systems.items() if name != HOT_NODE)
    assert (DURATION, 1.0) == (SCENARIO.duration, SCENARIO.step)
    assert 0.5 < HOT_LEVEL < 0.8


def probed(until: float, hot: float, *arrivals: float, cpu: int = 3000) -> tuple[Simulation, UtilisationProbe]:
    """Two nodes with 4 cores, one with a process that uses so many of them, and pods at these times."""
    nodes = (SimulatedNode(node("hot", 4, 16), system_cpu=Steady(hot * 1000)), SimulatedNode(node("cold", 4, 16)))
    pods = (
        workload(f"web-{at:g}", OwnerKind.POD, created=at, template=template(cpu=cpu, memory_mib=1)) for at in arrivals
    )
    simulation = Simulation(scenario(nodes, *pods, step=1.0), stock(), 1)
    probe = UtilisationProbe(simulation.world)
    simulation.run_until(until)
    return simulation, probe


def test_an_outcome_agrees_with_a_plain_recount() -> None:
    """One node with an external load of 110 % for 100 s, and three pods of which only two fit."""
    simulation, probe = probed(100.0, 4.4, 10.0, 20.0, 30.0)
    found = probe.outcome("hot", 15.0, 100.0)
    on_hot = sum(each.node == "hot" and each.created >= 15.0 for each in simulation.world.pods.values())
    assert (2, 1, on_hot) == (found.placed, found.pending, found.on_hot_node)
    assert 100.0 == found.seconds_above_80
    assert 1.1 == pytest.approx(found.peak)
    assert 100 * 0.4 == pytest.approx(found.unmet_core_seconds)
    assert 1.1 == pytest.approx(found.spread)


@pytest.mark.parametrize(("begins", "count"), [(0.0, 2), (15.0, 1), (50.0, 0)])
def test_pods_count_as_on_the_hot_node_only_while_it_was_hot(begins: float, count: int) -> None:
    """A pod that was created before does not count; of four that fill both nodes two are on this one."""
    simulation, probe = probed(60.0, 0.0, 10.0, 11.0, 20.0, 21.0, cpu=2000)
    early = sorted(each.created for each in simulation.world.pods.values() if each.node == "hot")
    assert [True, False] == [at < 15.0 for at in early]
    assert count == probe.outcome("hot", begins, 60.0).on_hot_node
