"""Every measure on worlds so small that its value can be computed by hand."""

import ast
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tests.sim.small_world import RecordedWorld, node, nodes, scenario, stock, template, workload
from trimtab.core.model.instructions import Preempt
from trimtab.core.model.pod import Owner
from trimtab.sim.measures import MEASURES, MEASURES_BY_NAME, RunMeter, RunResult
from trimtab.sim.scenario import NodeAction, NodeEvent, Scenario, SimulatedNode, Workload
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage_patterns import Recorded, Steady, UsagePattern

STEP = 60.0


class Measured(RecordedWorld):
    """A world in steps of a minute, and what was recorded of it."""

    def __init__(self, *simulated: SimulatedNode, warm_up: float = 0.0) -> None:
        super().__init__(*simulated, step=STEP)
        self.meter = RunMeter(self.world, scenario(simulated, step=STEP, warm_up=warm_up), self.budgets)

    def result(self, seconds: float) -> RunResult:
        self.run(seconds)
        return self.meter.result("policy", 1, 0)


def check(result: RunResult, tolerance: float = 1e-6, **expected: float) -> None:
    found = {name: result.measures[name] for name in expected}
    assert expected == pytest.approx(found, rel=1e-6, abs=tolerance)


def two_nodes() -> Measured:
    """n1 wants 110 % of its CPU and 85 % of its memory, n2 25 % of both."""
    world = Measured(*nodes(2))
    world.running("hot", template(cpu=1000, memory_mib=2048, uses=4400, uses_mib=0.85 * 8192), "n1")
    world.running("cool", template(cpu=3000, memory_mib=1024, uses=1000, uses_mib=2048), "n2")
    return world


def test_load_of_two_nodes() -> None:
    """Ten steps with the same shares, of CPU 1.1 and 0.25, of memory 0.85 and 0.25, of CPU requests 0.25 and 0.75."""
    check(
        two_nodes().result(600.0),
        hot80=0.5,
        hot90=0.5,
        hot100=0.5,
        mem80=0.5,
        mem90=0.0,
        mem100=0.0,
        hot80_minutes=10.0,
        unmet=400 / 5400,
        spread=0.425,
        mem_spread=0.3,
        request_spread=0.25,
        max_mean=1.1 / 0.675,
        top=1.1,
        top_p99=1.1,
        node_p99=1.1,
    )


def test_memory_above_its_capacity() -> None:
    """Of two nodes one has processes that take 95 % of its memory, the other 101 %."""
    shares = ((0.95, "n1"), (1.01, "n2"))
    world = Measured(*(SimulatedNode(node(name), system_memory=Steady(share * 8 * 2**30)) for share, name in shares))
    check(world.result(300.0), mem80=1.0, mem90=1.0, mem100=0.5)


def test_percentiles_over_time() -> None:
    """100 steps of one node, at 50 % but for one at 100 %: numpy's 99th percentile is a hundredth above the half."""
    world = Measured(*nodes(1))
    usage = Recorded(np.array([2000.0] * 50 + [4000.0] + [2000.0] * 49), STEP, begins=0.0)
    world.running("web", template(uses=usage), "n1")
    check(world.result(6000.0), top=0.505, top_p99=0.505, node_p99=0.505, hot80=0.01, hot100=0.0, spread=0.0)


def test_stranded_resources() -> None:
    """Requests of 1 core and 2 GiB, and of 3 cores and 1 GiB: the median pod has 2 cores and 1.5 GiB.

    On n2 one core is left, so its 7 GiB are stranded, of 16 in all. With 7 GiB requested on n1 its three cores are, too.
    """
    check(two_nodes().result(600.0), stranded_cpu=0.0, stranded_memory=7 / 16)
    world = Measured(*nodes(2))
    world.running("full", template(cpu=1000, memory_mib=7 * 1024), "n1")
    world.running("other", template(cpu=1000, memory_mib=7 * 1024), "n2")
    check(world.result(600.0), stranded_cpu=6 / 8, stranded_memory=0.0)


def test_waiting_pods() -> None:
    """One is placed at once, one is deleted after 200 s without a node, and one still waits after 500 s."""
    world = Measured(*nodes(1))
    world.running("placed", template(), "n1")
    world.run(100.0)
    world.world.create_pod("waiting", template())
    gone = world.world.create_pod("gone", template())
    world.run(200.0)
    world.world.delete_pod(gone)
    check(world.result(300.0), pending=700.0, pending_p99=200 + 0.98 * 300, unplaced=1.0)


