"""Usage patterns, requests of workloads, and what metrics show of them."""

from random import Random

import pytest

from tests.build import pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.demo.scene import node
from trimtab.sim.workloads import (
    DAY,
    HOUR,
    MIB,
    WantedUsage,
    Workload,
    burst,
    constant,
    daily_wave,
    noisy,
    ramp,
    sample,
)

GIB = 1024.0**3


@pytest.mark.parametrize(
    ("at", "fraction"), [(14 * HOUR, 1.4), (2 * HOUR, 0.2), (14 * HOUR + DAY, 1.4), (8 * HOUR, 0.8)]
)
def test_a_wave_is_highest_at_its_peak_and_lowest_half_a_day_from_it(at: float, fraction: float) -> None:
    """One period per day between the two fractions."""
    assert fraction == pytest.approx(daily_wave(0.2, 1.4, peak=14 * HOUR)(at))


@pytest.mark.parametrize(("at", "fraction"), [(0.0, 1.0), (100.0, 1.0), (150.0, 0.75), (200.0, 0.5), (999.0, 0.5)])
def test_a_ramp_is_linear_and_constant_outside(at: float, fraction: float) -> None:
    """It changes only between its begin and its end."""
    assert fraction == pytest.approx(ramp(1.0, 0.5, begins=100.0, ends=200.0)(at))


@pytest.mark.parametrize(
    ("at", "fraction"), [(0.0, 0.0), (100.0, 0.0), (105.0, 0.4), (110.0, 0.8), (190.0, 0.8), (195.0, 0.4), (999.0, 0.0)]
)
def test_a_burst_rises_stays_and_falls(at: float, fraction: float) -> None:
    """Zero outside its time; it falls as fast as it rises."""
    assert fraction == pytest.approx(burst(0.8, begins=100.0, ends=200.0, rise=10.0)(at))


def test_noise_is_bounded_and_repeatable() -> None:
    """Within its limit, not constant, and the same for the same time."""
    pattern = noisy(constant(2.0), Random(7), by=0.1)
    series = [pattern(60.0 * minute) for minute in range(500)]
    assert all(1.8 <= value <= 2.2 for value in series)
    assert 50 < len(set(series))
    assert series == [pattern(60.0 * minute) for minute in range(500)]


def test_the_same_seed_gives_the_same_series_and_another_seed_another() -> None:
    """Randomness comes from the seed alone."""
    one, same, other = (noisy(constant(1.0), Random(seed), by=0.1) for seed in (1, 1, 2))
    minutes = [60.0 * minute for minute in range(97)]
    assert list(map(one, minutes)) == list(map(same, minutes))
    assert list(map(one, minutes)) != list(map(other, minutes))


def test_requests_and_usage_of_a_workload() -> None:
    """Requests are millicores and bytes; usage is the request times its pattern."""
    workload = Workload("web", 250, 128 * MIB, constant(0.5), constant(2.0))
    assert (250, 128 * MIB) == (workload.requests.of(CPU), workload.requests.of(MEMORY))
    assert {CPU: 125.0, MEMORY: 256.0 * MIB} == workload.usage(0.0)


def sampled(cpu: float) -> dict[tuple[str, Subject], Reading]:
    """A node with 8 cores, a pod that wants this much CPU, and as much again outside of pods."""
    web = pod("web", on="n1")
    wanted = WantedUsage({"n1": {CPU: 2 * cpu, MEMORY: GIB}}, {web.uid: {CPU: cpu, MEMORY: GIB / 2}})
    readings = sample({"n1": node("n1", 8, 16)}, {web.uid: web}, wanted, 60.0)
    return {(each.resource, each.subject): each for each in readings}


def test_both_resources_of_nodes_and_pods_are_sampled() -> None:
    """Nodes by name, pods by namespace and name, each with its timestamp."""
    found = sampled(1000.0)
    assert {(CPU, Subject.NODES), (CPU, Subject.PODS), (MEMORY, Subject.NODES), (MEMORY, Subject.PODS)} == {*found}
    nodes, pods = found[CPU, Subject.NODES], found[CPU, Subject.PODS]
    assert (("n1",), (2000.0,), (60.0,)) == (nodes.names, nodes.values, nodes.measured)
    assert (("default/web",), (1000.0,), (60.0,)) == (pods.names, pods.values, pods.measured)


@pytest.mark.parametrize(("wanted", "used"), [(3000.0, 3000.0), (4000.0, 4000.0), (8000.0, 4000.0), (16_000.0, 4000.0)])
def test_an_overloaded_node_is_shared_in_proportion(wanted: float, used: float) -> None:
    """The node shows its capacity, and the pod half of it."""
    found = sampled(wanted)
    assert (used,) == found[CPU, Subject.PODS].values
    assert (2 * used,) == found[CPU, Subject.NODES].values
