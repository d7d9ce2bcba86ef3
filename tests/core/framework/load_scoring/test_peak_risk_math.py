"""Proves the table of the normal distribution, and that arrays and plain numbers give the same answers."""

from __future__ import annotations

import math

import numpy as np

from trimtab.core.framework.load_scoring.peak_risk_math import (
    RiskInputs,
    distance_to_limit,
    distance_to_limit_by_row,
    normal_cdf,
    normal_cdf_one,
)


def test_probability() -> None:
    """The table gives the normal distribution to a millionth, and its ends beyond it."""
    at = np.linspace(-12, 12, 1001)
    expected = np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in at])
    assert np.abs(expected - normal_cdf(at)).max() < 1e-6


def test_one_probability_as_many() -> None:
    """One at a time they are the same to the last digit."""
    at = np.linspace(-9, 9, 5003)
    assert normal_cdf(at).tolist() == [normal_cdf_one(each) for each in at.tolist()]


def test_rows_one_by_one_as_many() -> None:
    """Row by row the distances are those of all rows at once, where something is missing and where all is known."""
    dice = np.random.default_rng(1)
    mean, variance, trust, asked, capacity = dice.uniform(0, 1, (5, 500))
    mean[::7], variance[::5], trust = np.nan, np.nan, np.round(trust * 2) / 2
    look = RiskInputs(mean * 9000, variance * 9e5, trust, asked * 9000, capacity * 8000, 200.0, 4e4, 0.8, 0.02, 0.25)
    beyond, fullness = distance_to_limit(look)
    assert list(zip(beyond.tolist(), fullness.tolist(), strict=True)) == distance_to_limit_by_row(look)


def test_doubt_only_adds_risk() -> None:
    """Less trust never brings a node further below its limit."""
    mean, rest = np.linspace(0, 1200, 25), np.full(25, 400.0)
    sure, half = (
        RiskInputs(mean, rest, np.full(25, trust), mean, np.full(25, 1000.0), 0.0, 0.0, 0.8, 0.02, 0.25)
        for trust in (1.0, 0.5)
    )
    assert (distance_to_limit(sure)[0] <= distance_to_limit(half)[0]).all()
