"""Decides how long samples are believed, and what a source that falls silent takes with it."""

from __future__ import annotations

import pytest

from tests.core.load.builders import by_name, cluster_of, ingest, pod_reading, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.readings import Statistic, Unit
from trimtab.core.model.resources import CPU, MEMORY


def trusts(cluster: Cluster) -> list[float]:
    return list(cluster.load.trust(CPU).tolist())


def latest(cluster: Cluster) -> dict[str, float | None]:
    return by_name(cluster, cluster.load.latest(CPU))


def test_of_two_samples_in_one_scrape_the_newer_counts() -> None:
    """Also of a node of which nothing was believed before."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 2000.0}, at=400.0, source="one"), reading({"a": 1000.0}, at=390.0, source="two"))
    assert {"a": 2000.0} == latest(cluster)


def test_trust_goes_in_steps_by_the_samples_own_age() -> None:
    """Whole until 120 s, half until 300 s, then none; each node by its own sample, and only a step is a change."""
    cluster = cluster_of("old", "new")
    ingest(cluster, reading({"old": 100.0}, at=0.0))
    ingest(cluster, reading({"new": 100.0}, at=100.0))
    steps = [
        (cluster.load_store.advance(at), at, trusts(cluster))
        for at in (110.0, 120.5, 130.0, 221.0, 301.0, 401.0, 500.0)
    ]
    assert [
        (False, 110.0, [1.0, 1.0]),
        (True, 120.5, [0.5, 1.0]),
        (False, 130.0, [0.5, 1.0]),
        (True, 221.0, [0.5, 0.5]),
        (True, 301.0, [0.0, 0.5]),
        (True, 401.0, [0.0, 0.0]),
        (False, 500.0, [0.0, 0.0]),
    ] == steps
    assert {"old": None, "new": None} == latest(cluster)


def test_a_frozen_series_grows_old_however_often_it_is_read() -> None:
    """The same sample again is no news."""
    cluster = cluster_of("a")
    for at in (0.0, 60.0, 121.0):
        ingest(cluster, reading({"a": 100.0}, at=0.0), at=at)
    assert [0.5] == trusts(cluster)
    ingest(cluster, reading({"a": 100.0}, at=0.0), at=301.0)
    assert {"a": None} == latest(cluster)


def test_a_source_that_fails_is_not_believed_until_it_answers() -> None:
    """Within one event each way; what another source says goes on."""
    cluster = cluster_of("a", "b")
    ingest(cluster, reading({"a": 100.0}), reading({"b": 200.0}, source="other"))
    cluster.source_failed("meter", 10.0)
    assert {"a": None, "b": 200.0} == latest(cluster)
    ingest(cluster, reading({"a": 110.0}, at=20.0))
    assert {"a": 110.0, "b": 200.0} == latest(cluster)


def test_another_source_takes_over_at_once() -> None:
    """Even with a sample that is older than the one nobody believes any more."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}, at=50.0))
    cluster.source_failed("meter", 60.0)
    ingest(cluster, reading({"a": 300.0}, at=40.0, source="other"), at=65.0)
    assert {"a": 300.0} == latest(cluster)


def test_settings_judge_what_is_held_already() -> None:
    """A shorter patience takes trust away at once."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}), at=0.0)
    cluster.load_store.advance(60.0)
    cluster.load_store.apply_settings(LoadSettings(fresh=10.0, stale=30.0))
    assert [0.0] == trusts(cluster)


def test_what_a_source_makes_of_many_samples_goes_before_our_own() -> None:
    """Means and deviations that it gives, where it gives them."""
    cluster = cluster_of("a", "b")
    for at in (0.0, 15.0):
        ingest(cluster, reading({"a": 100.0 + at, "b": 100.0 + at}, at=at))
    given = {"a": 0.3}
    ingest(
        cluster,
        reading(given, 15.0, unit=Unit.FRACTION, statistic=Statistic.MEAN),
        reading({"a": 0.1}, 15.0, unit=Unit.FRACTION, statistic=Statistic.DEVIATION),
    )
    assert {"a": 1200.0, "b": 107.5} == by_name(cluster, cluster.load.mean(CPU))
    assert {"a": 400.0, "b": pytest.approx(10.606602)} == by_name(cluster, cluster.load.deviation(CPU))


def test_one_sample_has_no_deviation() -> None:
    """And what was never measured has nothing at all."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}))
    load = cluster.load
    assert [{"a": 100.0}, {"a": None}] == [by_name(cluster, each) for each in (load.mean(CPU), load.deviation(CPU))]
    nothing = [load.latest(MEMORY), load.mean(MEMORY), load.peak(MEMORY, 3600), load.percentile(MEMORY, 95, 300)]
    assert [{"a": None}] * 4 == [by_name(cluster, each) for each in nothing]


def test_a_metric_of_the_users_own_is_kept_apart_from_what_it_is_named_after() -> None:
    """It may be negative, and it is no share of anything."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": -7.0}, unit=Unit.RAW), reading({"a": 100.0}))
    assert ({"a": -7.0}, {"a": 100.0}) == (by_name(cluster, cluster.load.custom(CPU)), latest(cluster))
    assert {"a": None} == by_name(cluster, cluster.load.custom("other"))


def test_a_fork_goes_its_own_way() -> None:
    """Nothing read, failed, come or gone in one is seen in the other, histories included."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web", "a"))
    for at in (0.0, 15.0):
        ingest(cluster, reading({"a": 1000.0}, at=at), pod_reading({"web": 400.0}, at=at))
    before = [column.copy() for column in (cluster.load.mean(CPU), *cluster.load.forecast(CPU))]
    twin = cluster.fork()
    for at in (30.0, 45.0):
        ingest(twin, reading({"a": 2000.0}, at=at), pod_reading({"web": 1900.0}, at=at))
    twin.delete_pod("uid-web")
    twin.source_failed("meter", 50.0)
    twin.delete_node("a")
    after = (cluster.load.mean(CPU), *cluster.load.forecast(CPU))
    assert [column.tolist() for column in before] == [column.tolist() for column in after]
    ingest(cluster, reading({"a": 1000.0}, at=60.0), pod_reading({"web": 400.0}, at=60.0))
    assert {"a": 1000.0} == by_name(cluster, cluster.load.mean(CPU))
