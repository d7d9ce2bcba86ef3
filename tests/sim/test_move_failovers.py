"""Moves over fail-overs in the simulator: budgets and cool-downs hold, no surge is left, and constant load ends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.sim.small_world import nodes, scenario, stock, template
from trimtab.core.controllers import Output
from trimtab.core.model.events import Event
from trimtab.core.model.instructions import Evict, StartSurge
from trimtab.core.rescheduling.move_budgets import Budget, Scope
from trimtab.core.rescheduling.settings import Method, Mode, ReschedulingSettings
from trimtab.sim.scenario import Failover, Scenario, TracedPod
from trimtab.sim.simulation import Simulation

HOUR = 3600.0
BUDGET = Budget(2, 900.0)
COOLDOWN = 1800.0


def crowded(*failovers: Failover) -> Scenario:
    """Four nodes of four cores, and eight pods of an owner each that use all of the first."""
    pods = tuple(
        TracedPod(f"app-{number}", template(100, uses=480), (0.0, 0.0), owner=f"app-{number}", node="n1")
        for number in range(8)
    )
    return scenario(nodes(4), duration=2 * HOUR, pods=pods, failovers=failovers)


def moves(method: Method, *failovers: Failover) -> tuple[Simulation, list[tuple[float, str]]]:
    """The simulation at its end, and when which owner's pod was sent away."""
    sent: list[tuple[float, str]] = []

    def record(event: Event, outputs: Sequence[Output]) -> None:
        for each in outputs:
            if isinstance(each, Evict | StartSurge):
                pod = simulation.world.pods[each.uid]
                sent.append((event.at, pod.owner.uid if pod.owner is not None else ""))

    fields: dict[str, Any] = {"method": method, "budgets": {Scope.CLUSTER: BUDGET}, "interval": 150.0}
    found = ReschedulingSettings(
        mode=Mode.AUTO, allow_last_replica=True, required_gain=1.0, cooldown=COOLDOWN, **fields
    )
    simulation = Simulation(crowded(*failovers), replace(stock(), rescheduling=found), 1, record=record)
    simulation.run()
    return simulation, sent


@pytest.mark.parametrize("method", [Method.EVICTION, Method.REPLACEMENT_FIRST])
def test_moves_over_failovers(method: Method) -> None:
    """A leader dies right after each of the first moves was charged, or sent, or a moment later."""
    _, undisturbed = moves(method)
    delays = (0.005, 0.015, 0.025, 1.0, 4.0, 9.0)
    times = [at + delay for (at, _), delay in zip(undisturbed, delays, strict=False)]
    simulation, sent = moves(method, *(Failover(at, 5.0) for at in (*times, 400.0, 420.0, 1500.0)))
    assert undisturbed and sent
    for index, (at, owner) in enumerate(sent):
        assert len([other for other, _ in sent[index:] if other < at + BUDGET.within]) <= BUDGET.moves
        assert not [other for other, again in sent[index + 1 :] if again == owner and other < at + COOLDOWN]
    assert max(at for at, _ in sent) < 1.5 * HOUR
    assert not [each for each in simulation.ledger.records if each.under_way]
    assert 8 == len(simulation.world.pods)
