"""The Beta CDF is correct, for one row and for many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.core.plugins.trimaran.beta_cdf import MAX_SCALAR_ROWS, CachedCdf, beta_cdf

shares = st.floats(0.001, 0.999)
OFTEN = settings(max_examples=200, deadline=None)


def likely(mean: float, deviation: float, bound: float, top: float = 1.0) -> float:
    return beta_cdf(np.array([mean]), np.array([deviation]), np.array([bound]), np.array([top])).item()


def of_shapes(one: int, other: int) -> tuple[float, float]:
    """Mean and deviation of the distribution with these shapes."""
    size = one + other
    return one / size, math.sqrt(one * other / (size * size * (size + 1)))


@pytest.mark.parametrize("one", [1, 2, 5, 30, 200])
@pytest.mark.parametrize("other", [1, 3, 8, 60, 300])
@pytest.mark.parametrize("bound", [0.05, 0.3, 0.5, 0.77, 0.95])
def test_whole_shapes(one: int, other: int, bound: float) -> None:
    """With whole shapes it is the chance of so many heads: of a + b - 1 throws, a or more."""
    throws = one + other - 1
    heads = range(one, throws + 1)
    expected = sum(math.comb(throws, each) * bound**each * (1 - bound) ** (throws - each) for each in heads)
    assert pytest.approx(expected, abs=1e-7) == likely(*of_shapes(one, other), bound)


def test_outside() -> None:
    """Nothing is below 0 and everything is below 1."""
    assert [0.0, 0.0, 1.0, 1.0] == [likely(0.4, 0.1, bound) for bound in (-1.0, 0.0, 1.0, 2.0)]


@pytest.mark.parametrize(("bound", "expected"), [(0.3, 0.5), (0.3 + 1e-6, 0.8413), (0.29, 0.0), (0.31, 1.0)])
def test_narrow(bound: float, expected: float) -> None:
    """A load that hardly varies is below the bound or not; close to it the normal distribution applies."""
    assert pytest.approx(expected, abs=1e-4) == likely(0.3, 1e-6, bound)


@OFTEN
@given(mean=shares, part=st.floats(0.001, 0.994), bounds=st.tuples(shares, shares))
def test_a_distribution(mean: float, part: float, bounds: tuple[float, float]) -> None:
    """It lies between 0 and 1 and never falls."""
    deviation = part * math.sqrt(mean * (1 - mean))
    low, high = (likely(mean, deviation, bound) for bound in sorted(bounds))
    assert 0.0 <= low <= high + 1e-7 <= 1.0 + 1e-7


@pytest.mark.parametrize(
    ("mean", "deviation", "bound", "expected"),
    [(0.0, 0.0, 0.0, 1.0), (0.3, 0.0, 0.3, 1.0), (0.3, 0.0, 0.29, 0.0), (1.0, 0.5, 0.99, 0.0), (1.0, 0.5, 1.0, 1.0)],
)
def test_a_share_that_does_not_vary(mean: float, deviation: float, bound: float, expected: float) -> None:
    """It is below the bound or it is not, and one that is always 1 cannot vary."""
    assert expected == likely(mean, deviation, bound)


def test_missing() -> None:
    """What is not known stays unknown, whatever holds it."""
    assert all(
        math.isnan(likely(*each, 0.5, top)) for each in ((math.nan, 0.1), (0.1, math.nan)) for top in (0.0, 0.5, 1.0)
    )


def test_too_wide() -> None:
    """A deviation that no share can have is cut, and half of the time it is then at either end."""
    assert pytest.approx(0.5, abs=1e-6) == likely(0.5, 7.0, 0.5)


def test_held() -> None:
    """A share that cannot pass the top is below a bound so much likelier; above the top there is nothing."""
    free = {bound: likely(0.5, 0.1, bound) for bound in (0.5, 0.6)}
    assert pytest.approx(free[0.5] / free[0.6]) == likely(0.5, 0.1, 0.5, 0.6)
    assert [1.0, 1.0, 1.0] == [likely(0.5, 0.1, 0.5, top) for top in (0.5, 0.4, 0.0)]
    assert free[0.5] == likely(0.5, 0.1, 0.5, 2.0)


figures = st.tuples(
    st.floats(0.0, 1.0), st.floats(0.0, 0.6), st.floats(-0.1, 1.1), st.sampled_from((0.0, 0.2, 0.5, 0.9, 1.0, 3.0))
)


@OFTEN
@given(rows=st.lists(figures, min_size=1, max_size=2 * MAX_SCALAR_ROWS))
def test_one_as_many(rows: list[tuple[float, float, float, float]]) -> None:
    """A row's value is the same to the last digit, however many rows are computed together."""
    asked = [np.array(column) for column in zip(*(rows * (MAX_SCALAR_ROWS + 1)), strict=True)]
    alone = [likely(*row) for row in rows * (MAX_SCALAR_ROWS + 1)]
    assert alone == beta_cdf(*asked).tolist()


def test_remembered() -> None:
    """Earlier inputs never alter a result, whether values change or their number does."""
    remembered = CachedCdf()
    for count, bound in ((40, 0.2), (40, 0.4), (39, 0.4), (0, 0.4), (40, 0.4)):
        mean = np.where(np.arange(count) < count // 2, 0.3, 0.3 + bound / 10)
        asked = mean, np.full(count, 0.1), np.full(count, bound), np.full(count, 0.8)
        assert beta_cdf(*asked).tolist() == remembered.beta_cdf(*asked).tolist()
