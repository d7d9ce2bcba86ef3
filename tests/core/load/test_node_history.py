"""Percentiles, means and peaks of nodes are exact, in whatever order samples arrive."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.load.builders import by_name, cluster_of, ingest, reading
from trimtab.core.load.history import NodeHistory
from trimtab.core.model.resources import CPU

ROW = np.array([0])


def history_of(*samples: tuple[float, float]) -> NodeHistory:
    """One node: times and values."""
    history = NodeHistory(1)
    for at, value in samples:
        history.add(at, ROW, np.array([value]))
    return history


@pytest.mark.parametrize("percent", [50, 90, 95, 99])
@pytest.mark.parametrize("seconds", [300, 600, 1800])
def test_statistics_are_those_of_the_samples_in_the_window(percent: int, seconds: int) -> None:
    """Exactly, within the precision of the samples."""
    rng = np.random.default_rng(7)
    times, values = np.arange(0.0, 3600.0, 15.0), rng.uniform(0, 4000, 240).astype(np.float32)
    history = history_of(*zip(times, values, strict=True))
    within = values[times > times[-1] - seconds]
    assert np.percentile(within, percent) == pytest.approx(history.percentile(percent, seconds)[0])
    assert within.mean() == pytest.approx(history.mean(seconds)[0])
    assert within.std(ddof=1) == pytest.approx(history.deviation(seconds)[0], rel=1e-5)


def test_samples_in_any_order_give_the_same_statistics() -> None:
    """History is often read after the first live samples."""
    samples = [(15.0 * step, float(step * step % 17)) for step in range(100)]
    ordered, mixed = history_of(*samples), history_of(*(samples[-3:] + samples[:-3]))
    for name in ("mean", "deviation", "peak"):
        assert getattr(ordered, name)(1800) == pytest.approx(getattr(mixed, name)(1800))
    assert ordered.percentile(95, 1800) == pytest.approx(mixed.percentile(95, 1800))


def test_frequent_samples_do_not_shorten_the_history() -> None:
    """At most one sample per twelve seconds is kept."""
    history = history_of(*((float(second), 1.0 if second < 1200 else 3.0) for second in range(1800)))
    assert [1.0] == history.percentile(50, 1800).tolist()
    assert [3.0] == history.percentile(99, 1800).tolist()
    assert history.ring.within(1800).sum() <= 150


def test_the_peak_is_the_highest_five_minute_mean() -> None:
    """A single spike counts with the minutes around it; older buckets do not count."""
    spike = [(15.0 * step, 100.0) for step in range(241)]
    spike[10] = (150.0, 2100.0)
    history = history_of(*spike, (3600.0 + 3600.0, 50.0))
    assert [50.0] == history.peak(3600).tolist()
    assert [200.0] == pytest.approx(history.peak(86400).tolist())


def test_nodes_keep_their_history_when_rows_move() -> None:
    """The last node moves into a removed row; a new node starts empty."""
    cluster = cluster_of("a", "b", "c")
    for step, at in enumerate((0.0, 15.0)):
        ingest(cluster, reading({"a": 100.0, "b": 200.0, "c": 300.0 + 10 * step}, at=at))
    cluster.delete_node("a")
    assert {"c": 305.0, "b": 200.0} == by_name(cluster, cluster.load.recent_mean(CPU, 300))
    for name in "defghijklmnopqrstuvw":
        cluster.upsert_node(cluster_of(name).node_table.nodes[0])
    figures = by_name(cluster, cluster.load.recent_mean(CPU, 300))
    assert (305.0, 200.0, {None}) == (figures.pop("c"), figures.pop("b"), set(figures.values()))


def test_history_is_never_the_newest_value() -> None:
    """It fills statistics, but does not tell the current usage."""
    cluster = cluster_of("a")
    past = [reading({"a": 100.0 + step}, at=15.0 * step) for step in range(20)]
    assert {"future": 1} == cluster.ingest_history((*past, reading({"a": 1.0}, at=9999.0)), 300.0)
    assert {"a": None} == by_name(cluster, cluster.load.recent_mean(CPU, 1800))
    ingest(cluster, reading({"a": 120.0}, at=300.0))
    assert {"a": 110.0} == by_name(cluster, cluster.load.recent_mean(CPU, 1800))
    assert {"a": 120.0} == by_name(cluster, cluster.load.latest(CPU))
