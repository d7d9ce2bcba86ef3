"""Comparison over seeds: means, deviations and paired ratios, computed by hand."""

import math

import pytest

from trimtab.sim.comparison import Ratio, deviation, mean, paired_ratio, pooled_ratio, summarise, t95


def test_means_and_deviations() -> None:
    """The sample's deviation has n - 1; one value has none, and no value a mean of 0."""
    assert (2.0, 1.0) == (mean([1.0, 2.0, 3.0]), deviation([1.0, 2.0, 3.0]))
    assert (5.0, None, 0.0) == (mean([5.0]), deviation([5.0]), mean([]))


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (4, 2.776), (30, 2.042), (31, 2.040), (60, 2.000), (120, 1.980)]
)
def test_quantiles_of_students_distribution(freedom: int, quantile: float) -> None:
    """As in printed tables, also beyond the end of ours."""
    assert quantile == pytest.approx(t95(freedom), abs=0.005)


def test_a_ratio_is_that_of_means_with_the_interval_of_paired_differences() -> None:
    """Differences of -1, -2 and -3 from a mean of 10: 0.8, plus or minus 4.303 / sqrt(3) / 10."""
    found = paired_ratio({1: 7.0, 2: 8.0, 3: 9.0}, {1: 8.0, 2: 10.0, 3: 12.0})
    assert found is not None and found.low is not None and found.high is not None
    assert (0.8, 0.8 - 0.24844, 0.8 + 0.24844) == pytest.approx((found.ratio, found.low, found.high), abs=1e-4)
    assert not found.significant


def test_a_pooled_ratio_is_that_of_sums_with_an_interval_over_scenarios() -> None:
    """6 of 12 in all; scenarios are 1, -1 and 0 from half of their baseline: 0.5 ± 2.920 * sqrt(2 * 3 / 2) / 12."""
    found = pooled_ratio([3.0, 1.0, 2.0], [4.0, 4.0, 4.0])
    assert found is not None and found.low is not None and found.high is not None
    half = 2.920 * math.sqrt(3) / 12
    assert (0.5, 0.5 - half, 0.5 + half) == pytest.approx((found.ratio, found.low, found.high))


@pytest.mark.parametrize(
    ("values", "baseline", "expected"),
    [
        ([1.0], [2.0], Ratio(0.5, None, None)),
        ([1.0, 2.0], [0.0, 0.0], None),
        ([1.0, 2.0], [2.0, 4.0], Ratio(0.5, 0.5, 0.5)),
    ],
)
def test_pooled_ratios_at_the_edges(values: list[float], baseline: list[float], expected: Ratio | None) -> None:
    """One scenario has no interval, nothing has no ratio, and scenarios that agree have no width."""
    assert expected == pooled_ratio(values, baseline)


def test_noise_that_both_share_cancels_out() -> None:
    """Seeds differ by far more than the policies, and the difference is still seen."""
    base = {seed: 100.0 * seed for seed in range(1, 6)}
    found = paired_ratio({seed: value - 3.0 - 0.1 * seed for seed, value in base.items()}, base)
    assert found is not None and found.significant
    assert 1 - 3.3 / 300 == pytest.approx(found.ratio)


@pytest.mark.parametrize(
    ("ratio", "significant"),
    [
        (Ratio(0.8, 0.7, 0.9), True),
        (Ratio(1.2, 1.1, 1.3), True),
        (Ratio(0.9, 0.7, 1.0), False),
        (Ratio(0.9, 0.7, 1.1), False),
        (Ratio(0.8, None, None), False),
    ],
)
def test_a_difference_counts_if_its_interval_excludes_one(ratio: Ratio, significant: bool) -> None:
    """One seed proves nothing."""
    assert significant == ratio.significant


def test_only_common_seeds_are_compared() -> None:
    """The third seed of one and the fourth of the other do not count; without a common one there is no ratio."""
    found = paired_ratio({1: 1.0, 2: 1.0, 3: 99.0}, {1: 2.0, 2: 2.0, 4: 0.0})
    assert found is not None
    assert (0.5, 0.5, 0.5) == (found.ratio, found.low, found.high)
    assert paired_ratio({3: 1.0}, {4: 1.0}) is None


def test_a_baseline_of_zero_has_no_ratio() -> None:
    """Nothing can be relative to it."""
    assert paired_ratio({1: 1.0, 2: 2.0}, {1: 0.0, 2: 0.0}) is None


def test_the_first_policy_is_the_baseline() -> None:
    """It has no ratio itself, and the others have theirs to it."""
    found = summarise({"stock": {1: 4.0, 2: 6.0}, "ours": {1: 2.0, 2: 4.0}})
    assert ["stock", "ours"] == [*found]
    assert (5.0, None) == (found["stock"].mean, found["stock"].ratio)
    ratio = found["ours"].ratio
    assert (3.0, 2.0**0.5) == pytest.approx((found["ours"].mean, found["ours"].deviation))
    assert ratio is not None and (0.6, 0.6, 0.6) == pytest.approx((ratio.ratio, ratio.low, ratio.high))


def test_an_interval_is_not_negative() -> None:
    """No measure is below 0, however few the seeds; the upper end still says that this is noise."""
    found = paired_ratio({1: 0.0, 2: 0.0}, {1: 1.0, 2: 9.0})
    assert found is not None
    assert (0.0, 0.0) == (found.ratio, found.low)
    assert not found.significant
