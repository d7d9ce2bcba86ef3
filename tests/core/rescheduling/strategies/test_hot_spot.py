"""Pods leave nodes that stay hot or are forecast to be, and not those that cool down."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.build import cluster as cluster_of
from tests.core.rescheduling.measured_pods import HOUR, NOW, context, large, running, sample, suggested
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.readings import Reading, Unit
from trimtab.core.rescheduling.strategies.hot_spot import HotSpot, is_falling


def build_cluster() -> Cluster:
    """Two nodes of 10 cores, one of which has a pod."""
    cluster = cluster_of(large("a"), large("b"), running("web", on="a"))
    cluster.load_store.keep_snapshots(True)
    return cluster


def node_used(percent: Sequence[float]) -> Cluster:
    """The pod used this share of its node, the newest last."""
    cluster = build_cluster()
    for step, each in enumerate(percent):
        sample(cluster, NOW - 300.0 * (len(percent) - 1 - step), {"web": 100 * each})
    return cluster


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        ([85, 85, 85], {"a": "cpu above 80% in 3 snapshots, forecast 85%, limit 80%"}),
        ([50, 50, 50, 84, 84, 84], {"a": "cpu above 80% in 3 snapshots, forecast 101%, limit 80%"}),
        ([50, 50, 50, 50, 50, 95], {"a": "cpu forecast 91%, limit 80%"}),
        ([70, 60, 70, 60, 70, 60], {}),
        ([75, 65, 75, 65, 75, 77], {"a": "cpu forecast 82%, limit 80%"}),
        ([99, 95, 91, 87, 83, 79], {}),
        ([99, 98, 97, 96, 95, 94], {"a": "cpu above 80% in 3 snapshots, forecast 93%, limit 80%"}),
        ([60, 60], {}),
        ([95, 95], {}),
    ],
)
def test_forecast(percent: list[float], expected: dict[str, str]) -> None:
    """By mean and deviation, or by the line of falling usage; too few snapshots say nothing."""
    assert expected == suggested(HotSpot(), node_used(percent))


@pytest.mark.parametrize(
    ("recent", "falling", "peak"),
    [
        ([0.6, 0.4, 0.4, 0.6], False, 0.5 + 2 * 0.1),
        ([0.6, 0.7, 0.8, 0.9], True, 0.5),
        ([0.9, 0.8, 0.7, 0.6], False, 0.75 + 2 * 0.0125**0.5),
        ([0.6, 0.8], False, 0.7 + 2 * 0.1),
    ],
)
def test_peak_by_hand(recent: list[float], falling: bool, peak: float) -> None:
    """Newest first: mean and two deviations; a line that falls by 0.1 a step goes on to fall."""
    snapshots = np.array([recent])
    assert ([falling], [pytest.approx(peak)]) == (is_falling(snapshots).tolist(), HotSpot().peak(snapshots).tolist())


@pytest.mark.parametrize(
    ("ago", "expected"), [(23, True), (24, True), (47, True), (48, True), (12, False), (36, False)]
)
def test_earlier_days(ago: int, expected: bool) -> None:
    """A node that was hot at this hour, or the next, on an earlier day will be hot; other hours do not matter."""
    cluster = build_cluster()
    sample(cluster, (NOW // HOUR - ago) * HOUR, {"web": 9500.0})
    for step in range(6):
        sample(cluster, NOW - 300.0 * (5 - step), {"web": 2000.0})
    assert expected == bool(suggested(HotSpot(), cluster))


def test_custom_metric() -> None:
    """A node is hot by a metric of its own, too."""
    cluster = node_used([10, 10, 10])
    cluster.ingest_samples((Reading("psi", "stall", ("a", "b"), (0.3, 0.1), (NOW, NOW), unit=Unit.RAW),), NOW)
    assert {"a": "stall at 0.3, above 0.2"} == suggested(HotSpot(metric="stall"), cluster)
    assert {} == suggested(HotSpot(metric="stall", metric_threshold=0.5), cluster)


def test_stale_metrics() -> None:
    """Without a trusted sample nothing is suggested."""
    cluster = node_used([95, 95, 95])
    cluster.age_load(NOW + HOUR)
    assert [] == list(HotSpot().suggest(context(cluster, NOW + HOUR)))
