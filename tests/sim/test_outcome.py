"""What is counted of a heat: pods on the hot node, time above 80 %, what was missed, the spread."""

from functools import partial

import pytest

from trimtab.config.registry import default_profile
from trimtab.core.model.resources import CPU
from trimtab.core.settings import Settings
from trimtab.sim.demo.scene import node
from trimtab.sim.driver import SimulationDriver
from trimtab.sim.outcome import UtilisationProbe
from trimtab.sim.workloads import MIB, Workload, constant
from trimtab.sim.world import SYSTEM_USAGE

SYSTEM = SYSTEM_USAGE[CPU] / 1000  # cores


def test_an_outcome_counts_what_a_plain_recount_finds() -> None:
    """Two nodes of 4 cores, one of which an outsider takes 110 % of for 100 s, and three pods that fit the other alone."""
    drive = SimulationDriver(Settings((default_profile("trimtab"),)), 1, 0.0)
    for name in ("hot", "cold"):
        drive.world.put_node(node(name, 4, 16))
    drive.world.external_load["hot", CPU] = constant(1.1)
    pod = Workload("web", 3000, MIB, constant(0.0), constant(0.0))
    for at in (10.0, 20.0, 30.0):
        drive.clock.call_later(at, partial(drive.world.create_pod, pod, "trimtab"))
    gauge = UtilisationProbe(drive.world)
    while drive.clock.step(100.0):
        pass
    found = gauge.outcome("hot", 15.0, 100.0)
    on_hot = sum(each.node == "hot" and each.created >= 15.0 for each in drive.world.pods.values())
    assert (2, 1, on_hot) == (found.placed, found.pending, found.on_hot_node)
    assert 100.0 == found.seconds_above_80
    assert 1.1 + SYSTEM / 4 == pytest.approx(found.peak)
    assert 100 * (0.4 + SYSTEM) == pytest.approx(found.unmet_core_seconds)
    assert 1.1 == pytest.approx(found.spread)


@pytest.mark.parametrize(("begins", "count"), [(0.0, 1), (50.0, 0)])
def test_pods_count_as_put_on_the_hot_node_only_while_it_was(begins: float, count: int) -> None:
    """A pod that came before is not held against the placement."""
    drive = SimulationDriver(Settings((default_profile("trimtab"),)), 1, 0.0)
    drive.world.put_node(node("hot", 4, 16))
    drive.clock.call_later(
        10.0, partial(drive.world.create_pod, Workload("web", 1, 1, constant(1), constant(1)), "trimtab")
    )
    gauge = UtilisationProbe(drive.world)
    while drive.clock.step(60.0):
        pass
    assert count == gauge.outcome("hot", begins, 60.0).on_hot_node
