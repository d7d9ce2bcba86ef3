"""Moves come to an end: no pod moves twice within its cool-down, none under constant load, and none back and forth.

Each law is compared with what happens without what keeps it, so that the scenario is known to tempt the rescheduler.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.sim.small_world import nodes, scenario, simulate, template
from tests.sim.test_rescheduling import HOUR, crowded, rescheduling
from trimtab.core.rescheduling import disruption
from trimtab.core.rescheduling.settings import COOLDOWN, INTERVAL, ReschedulingSettings
from trimtab.sim.scenario import Scenario, TracedPod
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage_patterns import Recorded, UsagePattern

STEP, MINUTES = 60.0, 60


def stays(name: str, node: str, uses: float | UsagePattern) -> TracedPod:
    """A pod without an owner, which is never moved."""
    return TracedPod(name, template(100, uses=uses), (0.0, 0.0), node=node)


def moves(name: str, node: str, uses: float | UsagePattern) -> TracedPod:
    return TracedPod(name, template(100, uses=uses), (0.0, 0.0), owner=name, node=node)


def by_minute(*cores: float) -> Recorded:
    return Recorded(1000 * np.array(cores, dtype=np.float64), STEP, begins=0.0)


def chased() -> Scenario:
    """Whichever node the pod is on becomes hot soon after: n2 twelve minutes after the start, n3 after four hours."""
    late = by_minute(*[0.2] * 12, *[2.5] * 228)
    pods = stays("a", "n1", 2500), stays("b", "n2", late), stays("c", "n3", 600), moves("web", "n1", 1500)
    return scenario(nodes(3), duration=4 * HOUR, step=STEP, pods=pods)


def alternating(minutes: int) -> Scenario:
    """Two nodes of four cores that are busy in turn, and a pod that makes the busy one hot; the third node is full."""
    hours = 6
    phase = [2.4] * minutes + [0.4] * minutes
    rounds = hours * MINUTES // len(phase)
    busy, idle = by_minute(*phase * rounds), by_minute(*phase[minutes:], *phase * (rounds - 1), *phase[:minutes])
    pods = stays("a", "n1", busy), stays("b", "n2", idle), stays("c", "n3", 3000), moves("web", "n1", 1200)
    return scenario(nodes(3), duration=hours * HOUR, step=STEP, pods=pods)


def move_times(simulation: Simulation) -> list[float]:
    """When pods left because they were moved, by eviction or after their replacement was ready."""
    lives = simulation.world.lives.values()
    return sorted(life.removed for life in lives if life.left == "moved" and life.removed is not None)


def gaps(simulation: Simulation) -> list[float]:
    return [later - earlier for earlier, later in pairwise(move_times(simulation))]


def test_no_pod_moves_twice_within_its_cool_down() -> None:
    """With a short one it would: its second node gets hot within minutes."""
    tempted, kept = (
        simulate(chased(), settings=rescheduling(cooldown=INTERVAL)),
        simulate(chased(), settings=rescheduling()),
    )
    assert 2 <= len(move_times(tempted)) and min(gaps(tempted)) < COOLDOWN
    assert 2 == len(move_times(kept)) and min(gaps(kept)) >= COOLDOWN


def test_no_move_back_and_forth() -> None:
    """Two nodes that are busy in turn, for two minutes each: neither is hot for long enough to be worth a move."""
    tempted = simulate(alternating(2), settings=rescheduling(required_gain=1.0, cooldown=INTERVAL))
    kept = simulate(alternating(2), settings=rescheduling())
    assert 10 < len(move_times(tempted))
    assert [] == [at for at in move_times(kept) if at > HOUR]


def test_a_load_that_moves_around_does_not_take_the_pod_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes that are busy in turn, for ten minutes each: each further move of the pod must gain more."""
    kept = simulate(alternating(10), settings=rescheduling())
    assert 1 <= len(move_times(kept)) <= 3
    monkeypatch.setattr(disruption, "NEGLIGIBLE", 1e9)
    assert 5 < len(move_times(simulate(alternating(10), settings=rescheduling())))


@pytest.mark.parametrize(
    "used", [(1000, 1000, 900, 900, 800, 700), (3000, 100, 100, 100), (810, 810, 810, 810), (1600, 1600, 1600, 1600)]
)
def test_no_move_under_constant_load(used: tuple[int, ...]) -> None:
    """After the first hour nothing moves, wherever pods have begun, and however little a move must gain."""
    simulation = simulate(crowded(*used, hours=4), settings=rescheduling(required_gain=1.0))
    assert [] == [at for at in move_times(simulation) if at > HOUR]


def test_the_cool_down_is_longer_than_the_interval() -> None:
    """Otherwise the tests above would not tell one from the other."""
    assert ReschedulingSettings().cooldown == COOLDOWN > 2 * INTERVAL