def test_kills_moves_and_evictions() -> None:
    """One pod runs out of memory at 60 s and again at 120 s; one is moved, one drained, and one preempted."""
    world = Measured(*nodes(2))
    world.running("leak", template(uses_mib=200, memory_limit_mib=100), "n1")
    moved, drained, victim = (world.running(name, template(), "n2") for name in ("moved", "drained", "victim"))
    world.run(30.0)
    world.budgets.evict(moved, "moved")
    world.budgets.evict(drained, "drained")
    world.world.perform(Preempt(victim, "default", "victim", "u", "trimtab"))
    result = world.result(100.0)
    check(result, oom_kills=2.0, moves=1.0, evictions=3.0)
    assert {"OOM kill": 2, "moved": 1, "drained": 1, "preempted": 1} == {
        kind: sum(each.kind == kind for each in result.happenings) for kind in {each.kind for each in result.happenings}
    }


def test_a_killed_pod_is_down_during_its_back_off() -> None:
    """Killed at 60 s and at 120 s: 10 s and then 20 s, of which 5 have passed at 125 s."""
    world = Measured(*nodes(1))
    world.running("leak", template(uses_mib=200, memory_limit_mib=100), "n1")
    check(world.result(70.0), down=10.0)
    check(world.result(55.0), down=15.0)


def simulated(given: Scenario, until: float, *steps: tuple[float, str]) -> RunResult:
    """Run it; at each of the times a ready pod is evicted for the reason."""
    simulation = Simulation(given, stock(), 1)
    meter = RunMeter(simulation.world, given, simulation.budgets)
    for at, why in steps:
        simulation.run_until(at)
        simulation.budgets.evict(next(pod.uid for pod in simulation.world.pods.values() if pod.ready), why)
    simulation.run_until(until)
    return meter.result("policy", 1, simulation.decisions)


def web(start: float) -> Workload:
    return workload(replicas=2, template=template(start_delay=(start, start)))


def test_an_evicted_pod_is_down_until_its_replacement_is_ready() -> None:
    """It starts 20 s after its bind; creating, scheduling and binding it takes less than half a second."""
    check(simulated(scenario(nodes(2), web(20.0)), 600.0, (100.0, "drained")), 0.25, down=20.25)


def test_a_replacement_that_is_ready_before_the_old_pod_is_gone_ends_the_time() -> None:
    """It starts at once, while the old pod terminates for up to three seconds."""
    check(simulated(scenario(nodes(2), web(0.0)), 600.0, (100.0, "drained")), 0.25, down=0.25)


def test_what_its_owner_deletes_is_not_down() -> None:
    """A rollout, a scale or the end of a workload is no disruption."""
    gone = replace(web(20.0), deleted=300.0)
    check(simulated(scenario(nodes(2), gone), 600.0), down=0.0, evictions=0.0)


def test_a_pod_that_was_never_ready_is_not_down() -> None:
    """Nobody misses what was not there yet."""
    slow = workload(replicas=2, template=template(ready_delay=9999.0))
    given = scenario(nodes(2), slow, node_events=(NodeEvent(100.0, "n1", NodeAction.DRAIN),))
    check(simulated(given, 600.0), down=0.0, evictions=1.0)


def test_pods_of_a_failed_node_are_down_until_they_are_replaced() -> None:
    """Failed at 100 s: not ready from 140 s, deleted at 440 s, replaced some 20 s later."""
    events = (NodeEvent(100.0, "n1", NodeAction.FAIL),)
    given = scenario(nodes(2), web(20.0), node_events=events)
    check(simulated(given, 1800.0), 0.25, down=300.0 + 20.25)


def test_a_pod_that_is_never_replaced_is_down_to_the_end() -> None:
    """No other node has room for it."""
    given = scenario(
        nodes(1), workload(template=template(cpu=3000)), node_events=(NodeEvent(100.0, "n1", NodeAction.DRAIN),)
    )
    check(simulated(given, 600.0), 0.1, down=500.0, unplaced=1.0)


def test_the_warm_up_is_left_out_of_loads() -> None:
    """The first five of ten steps are hot; what is counted by pod has all of it."""
    world = Measured(*nodes(1), warm_up=300.0)
    usage = Recorded(np.array([4000.0] * 5 + [1000.0] * 5), STEP, begins=0.0)
    world.running("web", template(uses=usage), "n1")
    world.world.create_pod("waiting", template())
    check(world.result(600.0), hot80=0.0, top=0.25, pending=600.0)


def test_a_node_counts_while_it_is_there() -> None:
    """n2 joins for the last five of ten steps and is idle: a third of the node-steps is cool, two thirds are hot."""
    world = Measured(*nodes(1))
    world.running("web", template(uses=4000), "n1")
    world.run(300.0)
    world.world.put_node(SimulatedNode(node("n2")))
    result = world.result(300.0)
    check(result, hot80=10 / 15, spread=0.25, max_mean=1.5)
    assert ["n1", "n2"] == result.heatmap.nodes
    assert [None] * 5 + [0.0] * 5 == result.heatmap.values[1]


