"""Decides whether what is kept of each pod is what was sampled: last samples, snapshots, the last hour."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.load.builders import cluster_of, ingest, pod_reading, running_pod
from trimtab.core.load.pod_history import CHUNK, LINES, PodHistory
from trimtab.core.model.resources import CPU

NEVER = -np.inf


def put(profiles: PodHistory, at: float, values: dict[int, float]) -> None:
    slots, amounts = np.array(list(values), dtype=np.intp), np.array(list(values.values()))
    profiles.reserve(max(values))
    profiles.add(at, slots, amounts, amounts)


def test_the_last_hour_is_joined_from_six_parts() -> None:
    """Mean and variance are those of all samples of the last six spans of ten minutes."""
    dice, profiles = np.random.default_rng(3), PodHistory()
    times, values = np.arange(0.0, 7200.0, 15.0), dice.normal(500, 80, 480)
    for at, value in zip(times, values, strict=True):
        put(profiles, at, {0: value, 1: 2 * value})
    within = values[times >= 3600]
    count, mean, squares = profiles.hourly()
    assert [240, 240] == count[:2].tolist()
    assert [within.mean(), 2 * within.mean()] == pytest.approx(mean[:2].tolist(), rel=1e-5)
    assert [within.var(), 4 * within.var()] == pytest.approx((squares[:2] / 240).tolist(), rel=1e-4)


def test_lines_are_moments_for_all_pods_alike() -> None:
    """Who was absent has nothing there, and everybody else keeps the place."""
    profiles = PodHistory()
    for step in range(8):
        put(profiles, 15.0 * step, {0: float(step)} if step % 2 else {0: float(step), 1: 10.0 * step})
    times, samples = profiles.samples(np.array([0, 1]))
    assert [105.0, 90.0, 75.0, 60.0, 45.0, 30.0] == times.tolist()
    assert [7.0, 6.0, 5.0, 4.0, 3.0, 2.0] == samples[:, 0].tolist()
    assert [None, 60.0, None, 40.0, None, 20.0] == [None if x != x else x for x in samples[:, 1].tolist()]


def test_a_snapshot_an_hour_for_a_week() -> None:
    """The first moment of each hour, whoever comes later in it is not there; the eighth day writes over the first."""
    profiles = PodHistory()
    for hour in range(170):
        put(profiles, 3600.0 * hour + 30, {0: float(hour)})
        put(profiles, 3600.0 * hour + 900, {0: -1.0, 1: -1.0})
    begun, snapshots = profiles.snapshots()
    order = np.argsort(begun)
    assert [3600.0 * hour + 30 for hour in range(2, 170)] == begun[order].tolist()
    assert [float(hour) for hour in range(2, 170)] == snapshots[order, 0].tolist()
    assert np.isnan(snapshots[:, 1]).all()


def test_history_finds_its_hours_whenever_it_is_read() -> None:
    """A week of snapshots after the first live sample, oldest first."""
    profiles = PodHistory()
    put(profiles, 3600.0 * 200, {0: 1.0})
    for hour in range(20, 200):
        put(profiles, 3600.0 * hour, {0: float(hour)})
    begun, snapshots = profiles.snapshots()
    order = np.argsort(begun)
    assert [*map(float, range(33, 200)), 1.0] == snapshots[order, 0].tolist()


def test_a_slot_that_changes_hands_begins_anew() -> None:
    """Nothing of the pod before is left in any line."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("old", "a"))
    for step in range(3):
        ingest(cluster, pod_reading({"old": 100.0}, at=15.0 * step))
    slot = cluster.pod_table.slot["uid-old"]
    cluster.delete_pod("uid-old")
    cluster.upsert_pod(running_pod("new", "a", started=40.0))
    assert slot == cluster.pod_table.slot["uid-new"]
    profiles = cluster.load.pod_history(CPU)
    assert profiles is not None
    assert np.isnan(profiles.samples(np.array([slot]))[1]).all()
    assert 0 == profiles.hourly()[0][slot]
    ingest(cluster, pod_reading({"new": 300.0}, at=45.0))
    assert [300.0] == profiles.hourly()[1][[slot]].tolist()


def test_fifty_thousand_pods_fit_in_forty_megabytes() -> None:
    """A resource, however pods came: room grows in small steps, because slots are handed out lowest first."""
    profiles = PodHistory()
    profiles.reserve(CHUNK)
    assert (LINES, 2 * CHUNK) == profiles.cells.shape
    assert 40e6 >= LINES * 4 * (49_999 // CHUNK + 1) * CHUNK


def test_a_copy_borrows_until_somebody_writes() -> None:
    """A fork costs nothing as long as it is only looked at."""
    profiles = PodHistory()
    put(profiles, 0.0, {0: 1.0})
    twin = profiles.copy()
    assert profiles.cells is twin.cells
    put(profiles, 15.0, {0: 5.0})
    assert [1.0] == twin.hourly()[1][:1].tolist()
    assert [3.0] == profiles.hourly()[1][:1].tolist()
    put(twin, 15.0, {0: 2.0})
    assert [3.0, 1.5] == [each.hourly()[1][0] for each in (profiles, twin)]
