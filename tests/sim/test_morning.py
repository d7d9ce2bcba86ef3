"""The morning of the demo: moves are planned before a node is hot, replacements come first, and the day has less heat."""

import pytest

from tests.sim.demo_recording import record_moves
from tests.sim.small_world import nodes, scenario, stock, workload
from trimtab.apps.demo_events import DemoEvent, MoveAdvanced, MoveGraded, MovesEnded, PlanMade
from trimtab.apps.demo_moves import MOVING
from trimtab.core.model.ledger import MoveState
from trimtab.core.model.resources import CPU
from trimtab.sim.demo.morning import MORNING_PLAY, SLOT, ReadyPods
from trimtab.sim.simulation import Simulation

STATES = [MoveState.CHARGED, MoveState.SURGED, MoveState.PLACED, MoveState.LEAVING, MoveState.DONE]


def steps(events: tuple[DemoEvent, ...]) -> dict[str, list[MoveAdvanced]]:
    """By the pod that leaves."""
    found: dict[str, list[MoveAdvanced]] = {}
    for each in events:
        if isinstance(each, MoveAdvanced):
            found.setdefault(each.record.pod, []).append(each)
    return found


def ended(events: tuple[DemoEvent, ...]) -> MovesEnded:
    assert isinstance(events[-1], MovesEnded)
    return events[-1]


@pytest.mark.parametrize("seed", [1, 2])
def test_moves_cool_the_day_and_no_workload_lacks_a_pod(seed: int) -> None:
    """Without moves a node is above 80 % for hours; with them for minutes, and all workloads have all pods at all times."""
    last = ended(record_moves(seed))
    assert last.records and {MoveState.DONE} == {each.state for each in last.records}
    assert last.moved.minutes_above_80 < 15 < 300 < last.unmoved.minutes_above_80
    assert last.moved.peak < 0.85 < 0.9 < last.unmoved.peak
    assert (0.0, 0.0) == (last.moved.seconds_short, last.unmoved.seconds_short)


def test_the_plan_is_made_before_a_node_is_above_its_limit() -> None:
    """The hottest node is just below it, and with the move further below."""
    (made,) = (each.planned for each in record_moves() if isinstance(each, PlanMade))
    cpu = next(each for each in made.hottest if each.resource == CPU)
    assert (6, 40, 0) == (made.nodes, made.pods, cpu.over_before)
    assert cpu.after.usage + 0.05 < cpu.before.usage <= cpu.limit < cpu.before.usage + 0.03
    assert made.plan.moves[0].source == cpu.before.node


def test_each_old_pod_leaves_when_its_replacement_is_ready() -> None:
    """A move takes every state in order; the workload has one ready pod more when the old one leaves, and never less."""
    for each in steps(record_moves()).values():
        assert STATES == [step.record.state for step in each]
        assert all(step.ready >= step.wanted for step in each)
        leaving = each[STATES.index(MoveState.LEAVING)]
        assert leaving.wanted + 1 == leaving.ready
        assert each[0].at < leaving.at <= each[-1].at


def test_each_move_is_graded_twice_and_has_helped() -> None:
    """After half an hour and after six: relief was promised, and measured."""
    graded = [each for each in record_moves() if isinstance(each, MoveGraded)]
    for record in ended(record_moves()).records:
        ages = [each.grade.after for each in graded if each.record.uid == record.uid]
        assert [MOVING.grade_after, MOVING.grade_again_after] == pytest.approx(ages, abs=60)
        assert all(each.promised > 0 and each.helped for each in record.grades)


def test_the_day_is_averaged_by_slot() -> None:
    """Twelve hours of twenty minutes each, and both days begin alike, until the first move."""
    last = ended(record_moves())
    assert MORNING_PLAY.scenario().duration / SLOT == len(last.moved.hottest) == len(last.unmoved.hottest)
    assert last.moved.hottest[:10] == last.unmoved.hottest[:10]
    assert max(last.moved.hottest) < 0.8 < max(last.unmoved.hottest)


def test_time_with_too_few_ready_pods_counts() -> None:
    """Not before all were ready once; from the deletion of a pod until its replacement is ready."""
    simulation = Simulation(scenario(nodes(2), workload("web", replicas=2)), stock(), seed=1)
    ready = ReadyPods(simulation)
    simulation.run_until(60.0)
    assert ((2, 2), 0.0) == (ready.of("default/web"), ready.seconds_short)
    simulation.world.delete_pod(next(iter(simulation.world.pods)))
    assert (1, 2) == ready.of("default/web")
    simulation.run_until(61.0)
    assert pytest.approx(1.0) == ready.seconds_short
    simulation.run_until(120.0)
    assert (2, 2) == ready.of("default/web")
    assert 2.0 < ready.seconds_short < 5.0


def test_an_outcome_counts_from_the_beginning() -> None:
    """Minutes above 80 % are node-minutes, by what pods want."""
    events = record_moves()
    hot = [sum(share > 0.8 for share in day.hottest) for day in (ended(events).moved, ended(events).unmoved)]
    assert 0 == hot[0] < hot[1]
    assert ended(events).unmoved.minutes_above_80 == pytest.approx(hot[1] * SLOT / 60, rel=0.2)
