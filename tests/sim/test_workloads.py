"""Usage patterns: their shapes, and that all chance is drawn once."""

from random import Random

import pytest

from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.workloads import DAY, HOUR, MIB, Workload, burst, constant, daily_wave, noisy, ramp


@pytest.mark.parametrize(("at", "share"), [(14 * HOUR, 1.4), (2 * HOUR, 0.2), (14 * HOUR + DAY, 1.4), (8 * HOUR, 0.8)])
def test_a_wave_is_highest_at_its_peak_and_lowest_half_a_day_from_it(at: float, share: float) -> None:
    """One wave a day between the two shares."""
    assert share == pytest.approx(daily_wave(0.2, 1.4, peak=14 * HOUR)(at))


@pytest.mark.parametrize(("at", "share"), [(0.0, 1.0), (100.0, 1.0), (150.0, 0.75), (200.0, 0.5), (999.0, 0.5)])
def test_a_ramp_is_straight_and_level_outside(at: float, share: float) -> None:
    """A ramp moves only between its begin and its end."""
    assert share == pytest.approx(ramp(1.0, 0.5, begins=100.0, ends=200.0)(at))


@pytest.mark.parametrize(
    ("at", "share"), [(0.0, 0.0), (100.0, 0.0), (105.0, 0.4), (110.0, 0.8), (190.0, 0.8), (195.0, 0.4), (999.0, 0.0)]
)
def test_a_burst_rises_stays_and_goes_again(at: float, share: float) -> None:
    """It is nothing outside its time, and takes as long to go as to come."""
    assert share == pytest.approx(burst(0.8, begins=100.0, ends=200.0, rise=10.0)(at))


def test_noise_stays_within_its_share_and_is_the_same_each_time_one_looks() -> None:
    """Noise moves by at most its share, does move, and looking again changes nothing."""
    pattern = noisy(constant(2.0), Random(7), by=0.1)
    series = [pattern(60.0 * minute) for minute in range(500)]
    assert all(1.8 <= value <= 2.2 for value in series)
    assert 50 < len(set(series))
    assert series == [pattern(60.0 * minute) for minute in range(500)]


def test_the_same_seed_gives_the_same_series_and_another_seed_another() -> None:
    """Chance comes from the seed alone."""
    one, same, other = (noisy(constant(1.0), Random(seed), by=0.1) for seed in (1, 1, 2))
    minutes = [60.0 * minute for minute in range(97)]
    assert list(map(one, minutes)) == list(map(same, minutes))
    assert list(map(one, minutes)) != list(map(other, minutes))


def test_a_workload_asks_in_exact_units_and_uses_a_share_of_that() -> None:
    """Requests are thousandths of a core and bytes; use is the request times its pattern."""
    workload = Workload("web", 250, 128 * MIB, constant(0.5), constant(2.0))
    assert (250, 128 * MIB) == (workload.requests.of(CPU), workload.requests.of(MEMORY))
    assert {CPU: 125.0, MEMORY: 256.0 * MIB} == workload.usage(0.0)
