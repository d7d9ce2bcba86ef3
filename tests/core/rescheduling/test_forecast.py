"""Forecasters: which hours count more, that the sum of weights stays, and that the objective takes further scenarios in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from tests.core.rescheduling.measured_pods import LIMITS, context, large, measured, running
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.snapshots import SnapshotTimes
from trimtab.core.model.resources import CPU
from trimtab.core.rescheduling.forecast import FORECASTERS, Array, BySnapshots, Forecast, Seasonal, Snapshots
from trimtab.core.rescheduling.objective import NodeLoad, snapshot_weights
from trimtab.core.rescheduling.strategies.hot_spot import HotSpot

NOW_HOUR = 1000


def snapshots(hours: int, now: int = NOW_HOUR) -> Snapshots:
    """One pod: six recent snapshots, and so many hours, the current one first."""
    times = SnapshotTimes(now * 12 + 5 - np.arange(6), now - np.arange(hours))
    usage = {CPU: np.ones((1, 6 + hours), dtype=np.float32)}
    return Snapshots(times, usage, snapshot_weights(6, hours))


def favoured(hours: int) -> list[int]:
    """How many hours ago the snapshots were taken that count more."""
    found = Seasonal().forecast(snapshots(hours)).weights[6:]
    return np.flatnonzero(found > found.min() * 1.5).tolist()


def test_the_coming_hours_of_earlier_days_count_more() -> None:
    """The next three hours: 23, 22 and 21 hours ago, and the same on each day of the week before."""
    assert [24 * day - ahead for day in range(1, 8) for ahead in (3, 2, 1)] == favoured(168)
    found = Seasonal().forecast(snapshots(168)).weights
    assert 4.0 == pytest.approx(found[6 + 23] / found[6 + 24], rel=1e-5)


def test_in_its_first_day_a_cluster_has_no_season() -> None:
    """All hours count alike, as they would by snapshots; with 22 of them the first one counts more."""
    assert ([], [21]) == (favoured(21), favoured(22))


@pytest.mark.parametrize("hours", [0, 1, 22, 100, 168])
def test_a_season_changes_no_sum(hours: int) -> None:
    """What a move must gain means the same; recent snapshots keep their weights."""
    given, found = snapshots(hours), Seasonal().forecast(snapshots(hours))
    assert given.weights.sum() == pytest.approx(found.weights.sum(), rel=1e-5)
    assert given.weights[:6].tolist() == found.weights[:6].tolist() and not found.further


def test_missing_hours_move_no_season() -> None:
    """Hours are told by their numbers: it does not matter that nobody measured in between."""
    given = snapshots(4)
    times = SnapshotTimes(given.times.recent, NOW_HOUR - np.array([0, 1, 21, 24]))
    found = Seasonal().forecast(given._replace(times=times)).weights[6:]
    assert [False, False, True, False] == (found > found[0]).tolist()


@pytest.mark.parametrize("name", FORECASTERS)
def test_without_samples(name: str) -> None:
    """Nothing is known, and nothing fails."""
    nothing = np.zeros(0, dtype=np.int64)
    empty = Snapshots(SnapshotTimes(nothing, nothing), {CPU: np.ones((3, 0), np.float32)}, snapshot_weights(0, 0))
    assert 0 == len(FORECASTERS[name]().forecast(empty).weights)


def test_snapshots_alone_are_the_default() -> None:
    """The weights and the usage that there are without a forecaster."""
    cluster = two_pods()
    plain, by_snapshots = NodeLoad(cluster, LIMITS), NodeLoad(cluster, LIMITS, BySnapshots())
    assert snapshot_weights(2, 1).tolist() == plain.weights.tolist() == by_snapshots.weights.tolist()
    assert plain.penalty.tolist() == by_snapshots.penalty.tolist()


@dataclass(frozen=True, slots=True)
class Doubling:
    """In one further scenario every pod uses twice of what it uses now."""

    name: ClassVar[str] = "doubling"

    def forecast(self, snapshots: Snapshots) -> Forecast:
        further: Mapping[str, Array] = {name: 2 * usage[:, :1] for name, usage in snapshots.usage.items()}
        return Forecast(np.append(snapshots.weights, np.float32(100.0)), further)


def two_pods() -> Cluster:
    """On n1 one pod uses 4 of 10 cores, after 2; on n2 another uses 1."""
    pods = (running("a", "n1", owner="a"), running("b", "n2", owner="b"))
    return measured(large("n1"), large("n2"), *pods, cpu={"a": (2000, 4000), "b": (1000, 1000)})


def test_further_scenarios_follow_the_snapshots() -> None:
    """They count for nodes and pods alike, and moves change them; the newest snapshot still says what fits."""
    cluster = two_pods()
    load = NodeLoad(cluster, LIMITS, Doubling())
    before = load.load(np.array([0, 1]))
    assert [pytest.approx([0.4, 0.2]), pytest.approx([0.1, 0.1])] == before[:, :2].tolist()
    assert pytest.approx([0.8, 0.2]) == before[:, -1].tolist()
    assert load.penalty[0] > NodeLoad(cluster, LIMITS).penalty[0] + 100 * 0.5
    pod = load.pods(np.array([cluster.pod_table.slot["uid-a"]], dtype=np.intp))
    assert load.fits(0, np.array([1]), pod).all()
    gain = load.gains_without(0, pod)[0] - load.losses_with(np.array([1]), pod)[0, 0]
    total = load.penalty.sum()
    load.move(pod, 0, 1)
    assert gain == pytest.approx(total - load.penalty.sum(), rel=1e-4)
    assert pytest.approx([0.0, 1.0], abs=1e-6) == load.load(np.array([0, 1]))[:, -1].tolist()


def test_hot_spots_are_found_beside_further_scenarios() -> None:
    """The strategy looks at the past by its times, and takes no scenario for an hour."""
    usage = [1000.0] * 360
    usage[-1 - 2 - 24 * 12] = 9000.0  # at the beginning of this hour, yesterday
    cluster = measured(large("n1"), running("a", "n1"), cpu={"a": usage})
    seen = context(cluster)
    expected = list(HotSpot().suggest(seen))
    assert ["cpu forecast 90%, limit 80%"] == [each.reason for each in expected]
    assert expected == list(HotSpot().suggest(replace(seen, load=NodeLoad(cluster, LIMITS, Doubling()))))
