"""The last hour of each pod: what is kept is what was sampled, whatever happens to slots and forks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.load.builders import cluster_of, ingest, pod_reading, running_pod
from trimtab.core.load.history import PodHistory
from trimtab.core.model.resources import CPU


def add(history: PodHistory, at: float, values: dict[int, float]) -> None:
    history.add(at, np.array(list(values), dtype=np.intp), np.array(list(values.values())))


def test_the_last_hour_is_merged_from_six_buckets() -> None:
    """Mean and variance are those of all samples of the last six buckets of ten minutes."""
    rng, history = np.random.default_rng(3), PodHistory(2)
    times, values = np.arange(0.0, 7200.0, 15.0), rng.normal(500, 80, 480)
    for at, value in zip(times, values, strict=True):
        add(history, at, {0: value, 1: 2 * value})
    within = values[times >= 3600]
    count, mean, squares = history.hourly()
    assert [240, 240] == count.tolist()
    assert [within.mean(), 2 * within.mean()] == pytest.approx(mean.tolist(), rel=1e-5)
    assert [within.var(), 4 * within.var()] == pytest.approx((squares / 240).tolist(), rel=1e-4)


def test_history_is_sorted_in_whenever_it_is_read() -> None:
    """An hour of history after the first live sample counts as if it had come before; older samples are left out."""
    history = PodHistory(1)
    add(history, 3600.0 * 3, {0: 1.0})
    for minute in range(60, 180):
        add(history, 60.0 * minute, {0: float(minute)})
    count, mean, _ = history.hourly()
    assert ([51], [(sum(range(130, 180)) + 1) / 51]) == (count.tolist(), pytest.approx(mean.tolist(), rel=1e-6))


def test_a_reused_slot_starts_empty() -> None:
    """Nothing of the pod before is left in any bucket."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("old", "a"))
    for step in range(3):
        ingest(cluster, pod_reading({"old": 100.0}, at=15.0 * step))
    slot = cluster.pod_table.slot["uid-old"]
    cluster.delete_pod("uid-old")
    cluster.upsert_pod(running_pod("new", "a", started=40.0))
    assert slot == cluster.pod_table.slot["uid-new"]
    history = cluster.load_store.accounting[CPU].history
    assert 0 == history.hourly()[0][slot]
    ingest(cluster, pod_reading({"new": 300.0}, at=45.0))
    assert [300.0] == history.hourly()[1][[slot]].tolist()


def test_fifty_thousand_pods_fit_in_four_megabytes() -> None:
    """A resource."""
    assert 4e6 >= PodHistory(50_000).nbytes


def test_a_copy_shares_its_arrays_until_one_of_the_two_is_written() -> None:
    """A fork costs nothing as long as it is only read."""
    history = PodHistory(1)
    add(history, 0.0, {0: 1.0})
    copy = history.copy()
    assert history.sums is copy.sums
    add(history, 15.0, {0: 5.0})
    assert [1.0] == copy.hourly()[1].tolist()
    assert [3.0] == history.hourly()[1].tolist()
    add(copy, 15.0, {0: 2.0})
    assert [3.0, 1.5] == [each.hourly()[1][0] for each in (history, copy)]