def test_a_moment_without_any_node_has_no_load() -> None:
    """It is left out of the means."""
    world = Measured(*nodes(1))
    world.running("web", template(uses=2000), "n1")
    world.run(300.0)
    world.lifecycle.fail("n1")
    check(world.result(300.0), top=0.5, max_mean=1.0, spread=0.0, node_p99=0.5)


def after_a_move(here: float, there: float | UsagePattern, uses: float = 1600.0, to: str = "n2") -> Measured:
    """Two nodes of four cores that are used so much besides: ten minutes before and an hour after a pod is moved."""
    world = Measured(*nodes(2))
    world.running("here", template(uses=here), "n1")
    world.running("there", template(uses=there), "n2")
    owner = Owner("ReplicaSet", "web", uid="web")
    template_of_web = template(uses=uses, start_delay=(0.0, 0.0))
    leaving = world.world.create_pod("web-1", template_of_web, owner=owner, node="n1")
    world.run(600.0)
    world.budgets.evict(leaving, "moved")
    world.run(5.0)
    world.world.create_pod("web-2", template_of_web, owner=owner, node=to)
    return world


def test_a_move_that_helped() -> None:
    """n1 wants 3.6 cores of 4 with the pod and 2 without it, and the pod is alone on n2."""
    check(after_a_move(2000.0, 0.0).result(3600.0), moves=1.0, moves_helped=1.0, moves_hurt=0.0, plan_error=0.0)


def test_a_move_that_hurt() -> None:
    """n1 has room for the pod, and n2 wants 3.6 cores of 4 with it."""
    check(after_a_move(0.0, 2000.0).result(3600.0), moves=1.0, moves_helped=0.0, moves_hurt=1.0)


@pytest.mark.parametrize(("here", "there", "to"), [(0.0, 0.0, "n2"), (2000.0, 2000.0, "n2"), (2000.0, 0.0, "n1")])
def test_a_move_in_vain(here: float, there: float, to: str) -> None:
    """No node was hot, or another one is instead, or the pod came back to its node."""
    check(after_a_move(here, there, to=to).result(3600.0), moves=1.0, moves_helped=0.0, moves_hurt=0.0)


def test_a_move_is_judged_for_six_hours() -> None:
    """With the pod n1 would have been hot, but only after seven hours."""
    late = Recorded(np.array([0.0] * 420 + [1000.0] * 600), STEP, begins=0.0)
    world = after_a_move(2000.0, 0.0, uses=1000.0)
    world.running("late", template(uses=late), "n1")
    check(world.result(9 * 3600.0), moves_helped=0.0, moves_hurt=0.0)


def test_the_error_of_a_plan() -> None:
    """n2 is expected to want 1.6 cores of 4, and wants 2 because another pod became busy; n1 is as expected."""
    busy = Recorded(np.array([0.0] * 11 + [400.0] * 60), STEP, begins=0.0)
    check(after_a_move(2000.0, busy).result(3600.0), plan_error=0.05)


def test_a_run_without_steps_has_zeros() -> None:
    """Nothing is divided by zero."""
    measures = Measured(*nodes(1)).result(10.0).measures
    assert [*MEASURES_BY_NAME] == [*measures]
    assert {0.0} == set(measures.values())


def test_the_report_has_a_heatmap_a_histogram_and_the_share_of_hot_nodes() -> None:
    """At most 288 columns, averaged; the histogram adds up to one."""
    world = two_nodes()
    result = world.result(400 * STEP)
    assert (2, 288, 288) == (len(result.heatmap.values), len(result.heatmap.values[0]), len(result.heatmap.times))
    assert (1.1, 0.25) == (result.heatmap.values[0][0], result.heatmap.values[1][-1])
    assert {0.5} == set(result.hot_share)
    assert 1.0 == pytest.approx(sum(result.histogram))
    assert (0.5, 0.5) == (result.histogram[5], result.histogram[21] + result.histogram[22])


def test_of_many_nodes_the_hottest_are_drawn() -> None:
    """64 of 70, in their order."""
    world = Measured(*nodes(70))
    for number in range(1, 71):
        world.running(f"p{number}", template(uses=10 * number), f"n{number}")
    assert [f"n{number}" for number in range(7, 71)] == world.result(120.0).heatmap.nodes


def test_every_measure_has_an_example() -> None:
    """Some call of `check` in this file names it: a measure that nobody computed by hand is not trusted."""
    calls = (each for each in ast.walk(ast.parse(Path(__file__).read_text())) if isinstance(each, ast.Call))
    named = {word.arg for call in calls if getattr(call.func, "id", "") == "check" for word in call.keywords}
    assert [] == [measure.name for measure in MEASURES if measure.name not in named]
