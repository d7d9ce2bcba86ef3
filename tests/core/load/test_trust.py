"""How long samples are trusted, and what discarding a source invalidates."""

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
    """Also for a node without a trusted sample before."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 2000.0}, at=400.0, source="one"), reading({"a": 1000.0}, at=390.0, source="two"))
    assert {"a": 2000.0} == latest(cluster)


def test_trust_drops_in_steps_with_age() -> None:
    """1 until 120 s, 0.5 until 300 s, then 0; each node by its own sample, and only a step is a change."""
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


def test_a_frozen_series_ages_however_often_it_is_read() -> None:
    """The same sample again is not newer."""
    cluster = cluster_of("a")
    for at in (0.0, 60.0, 121.0):
        ingest(cluster, reading({"a": 100.0}, at=0.0), at=at)
    assert [0.5] == trusts(cluster)
    ingest(cluster, reading({"a": 100.0}, at=0.0), at=301.0)
    assert {"a": None} == latest(cluster)


def test_a_discarded_source_is_not_trusted_until_it_answers() -> None:
    """From one event to the next; samples of other sources stay."""
    cluster = cluster_of("a", "b")
    ingest(cluster, reading({"a": 100.0}), reading({"b": 200.0}, source="other"))
    cluster.discard_source("meter", 10.0)
    assert {"a": None, "b": 200.0} == latest(cluster)
    ingest(cluster, reading({"a": 110.0}, at=20.0))
    assert {"a": 110.0, "b": 200.0} == latest(cluster)


def test_another_source_takes_over_at_once() -> None:
    """Even with a sample that is older than the one no longer trusted."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}, at=50.0))
    cluster.discard_source("meter", 60.0)
    ingest(cluster, reading({"a": 300.0}, at=40.0, source="other"), at=65.0)
    assert {"a": 300.0} == latest(cluster)


def test_new_settings_apply_to_samples_held() -> None:
    """A shorter `stale` lowers trust at once."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}), at=0.0)
    cluster.load_store.advance(60.0)
    cluster.load_store.apply_settings(LoadSettings(fresh=10.0, stale=30.0))
    assert [0.0] == trusts(cluster)


def test_statistics_of_the_source_take_precedence() -> None:
    """Means and deviations, for the nodes where it gives them."""
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
    """And a resource that was never measured has no statistics at all."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}))
    load = cluster.load
    assert [{"a": 100.0}, {"a": None}] == [by_name(cluster, each) for each in (load.mean(CPU), load.deviation(CPU))]
    nothing = [load.latest(MEMORY), load.mean(MEMORY), load.peak(MEMORY, 3600), load.percentile(MEMORY, 95, 300)]
    assert [{"a": None}] * 4 == [by_name(cluster, each) for each in nothing]


def test_a_custom_metric_is_separate_from_a_resource_of_the_same_name() -> None:
    """It may be negative, and is not a fraction of anything."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": -7.0}, unit=Unit.RAW), reading({"a": 100.0}))
    assert ({"a": -7.0}, {"a": 100.0}) == (by_name(cluster, cluster.load.custom(CPU)), latest(cluster))
    assert {"a": None} == by_name(cluster, cluster.load.custom("other"))


def test_a_fork_is_independent() -> None:
    """Samples, failures, added and removed pods and history."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web", "a"))
    for at in (0.0, 15.0):
        ingest(cluster, reading({"a": 1000.0}, at=at), pod_reading({"web": 400.0}, at=at))
    before = [column.copy() for column in (cluster.load.mean(CPU), *cluster.load.forecast(CPU))]
    fork = cluster.fork()
    for at in (30.0, 45.0):
        ingest(fork, reading({"a": 2000.0}, at=at), pod_reading({"web": 1900.0}, at=at))
    fork.delete_pod("uid-web")
    fork.discard_source("meter", 50.0)
    fork.delete_node("a")
    after = (cluster.load.mean(CPU), *cluster.load.forecast(CPU))
    assert [column.tolist() for column in before] == [column.tolist() for column in after]
    ingest(cluster, reading({"a": 1000.0}, at=60.0), pod_reading({"web": 400.0}, at=60.0))
    assert {"a": 1000.0} == by_name(cluster, cluster.load.mean(CPU))
