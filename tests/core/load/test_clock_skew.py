"""Clocks that differ, and several sources of one metric: no pod is lost between them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.load.builders import (
    cluster_of,
    expected,
    ingest,
    pod_reading,
    pods_sampled_at,
    reading,
    running_pod,
    unsampled,
)
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

BY_REQUESTS = LoadSettings(estimates=("requests",))


def scene(at: float, stamped: float) -> Cluster:
    """A node whose sample has another timestamp than the time it was read."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    ingest(cluster, reading({"a": 1000.0}, at=stamped), at=at)
    return cluster


@pytest.mark.parametrize("ahead", [0.0, 30.0, 119.0])
def test_a_pod_added_after_a_sample_was_read_is_not_in_it(ahead: float) -> None:
    """However far ahead the source's clock is; nor when the same sample is read again."""
    cluster = scene(at=1000.0, stamped=1000.0 + ahead)
    cluster.age_load(1005.0)
    cluster.upsert_pod(running_pod("web", "a"))
    assert {"a": 1500.0} == expected(cluster)
    ingest(cluster, reading({"a": 1000.0}, at=1000.0 + ahead), at=1010.0)
    assert ({"a": 1500.0}, [1000.0]) == (expected(cluster), cluster.load.sampled_at(CPU).tolist())
    ingest(cluster, reading({"a": 1480.0}, at=1015.0 + ahead), at=1015.0)
    assert {"a": 1480.0} == expected(cluster)
    assert [] == check_invariants(cluster)


def test_a_sample_from_a_clock_that_is_ahead_is_trusted_no_longer() -> None:
    """Its age counts from when it was read."""
    cluster = scene(at=1000.0, stamped=1100.0)
    cluster.age_load(1121.0)
    assert [0.5] == cluster.load.trust(CPU).tolist()
    cluster.age_load(1301.0)
    assert [0.0] == cluster.load.trust(CPU).tolist()


@pytest.mark.parametrize("started", [1003.0, 940.0, 1060.0])
def test_a_pod_starts_between_its_placement_and_the_update_about_it(started: float) -> None:
    """Whatever the node's clock says: it is not in the sample before, and it is in the one after."""
    cluster = scene(at=1000.0, stamped=1000.0)
    cluster.age_load(1002.0)
    web = running_pod("web", "a")
    cluster.upsert_pod(web)
    cluster.age_load(1004.0)
    for version in (2, 3):
        cluster.upsert_pod(replace(web, version=version, started=started))
        assert {"a": 500.0} == unsampled(cluster)
    ingest(cluster, reading({"a": 1400.0}, at=1015.0))
    assert {"a": 1400.0} == expected(cluster)
    assert [] == check_invariants(cluster)


def test_of_two_sources_the_newer_sample_of_a_pod_counts() -> None:
    """Until its source fails: then the other one counts, though its clock is behind."""
    cluster = scene(at=1000.0, stamped=1000.0)
    cluster.upsert_pod(running_pod("web", "a", started=100.0))
    ingest(cluster, pod_reading({"web": 300.0}, at=1060.0, source="ahead"), at=1005.0)
    ingest(cluster, pod_reading({"web": 200.0}, at=1010.0, source="behind"))
    assert [1060.0] == pods_sampled_at(cluster)[:1].tolist()
    cluster.discard_source("ahead", 1015.0)
    ingest(cluster, pod_reading({"web": 200.0}, at=1020.0, source="behind"))
    assert [1020.0] == pods_sampled_at(cluster)[:1].tolist()
    cluster.delete_pod("uid-web")
    assert {"a": 800.0} == expected(cluster)
