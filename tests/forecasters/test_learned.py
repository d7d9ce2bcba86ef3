"""The learned forecaster learns a daily rhythm, is bounded, repeatable and never negative; without LightGBM it says so."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from trimtab.core.load.snapshots import SnapshotTimes
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.forecast import COMING_HOURS, Array, Snapshots
from trimtab.core.rescheduling.objective import snapshot_weights
from trimtab.core.tables import Ints
from trimtab.forecasters import learned
from trimtab.forecasters.learned import Learned, by_hour, features, sampled

needs_lightgbm = pytest.mark.skipif(
    find_spec("lightgbm") is None, reason="LightGBM is not installed: pip install 'trimtab[learned]'"
)
NOW_HOUR = 1000


def rhythm(pods: int, hours: Ints) -> Array:
    """Millicores by pod and hour: each pod is busy for eight hours of the day, and begins at an hour of its own."""
    busy = (hours[None, :] + 3 * np.arange(pods)[:, None]) % 24 < 8
    return np.where(busy, 1000.0, 100.0).astype(np.float32) * (1 + np.arange(pods)[:, None] % 5).astype(np.float32)


def snapshots(pods: int, hours: int) -> Snapshots:
    """Taken until the beginning of an hour, which is the newest."""
    times = SnapshotTimes(np.array([NOW_HOUR * 12]), NOW_HOUR - np.arange(hours))
    usage = rhythm(pods, times.hourly)
    both = np.hstack([usage[:, :1], usage])
    return Snapshots(times, {CPU: both, MEMORY: 1e6 * both}, snapshot_weights(1, hours))


def test_hours_are_told_by_their_numbers() -> None:
    """The current hour is last and has the newest snapshot; hours in which nobody measured are unknown."""
    times = SnapshotTimes(np.array([NOW_HOUR * 12 + 3]), NOW_HOUR - np.array([0, 1, 3]))
    given = Snapshots(times, {}, snapshot_weights(1, 3))
    found = by_hour(given, np.array([[9.0, 5.0, 4.0, 2.0]], dtype=np.float32))
    np.testing.assert_array_equal([[np.nan, 2.0, np.nan, 4.0, 9.0]], found[:, -5:])
    assert np.isnan(found[:, :-4]).all()


def test_features_know_nothing_of_what_they_predict() -> None:
    """Whatever comes after an hour, or is not on the hour, changes nothing in the features of that hour."""
    lines = by_hour(snapshots(4, 168), snapshots(4, 168).usage[CPU])
    pods, hours = np.array([0, 1, 2]), np.array([60, 80, 120])
    changed = lines.copy()
    for pod, hour in zip(pods, hours, strict=True):
        changed[pod, hour + 1 :] = 7.0
    for ahead in range(1, COMING_HOURS + 1):
        before, after = (features(each, pods, hours, ahead) for each in (lines, changed))
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("pods", [1, 7, 50_000])
def test_the_sample_is_bounded(pods: int) -> None:
    """Of any number of pods; every row has a day before it, and its outcome is known."""
    lines = np.zeros((pods, 169), dtype=np.float32)
    for ahead in range(1, COMING_HOURS + 1):
        chosen, hours = sampled(lines, ahead)
        assert 0 < len(chosen) <= learned.SAMPLE // COMING_HOURS
        assert (24 <= hours).all() and (hours + ahead < 168).all() and (chosen < pods).all()
    assert pods < 7 or len(set(hours.tolist())) > 100


@needs_lightgbm
def test_it_learns_a_rhythm() -> None:
    """It is nearer to what the coming hours bring than the assumption that nothing changes, by far."""
    given = snapshots(60, 168)
    actual = rhythm(60, NOW_HOUR + 1 + np.arange(COMING_HOURS))
    found = Learned().forecast(given)
    unchanged = np.abs(given.usage[CPU][:, :1] - actual).mean()
    assert np.abs(found.further[CPU] - actual).mean() < 0.25 * unchanged
    np.testing.assert_allclose(1e6 * found.further[CPU], found.further[MEMORY], rtol=1e-3)


@needs_lightgbm
def test_weights_keep_their_sum() -> None:
    """The predictions take over half of what the recent snapshots count."""
    given, found = snapshots(20, 100), Learned().forecast(snapshots(20, 100))
    assert given.weights.sum() == pytest.approx(found.weights.sum(), rel=1e-5)
    assert given.weights[0] / 2 == pytest.approx(found.weights[-COMING_HOURS:].sum(), rel=1e-5)
    assert (20, COMING_HOURS) == found.further[CPU].shape == found.further[MEMORY].shape


@needs_lightgbm
def test_the_same_snapshots_give_the_same_forecast() -> None:
    """To the last bit, which a replay relies on."""
    first, second = (Learned().forecast(snapshots(60, 168)).further[CPU] for _ in range(2))
    assert first.tobytes() == second.tobytes()


@needs_lightgbm
def test_nothing_is_predicted_from_too_little() -> None:
    """With 30 hours it begins; without pods there is nothing to predict."""
    assert not Learned().forecast(snapshots(60, 30)).further
    assert Learned().forecast(snapshots(60, 31)).further
    assert (0, COMING_HOURS) == Learned().forecast(snapshots(0, 168)).further[CPU].shape


@needs_lightgbm
def test_only_the_largest_pods_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are taken to go on as they are, so that the time is bounded."""
    monkeypatch.setattr(learned, "MAX_PODS", 24)
    given = snapshots(60, 168)
    found = Learned().forecast(given).further[CPU]
    alike = np.flatnonzero((found == given.usage[CPU][:, :1]).all(axis=1))
    assert 36 == len(alike) and given.usage[CPU][alike].mean() < given.usage[CPU].mean()


@needs_lightgbm
def test_usage_is_never_negative() -> None:
    """Also of pods that use nothing, and of pods that stop."""
    given = snapshots(60, 168)
    given.usage[CPU][:30] = 0.0
    given.usage[CPU][30:, :3] = 0.0
    found = Learned().forecast(given).further[CPU]
    assert (found >= 0).all() and np.isfinite(found).all() and (found[:30] == 0).all()


def test_without_lightgbm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(
        ValueError, match=r"lightgbm is not installed: run `pip install 'trimtab\[learned\]'`, or write"
    ):
        Learned()
