"""Decides what counts where clocks differ and where several sources measure the same: nobody is lost between them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.load.meters import expected, machines, of_pods, pending, read, reading, runs
from trimtab.core.cluster.invariants import faults
from trimtab.core.cluster.state import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

BY_REQUESTS = LoadSettings(estimates=("requests",))


def scene(at: float, stamped: float) -> Cluster:
    """A node whose sample says another time than it was read at."""
    cluster = machines("a", settings=BY_REQUESTS)
    read(cluster, reading({"a": 1000.0}, at=stamped), at=at)
    return cluster


@pytest.mark.parametrize("ahead", [0.0, 30.0, 119.0])
def test_who_comes_after_a_sample_was_read_is_not_in_it(ahead: float) -> None:
    """However far ahead the clock of its source is; nor when the same sample is read again."""
    cluster = scene(at=1000.0, stamped=1000.0 + ahead)
    cluster.age(1005.0)
    cluster.see_pod(runs("web", "a"))
    assert {"a": 1500.0} == expected(cluster)
    read(cluster, reading({"a": 1000.0}, at=1000.0 + ahead), at=1010.0)
    assert ({"a": 1500.0}, [1000.0]) == (expected(cluster), cluster.load.measured(CPU).tolist())
    read(cluster, reading({"a": 1480.0}, at=1015.0 + ahead), at=1015.0)
    assert {"a": 1480.0} == expected(cluster)
    assert [] == faults(cluster)


def test_a_sample_of_a_clock_that_is_ahead_is_believed_no_longer_than_others() -> None:
    """Its age is counted from when it was read."""
    cluster = scene(at=1000.0, stamped=1100.0)
    cluster.age(1121.0)
    assert [0.5] == cluster.load.trust(CPU).tolist()
    cluster.age(1301.0)
    assert [0.0] == cluster.load.trust(CPU).tolist()


@pytest.mark.parametrize("started", [1003.0, 940.0, 1060.0])
def test_a_pod_began_between_its_placing_and_the_news_of_it(started: float) -> None:
    """Whatever the clock of its node says: it is not in the sample before, and it is in the one after."""
    cluster = scene(at=1000.0, stamped=1000.0)
    cluster.age(1002.0)
    web = runs("web", "a")
    cluster.see_pod(web)
    cluster.age(1004.0)
    for version in (2, 3):
        cluster.see_pod(replace(web, version=version, started=started))
        assert {"a": 500.0} == pending(cluster)
    read(cluster, reading({"a": 1400.0}, at=1015.0))
    assert {"a": 1400.0} == expected(cluster)
    assert [] == faults(cluster)


def test_of_two_sources_the_newer_sample_of_a_pod_counts() -> None:
    """Until the one that gave it fails: then the other is heard, though its clock is behind."""
    cluster = scene(at=1000.0, stamped=1000.0)
    cluster.see_pod(runs("web", "a", started=100.0))
    read(cluster, of_pods({"web": 300.0}, at=1060.0, source="ahead"), at=1005.0)
    read(cluster, of_pods({"web": 200.0}, at=1010.0, source="behind"))
    assert [1060.0] == cluster.load.sampled[:1].tolist()
    cluster.lose_source("ahead", 1015.0)
    read(cluster, of_pods({"web": 200.0}, at=1020.0, source="behind"))
    assert [1020.0] == cluster.load.sampled[:1].tolist()
    cluster.lose_pod("uid-web")
    assert {"a": 800.0} == expected(cluster)
