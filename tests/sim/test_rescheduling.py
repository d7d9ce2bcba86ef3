"""The rescheduler in the simulator: moves pods to the planned nodes, settles, and does nothing unless it is told to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tests.sim.small_world import nodes, scenario, simulate, stock, template
from trimtab.core.rescheduling.grading import summarise
from trimtab.core.rescheduling.rivals.descheduler_low_node_utilization import DeschedulerLowNodeUtilization
from trimtab.core.rescheduling.rivals.koordinator_low_node_load import KoordinatorLowNodeLoad
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import RivalStrategy
from trimtab.core.settings import Settings
from trimtab.sim.measures import RunMeter
from trimtab.sim.scenario import Scenario, TracedPod
from trimtab.sim.shadow.shadow import shadow_settings
from trimtab.sim.simulation import Simulation, without_observing

HOUR = 3600.0


def crowded(*used: int, on: str = "n1", hours: float = 4.0) -> Scenario:
    """Three nodes of four cores, and a pod of its own Deployment for each of these millicores, all on one node."""
    pods = tuple(
        TracedPod(f"app-{number}", template(100, uses=each), (0.0, 0.0), owner=f"app-{number}", node=on)
        for number, each in enumerate(used)
    )
    return scenario(nodes(3), duration=hours * HOUR, pods=pods)


def rescheduling(mode: Mode = Mode.AUTO, **fields: Any) -> Settings:
    return replace(stock(), rescheduling=ReschedulingSettings(mode=mode, allow_last_replica=True, **fields))


def moved(simulation: Simulation) -> list[str]:
    return [life.key for life in simulation.world.lives.values() if life.left == "moved"]


def nodes_of(simulation: Simulation) -> Counter[str]:
    return Counter(pod.node for pod in simulation.world.pods.values())


def test_a_hot_node_is_relieved_and_replacements_land_where_planned() -> None:
    """3.8 cores of 4: two pods leave for the two empty nodes, which the scheduler would not have to choose."""
    simulation = simulate(crowded(1000, 1000, 900, 900), settings=rescheduling())
    planned = {move.pod: move.target for plan in simulation.plans for move in plan.moves}
    assert planned and sorted(planned) == sorted(moved(simulation))
    after = {pod.name.rsplit("-", 1)[0]: pod.node for pod in simulation.world.pods.values()}
    assert planned == {f"default/{name}": after[name] for name in (key.removeprefix("default/") for key in planned)}


def test_moves_end_under_constant_load() -> None:
    """All of them happen within the first hour, and no pod moves twice."""
    simulation = simulate(crowded(1000, 1000, 900, 900, 800, 700, hours=12), settings=rescheduling())
    times = [plan.at for plan in simulation.plans if plan.moves]
    assert times and max(times) < HOUR
    assert 1 == max(Counter(moved(simulation)).values())


@pytest.mark.parametrize("settings", [stock(), rescheduling(Mode.OBSERVE)])
def test_nothing_moves_unless_told(settings: Settings) -> None:
    """Neither without settings nor in observe mode."""
    simulation = simulate(crowded(1000, 1000, 900, 900), settings=settings)
    assert ([], Counter({"n1": 4})) == (moved(simulation), nodes_of(simulation))


def test_observing_still_plans() -> None:
    """Whoever observes sees what would happen."""
    simulation = simulate(crowded(1000, 1000, 900, 900), settings=rescheduling(Mode.OBSERVE))
    assert any(plan.moves for plan in simulation.plans)


def test_plans_that_nobody_reads_are_left_out() -> None:
    """Of a policy that observes; one that moves pods keeps its settings. A shadow plans nothing in any case."""
    assert without_observing(rescheduling(Mode.OBSERVE)).rescheduling is None
    assert rescheduling().rescheduling == without_observing(rescheduling()).rescheduling
    assert shadow_settings(rescheduling()).rescheduling is None


@pytest.mark.parametrize("interval", [10.0, 15.0, 45.0, 300.0])
def test_the_interval_is_obeyed(interval: float) -> None:
    """Also where it is no multiple of the time between ticks."""
    simulation = simulate(crowded(100, 100), settings=rescheduling(Mode.OBSERVE, interval=interval))
    times = [plan.at for plan in simulation.plans]
    assert {interval} == {later - earlier for earlier, later in pairwise(times[1:])}


def test_a_cluster_that_is_full_everywhere_is_left_alone() -> None:
    """No move helps where every node is above its limit."""
    pods = tuple(
        TracedPod(
            f"app-{number}", template(100, uses=1150), (0.0, 0.0), owner=f"app-{number}", node=f"n{number % 3 + 1}"
        )
        for number in range(9)
    )
    simulation = simulate(scenario(nodes(3), duration=4 * HOUR, pods=pods), settings=rescheduling())
    assert [] == moved(simulation)


Koordinator = partial(KoordinatorLowNodeLoad, skip_check_expected_replicas=True)


@pytest.mark.parametrize(
    "rival",
    [
        DeschedulerLowNodeUtilization(metrics_source="KubernetesMetrics"),
        Koordinator(),
        Koordinator(consecutive_abnormalities=1),
    ],
)
def test_a_rival_relieves_a_hot_node(rival: RivalStrategy) -> None:
    """It evicts what it plans, round after round, without a target; the scheduler places the replacements."""
    settings = rescheduling(strategies=(rival,), interval=60.0)
    simulation = simulate(crowded(1000, 1000, 900, 900, hours=1), settings=settings)
    planned = [move for plan in simulation.plans for move in plan.moves]
    assert planned and [move.pod for move in planned] == moved(simulation)
    assert {(rival.name, "n1", "", "any node")} == {
        (move.strategy, move.source, move.target, move.goes_to) for move in planned
    }
    assert 4 > nodes_of(simulation)["n1"] and not any(plan.refusals for plan in simulation.plans)


def test_a_rival_remembers() -> None:
    """Koordinator evicts in the first round in which a node was too full more than five times."""
    settings = rescheduling(strategies=(Koordinator(),), interval=60.0)
    simulation = simulate(crowded(1000, 1000, 900, 900, hours=1), settings=settings)
    hot = next(number for number, plan in enumerate(simulation.plans) if plan.moves)
    assert 5 <= hot <= 10


def test_a_rival_that_observes_evicts_nothing() -> None:
    """Its plan says what it would have evicted."""
    rival = DeschedulerLowNodeUtilization(metrics_source="KubernetesMetrics")
    simulation = simulate(crowded(1000, 1000, 900, 900), settings=rescheduling(Mode.OBSERVE, strategies=(rival,)))
    assert any(plan.moves for plan in simulation.plans) and [] == moved(simulation)


def test_a_run_is_repeatable() -> None:
    """The same seed gives the same plans."""
    first, second = (simulate(crowded(1000, 1000, 900, 900), settings=rescheduling()) for _ in range(2))
    assert first.plans == second.plans


def test_moves_are_graded() -> None:
    """Half an hour and six hours later; under steady load the promise is kept, and the run has all grades."""
    simulation = simulate(crowded(1000, 1000, 900, 900, hours=8), settings=rescheduling())
    (record,) = simulation.graded_moves
    assert (record,) == simulation.ledger.records
    assert [1800, 21600] == [int(each.after // 60) * 60 for each in record.grades]
    found = summarise(simulation.graded_moves)
    assert (1, 1, pytest.approx(0.0, abs=1e-3)) == (found.graded, found.helped, found.plan_error)
    assert found.measured == pytest.approx(found.promised, abs=0.01)


def test_a_replacement_that_is_ready_first_leaves_nobody_missing() -> None:
    """And the move is judged by where its replacement runs, though that was there before the pod left."""
    crowd = crowded(1000, 1000, 900, 900)
    simulation = Simulation(crowd, rescheduling(), 1)
    meter = RunMeter(simulation.world, crowd, simulation.budgets)
    simulation.run()
    measures = meter.result("policy", 1, 0).measures
    assert (measures["moves"], 0.0, 0.0) == (measures["moves_helped"], measures["moves_hurt"], measures["down"])
    assert measures["moves"] and measures["plan_error"] < 0.01
