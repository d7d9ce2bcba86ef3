"""Decides whether pods that ask for more than any machine has leave the sums of their node as they found them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.load.builders import cluster_of, expected, ingest, pod_reading, reading, running_pod, unsampled
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_load_sums
from trimtab.core.load.estimates import MIN_OF_REQUEST
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

ABSURD = "9e18"


def figures(cluster: Cluster) -> list[list[float]]:
    return [column.tolist() for column in cluster.load.forecast(CPU)]


@pytest.mark.parametrize("way", ["leaves", "is on its way out", "asks for less"])
def test_nothing_is_left_behind(way: str) -> None:
    """Neither of its estimate nor of the square of that; what others count for is what it was."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 1000.0}, at=100.0))
    cluster.upsert_pod(running_pod("p", "a"))
    before = figures(cluster)
    absurd = running_pod("absurd", "a", cpu=ABSURD)
    cluster.upsert_pod(absurd)
    if way == "leaves":
        cluster.delete_pod(absurd.uid)
    elif way == "is on its way out":
        cluster.upsert_pod(replace(absurd, terminating=True, version=2))
    else:
        cluster.upsert_pod(replace(running_pod("absurd", "a", cpu=""), version=2))
        cluster.delete_pod(absurd.uid)
    assert before == figures(cluster)
    assert [] == list(check_load_sums(cluster.load_store))


def test_nothing_is_left_behind_by_one_that_was_measured() -> None:
    """It is seen to use little, but how far it may vary was taken from its estimate."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("p", "a", started=0.0))
    cluster.upsert_pod(running_pod("absurd", "a", cpu=ABSURD, started=0.0))
    ingest(cluster, reading({"a": 1000.0}, at=100.0), pod_reading({"absurd": 100.0}, at=100.0))
    cluster.delete_pod("uid-absurd")
    assert [] == list(check_load_sums(cluster.load_store))
    assert [212.5**2] == cluster.load.forecast(CPU)[1].tolist()


def test_nothing_is_left_behind_where_one_is_only_thought_away() -> None:
    """An explanation and a search for victims see the node as it will be without it."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("p", "a", started=0.0))
    ingest(cluster, reading({"a": 1000.0}, at=100.0))
    before = figures(cluster)
    absurd = running_pod("absurd", "a", cpu=ABSURD)
    cluster.upsert_pod(absurd)
    overlay = cluster.view.with_pods({}, {"a": [absurd]})
    assert before == [column.tolist() for column in overlay.load.forecast(CPU)]


def test_who_goes_takes_no_more_along_than_the_sample_shows() -> None:
    """The node is seen to use half a core; what an estimate says beyond that was never in it, and hides nobody who comes."""
    cluster = cluster_of("a", settings=LoadSettings(estimates=("requests",)))
    large = running_pod("large", "a", cpu="3", started=0.0)
    cluster.upsert_pod(large)
    ingest(cluster, reading({"a": 500.0}, at=100.0))
    cluster.delete_pod(large.uid)
    cluster.upsert_pod(running_pod("next", "a", cpu="2"))
    assert {"a": 2000.0} == expected(cluster)


def test_other_rules_for_estimates_hold_for_pods_that_stand_already() -> None:
    """As if they had come under the new settings."""
    cluster = cluster_of("a", settings=LoadSettings(estimates=("requests",)))
    ingest(cluster, reading({"a": 1000.0}, at=100.0))
    cluster.upsert_pod(running_pod("p", "a", cpu="1"))
    assert {"a": 1000.0} == unsampled(cluster)
    cluster.load_store.apply_settings(LoadSettings(estimates=("trimaran",)))
    assert {"a": 1500.0} == unsampled(cluster)
    assert {"a": 2500.0} == expected(cluster)


def test_the_first_sample_of_an_absurd_pod_teaches_no_more_than_its_machine_has() -> None:
    """What a young pod's sample lacks is taken from its estimate, and that is no measure of anything here."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 1000.0}, at=0.0))
    cluster.upsert_pod(running_pod("absurd", "a", cpu=ABSURD, started=90.0, owner="web"))
    for at in (100.0, 130.0):
        ingest(cluster, reading({"a": 1000.0}, at=at), pod_reading({"absurd": 100.0}, at=at, window=300.0))
    kin = running_pod("next", "a", cpu=ABSURD, owner="web")
    assert (
        MIN_OF_REQUEST * kin.requests.of(CPU) == cluster.load.estimate(kin, CPU)[0]
    )  # the least of any estimate, nothing learnt


def test_who_is_on_the_way_out_before_time_begins() -> None:
    """Nothing was timed yet: it counts again once something is, for nobody knows since when it has been leaving."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("p", "a"))
    cluster.upsert_pod(replace(running_pod("p", "a"), version=2, terminating=True))
    assert [] == list(check_load_sums(cluster.load_store))
    ingest(cluster, reading({"a": 1000.0}, at=500.0))
    assert [425.0] == cluster.load_store.accounting[CPU].totals.mean[:1].tolist()
