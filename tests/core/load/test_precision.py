"""Pods with absurd requests leave no rounding errors in the sums of their node."""

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


def forecast(cluster: Cluster) -> list[list[float]]:
    return [column.tolist() for column in cluster.load.forecast(CPU)]


@pytest.mark.parametrize("way", ["leaves", "is on its way out", "asks for less"])
def test_no_rounding_error_is_left(way: str) -> None:
    """Neither of its estimate nor of the square of that."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 1000.0}, at=100.0))
    cluster.upsert_pod(running_pod("p", "a"))
    before = forecast(cluster)
    absurd = running_pod("absurd", "a", cpu=ABSURD)
    cluster.upsert_pod(absurd)
    if way == "leaves":
        cluster.delete_pod(absurd.uid)
    elif way == "is on its way out":
        cluster.upsert_pod(replace(absurd, terminating=True, version=2))
    else:
        cluster.upsert_pod(replace(running_pod("absurd", "a", cpu=""), version=2))
        cluster.delete_pod(absurd.uid)
    assert before == forecast(cluster)
    assert [] == list(check_load_sums(cluster.load_store))


def test_no_rounding_error_is_left_by_a_measured_pod() -> None:
    """Its usage is small, but its variance came from the estimate."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("p", "a", started=0.0))
    cluster.upsert_pod(running_pod("absurd", "a", cpu=ABSURD, started=0.0))
    ingest(cluster, reading({"a": 1000.0}, at=100.0), pod_reading({"absurd": 100.0}, at=100.0))
    cluster.delete_pod("uid-absurd")
    assert [] == list(check_load_sums(cluster.load_store))
    assert [212.5**2] == cluster.load.forecast(CPU)[1].tolist()


def test_no_rounding_error_is_left_in_an_overlay() -> None:
    """Explain and the victim search see the node as it will be without the pod."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("p", "a", started=0.0))
    ingest(cluster, reading({"a": 1000.0}, at=100.0))
    before = forecast(cluster)
    absurd = running_pod("absurd", "a", cpu=ABSURD)
    cluster.upsert_pod(absurd)
    overlay = cluster.view.with_pods({}, {"a": [absurd]})
    assert before == [column.tolist() for column in overlay.load.forecast(CPU)]


def test_a_removed_pod_subtracts_no_more_than_the_sample() -> None:
    """The node uses half a core; the estimate beyond that was never in the sample, and hides no added pod."""
    cluster = cluster_of("a", settings=LoadSettings(estimates=("requests",)))
    large = running_pod("large", "a", cpu="3", started=0.0)
    cluster.upsert_pod(large)
    ingest(cluster, reading({"a": 500.0}, at=100.0))
    cluster.delete_pod(large.uid)
    cluster.upsert_pod(running_pod("next", "a", cpu="2"))
    assert {"a": 2000.0} == expected(cluster)


def test_new_estimate_rules_apply_to_placed_pods() -> None:
    """As if they had been added under the new settings."""
    cluster = cluster_of("a", settings=LoadSettings(estimates=("requests",)))
    ingest(cluster, reading({"a": 1000.0}, at=100.0))
    cluster.upsert_pod(running_pod("p", "a", cpu="1"))
    assert {"a": 1000.0} == unsampled(cluster)
    cluster.load_store.apply_settings(LoadSettings(estimates=("trimaran",)))
    assert {"a": 1500.0} == unsampled(cluster)
    assert {"a": 2500.0} == expected(cluster)


def test_the_first_sample_of_a_pod_with_an_absurd_request_is_filled_up_to_the_capacity() -> None:
    """Its estimate is no measure of anything, so siblings learn nothing from it."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 1000.0}, at=0.0))
    cluster.upsert_pod(running_pod("absurd", "a", cpu=ABSURD, started=90.0, owner="web"))
    for at in (100.0, 130.0):
        ingest(cluster, reading({"a": 1000.0}, at=at), pod_reading({"absurd": 100.0}, at=at, window=300.0))
    sibling = running_pod("next", "a", cpu=ABSURD, owner="web")
    assert (
        MIN_OF_REQUEST * sibling.requests.of(CPU) == cluster.load.estimate(sibling, CPU)[0]
    )  # the least of any estimate, nothing learnt


def test_a_pod_terminating_before_the_first_event_with_a_time() -> None:
    """It counts again from then on, because it is unknown since when it has been terminating."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("p", "a"))
    cluster.upsert_pod(replace(running_pod("p", "a"), version=2, terminating=True))
    assert [] == list(check_load_sums(cluster.load_store))
    ingest(cluster, reading({"a": 1000.0}, at=500.0))
    assert [425.0] == cluster.load_store.accounting[CPU].totals.mean[:1].tolist()
