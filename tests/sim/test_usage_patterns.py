"""Usage patterns: their shapes, and that what is random in them depends on the pod's key and the time alone."""

import numpy as np
import pytest

from trimtab.core.model.duration import DAY, HOUR
from trimtab.sim.usage_patterns import (
    Bursty,
    Daily,
    Noisy,
    Ramp,
    Recorded,
    Steady,
    Surge,
    Total,
    UsagePattern,
    without_gaps,
)


def at(pattern: UsagePattern, *times: float, started: float = 0.0, key: int = 1) -> list[float]:
    return pattern.amounts(np.array(times), started, key).tolist()


def test_steady() -> None:
    """The same at all times."""
    assert [5.0, 5.0] == at(Steady(5.0), 0.0, 1e6)


def test_a_wave_is_highest_at_its_peak_and_lowest_half_a_day_from_it() -> None:
    """One period per day between the two levels."""
    wave = Daily(200.0, 1400.0, peak=14 * HOUR)
    assert [1400.0, 200.0, 1400.0, 800.0] == pytest.approx(at(wave, 14 * HOUR, 2 * HOUR, 14 * HOUR + DAY, 8 * HOUR))


@pytest.mark.parametrize(("time", "amount"), [(0.0, 1.0), (100.0, 1.0), (150.0, 0.75), (200.0, 0.5), (999.0, 0.5)])
def test_a_ramp_is_linear_and_constant_outside(time: float, amount: float) -> None:
    """It begins its delay after the pod's start, and ends after its seconds."""
    assert [amount] == pytest.approx(at(Ramp(1.0, 0.5, seconds=100.0, delay=60.0), time, started=40.0))


@pytest.mark.parametrize(
    ("time", "amount"), [(0.0, 0.0), (100.0, 0.0), (105.0, 0.4), (110.0, 0.8), (190.0, 0.8), (195.0, 0.4), (999.0, 0.0)]
)
def test_a_surge_rises_stays_and_falls(time: float, amount: float) -> None:
    """Zero outside its time; it falls as fast as it rises."""
    assert [amount] == pytest.approx(at(Surge(0.8, begins=100.0, ends=200.0, rise=10.0), time))


def test_bursts_have_two_levels_and_their_share() -> None:
    """A slot is a burst as a whole, about as often as the share says."""
    pattern = Bursty(1.0, 9.0, share=0.25, seconds=60.0)
    amounts = at(pattern, *(60.0 * slot + 30 for slot in range(1000)))
    assert {1.0, 9.0} == set(amounts)
    assert 200 < amounts.count(9.0) < 300
    assert amounts[7] == at(pattern, 7 * 60.0)[0] == at(pattern, 7 * 60.0 + 59.9)[0]


def test_gaps_are_filled_with_the_value_before_them() -> None:
    """One at the beginning has the first value."""
    assert [4.0, 4.0, 4.0, 6.0] == without_gaps(np.array([np.nan, 4.0, np.nan, 6.0])).tolist()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (Recorded(np.array([1.0, 2.0, 3.0]), 10.0), [1.0, 1.0, 2.0, 3.0, 3.0]),
        (Recorded(np.array([1.0, 2.0, 3.0]), 10.0, repeat=True), [1.0, 1.0, 2.0, 3.0, 1.0]),
        (Recorded(np.array([1.0, 2.0, 3.0]), 10.0, begins=90.0), [2.0, 2.0, 3.0, 3.0, 3.0]),
    ],
)
def test_a_recording_has_one_value_per_step(pattern: Recorded, expected: list[float]) -> None:
    """From the pod's start or from a time on; at its end the last value stays, or it starts again."""
    assert expected == at(pattern, 100.0, 109.9, 110.0, 125.0, 130.0, started=100.0)


def test_noise_is_bounded_and_changes_by_the_minute() -> None:
    """Within its limit, not constant, constant within a minute, and repeatable in any order."""
    pattern = Noisy(Steady(2.0), by=0.1)
    series = at(pattern, *(60.0 * minute for minute in range(500)))
    assert 1.8 <= min(series) < 1.9 < 2.1 < max(series) <= 2.2
    assert 400 < len(set(series))
    assert series[::-1] == at(pattern, *(60.0 * minute + 59 for minute in reversed(range(500))))


def test_another_key_gives_other_noise() -> None:
    """What is random depends on the pod."""
    pattern = Noisy(Steady(2.0), by=0.1)
    assert at(pattern, 0.0, key=1) != at(pattern, 0.0, key=2)
    assert at(pattern, 0.0, key=2**64 - 1) == at(pattern, 0.0, key=2**64 - 1)


def test_a_total_adds_up() -> None:
    """The sum at each time."""
    assert [1.0, 6.0] == at(Total((Steady(1.0), Ramp(0.0, 5.0, seconds=10.0))), 0.0, 10.0)
