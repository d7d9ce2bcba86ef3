"""Figures: shares as percent, few digits, and ratios with what they are worth."""

from __future__ import annotations

import pytest

from trimtab.apps.simulate.figures import SHARES, figure, heading, number, ratio_text
from trimtab.sim.comparison import Ratio
from trimtab.sim.measures import MEASURES_BY_NAME


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (0.05715432, "0.05715"), (1.1141, "1.114"), (53.0, "53"), (12345.6, "12,346"), (0.00001234, "1.2e-05")],
)
def test_numbers(value: float, expected: str) -> None:
    """Four figures are more than noise leaves."""
    assert expected == number(value)


@pytest.mark.parametrize(
    ("measure", "value", "expected"),
    [("hot80", 0.107, "10.7 %"), ("hot80", 0.0923, "9.2 %"), ("unmet", 0.000081, "0.0081 %"), ("spread", 0.1, "0.1")],
)
def test_shares_are_percent(measure: str, value: float, expected: str) -> None:
    """And other measures are not."""
    assert expected == figure(measure, value)
    assert set(MEASURES_BY_NAME) > SHARES


def test_headings_have_units() -> None:
    """If there is one."""
    assert ("hot80", "pending_p99 (s)") == (heading("hot80"), heading("pending_p99"))


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (Ratio(0.5, 0.4, 0.6), "×0.50 [0.40, 0.60]"),
        (Ratio(0.9, 0.7, 1.1), "×0.90 [0.70, 1.10] ≈"),
        (Ratio(0.9, None, None), "×0.90"),
        (Ratio(1.0, 1.0, 1.0), "the same"),
    ],
)
def test_ratios(ratio: Ratio, expected: str) -> None:
    """With the interval, and a mark within the noise."""
    assert expected == ratio_text(ratio)
