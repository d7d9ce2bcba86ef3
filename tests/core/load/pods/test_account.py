"""Decides what of a node's use is still to come, and what of its sample belongs to pods that have gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.load.meters import expected, machines, of_pods, pending, read, reading, runs
from trimtab.core.cluster.invariants import faults
from trimtab.core.cluster.state import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

BY_REQUESTS = LoadSettings(estimates=("requests",))


def scene(*names: str) -> Cluster:
    """Nodes at 1,000 since moment 0; who comes is estimated at 500."""
    cluster = machines(*(names or ("a",)), settings=BY_REQUESTS)
    read(cluster, reading(dict.fromkeys(names or ("a",), 1000.0), at=0.0))
    return cluster


def test_what_was_there_before_anything_was_measured_is_in_the_sample() -> None:
    """Nothing is pending for it."""
    cluster = machines("a", settings=BY_REQUESTS)
    cluster.see_pod(runs("web", "a"))
    read(cluster, reading({"a": 1000.0}, at=0.0))
    assert {"a": 0.0} == pending(cluster)


def test_an_assumed_pod_counts_at_once_and_until_a_sample_contains_it() -> None:
    """The next one that is placed sees it; a sample measured after it started takes it over."""
    cluster = scene("a", "b")
    cluster.see_pod(replace(runs("web", ""), node=""))
    cluster.assume(replace(runs("web", ""), node=""), "a")
    assert {"a": 1500.0, "b": 1000.0} == expected(cluster)
    read(cluster, reading({"a": 1010.0, "b": 1000.0}, at=0.0), at=10.0)
    assert {"a": 1500.0, "b": 1000.0} == expected(cluster)
    read(cluster, reading({"a": 1480.0, "b": 1000.0}, at=15.0))
    assert {"a": 1480.0, "b": 1000.0} == expected(cluster)
    assert [] == faults(cluster)


def test_a_bind_that_failed_leaves_nothing_behind() -> None:
    """What was assumed and forgotten was never there."""
    cluster = scene()
    cluster.see_pod(runs("web", "", phase="Pending"))
    cluster.assume(runs("web", ""), "a")
    cluster.forget("uid-web")
    assert {"a": 0.0} == pending(cluster)


@pytest.mark.parametrize(("after", "left"), [(0.0, 500.0), (60.0, 400.0), (150.0, 250.0), (300.0, 0.0), (900.0, 0.0)])
def test_a_sample_over_five_minutes_shows_a_young_pod_in_part(after: float, left: float) -> None:
    """As much as it has run of the window; the rest is still to come."""
    cluster = machines("a", settings=BY_REQUESTS)
    cluster.load.age(1000.0)
    cluster.see_pod(runs("web", "a", started=1000.0))
    read(cluster, reading({"a": 1000.0}, at=1000.0 + after, window=300.0))
    assert {"a": left} == pending(cluster)


def test_where_pods_are_measured_the_first_own_sample_counts() -> None:
    """A pod still pulling its image is not in the node's sample, however long ago it was bound."""
    cluster = scene()
    cluster.see_pod(runs("there", "a", started=-1000.0))
    cluster.see_pod(runs("pulling", "a", started=10.0))
    for at in (30.0, 60.0):
        read(cluster, reading({"a": 1000.0}, at=at), of_pods({"there": 400.0}, at=at))
        assert {"a": 500.0} == pending(cluster)
    read(cluster, reading({"a": 1300.0}, at=75.0), of_pods({"there": 400.0, "pulling": 300.0}, at=75.0))
    assert {"a": 0.0} == pending(cluster)
    assert [] == faults(cluster)


def test_a_pod_that_is_never_measured_is_taken_to_be_in_its_nodes_sample_in_the_end() -> None:
    """After as long as samples are believed: some pods have no metrics, and must not count twice for ever."""
    cluster = scene()
    cluster.see_pod(runs("there", "a", started=-1000.0))
    cluster.see_pod(runs("dark", "a", started=10.0))
    for at, left in ((300.0, 500.0), (315.0, 0.0)):
        read(cluster, reading({"a": 1000.0}, at=at), of_pods({"there": 400.0}, at=at))
        assert {"a": left} == pending(cluster)


def test_who_leaves_is_taken_off_at_once_with_what_was_measured_of_it() -> None:
    """When its deletion is seen, while it ends, and after it has gone until a sample without it is there."""
    cluster = machines("a", settings=BY_REQUESTS)
    web = runs("web", "a", started=-500.0)
    cluster.see_pod(web)
    read(cluster, reading({"a": 1000.0}, at=0.0), of_pods({"web": 300.0}, at=0.0))
    cluster.load.age(5.0)
    cluster.see_pod(replace(web, deleting=True, version=2))
    assert {"a": 700.0} == expected(cluster)
    read(cluster, reading({"a": 990.0}, at=15.0), of_pods({"web": 290.0}, at=15.0))
    assert {"a": 700.0} == expected(cluster)
    cluster.load.age(20.0)
    cluster.lose_pod("uid-web")
    assert {"a": 700.0} == expected(cluster)
    assert [] == faults(cluster)
    read(cluster, reading({"a": 710.0}, at=30.0))
    assert {"a": 710.0} == expected(cluster)


def test_who_takes_longer_to_leave_than_samples_are_believed_counts_again() -> None:
    """Long graces and stuck finalizers: what is used, is used."""
    cluster = machines("a", settings=BY_REQUESTS)
    web = runs("web", "a", started=-500.0)
    cluster.see_pod(web)
    read(cluster, reading({"a": 1000.0}, at=0.0), of_pods({"web": 300.0}, at=0.0))
    cluster.see_pod(replace(web, deleting=True, version=2))
    for at, left in ((290.0, 700.0), (310.0, 1000.0)):
        read(cluster, reading({"a": 1000.0}, at=at), of_pods({"web": 300.0}, at=at))
        assert {"a": left} == expected(cluster)


@pytest.mark.parametrize(("after", "shown"), [(0.0, 500.0), (60.0, 400.0), (270.0, 50.0), (300.0, 0.0)])
def test_a_sample_over_five_minutes_shows_who_has_gone_for_a_while(after: float, shown: float) -> None:
    """Less and less: as much as its window reaches back to the pod."""
    cluster = machines("a", settings=BY_REQUESTS)
    cluster.see_pod(runs("web", "a"))
    read(cluster, reading({"a": 1000.0}, at=1000.0, window=300.0))
    cluster.lose_pod("uid-web")
    read(cluster, reading({"a": 1000.0}, at=1000.0 + after + 1e-3, window=300.0))
    assert {"a": pytest.approx(-shown, abs=0.01)} == pending(cluster)


def test_without_a_sample_all_that_pods_come_to_is_pending_and_nothing_is_expected() -> None:
    """Missing is not zero; the same once the sample has grown too old."""
    cluster = machines("a", settings=BY_REQUESTS)
    cluster.see_pod(runs("web", "a"))
    assert ({"a": 500.0}, {"a": None}) == (pending(cluster), expected(cluster))
    read(cluster, reading({"a": 1000.0}, at=0.0))
    assert {"a": 0.0} == pending(cluster)
    cluster.age(1000.0)
    assert ({"a": 500.0}, {"a": None}) == (pending(cluster), expected(cluster))


def test_a_pod_that_asks_for_more_where_it_stands_is_measured_on() -> None:
    """In-place resize: its use goes on, nothing is taken off, nothing is pending."""
    cluster = machines("a", settings=BY_REQUESTS)
    cluster.see_pod(runs("web", "a"))
    read(cluster, reading({"a": 1000.0}, at=0.0), of_pods({"web": 300.0}, at=0.0))
    cluster.see_pod(runs("web", "a", cpu="900m", version=2))
    assert {"a": 1000.0} == expected(cluster)
    assert [0.0] == cluster.load.sampled[:1].tolist()
    assert [] == faults(cluster)


def test_news_that_change_what_is_counted_are_noted_for_the_row() -> None:
    """Kept answers of that node are asked again, also where no request has changed."""
    cluster = scene("a", "b")
    web = runs("web", "b", started=-100.0)
    cluster.see_pod(web)
    for number, news in enumerate(({"deleting": True}, {"ready": True}, {"started": 5.0})):
        before = len(cluster.columns.log)
        web = replace(web, version=2 + number, **news)
        cluster.see_pod(web)
        assert [1, 0, 1][number] == len(cluster.columns.log) - before


def test_pods_on_a_node_that_goes_and_comes_back() -> None:
    """They are pending there until it is measured; what was taken off the old one is not taken off the new one."""
    cluster = scene("a", "b")
    cluster.see_pod(runs("web", "a", started=-100.0))
    cluster.see_pod(runs("job", "a", started=-100.0))
    read(cluster, reading({"a": 1000.0, "b": 1000.0}, at=5.0))
    cluster.lose_pod("uid-job")
    old = cluster.columns.nodes[cluster.columns.row["a"]]
    cluster.lose_node("a")
    assert [] == faults(cluster)
    cluster.see_node(replace(old, uid="new", version=9))
    assert {"a": 500.0, "b": 0.0} == pending(cluster)
    read(cluster, reading({"a": 600.0}, at=10.0))
    assert {"a": 600.0, "b": 1000.0} == expected(cluster)
    assert [] == faults(cluster)


def test_placed_is_when_the_pod_took_its_place() -> None:
    """As far as anybody saw it; who was there before any clock is older than everything."""
    cluster = machines("a")
    cluster.see_pod(runs("first", "a"))
    cluster.load.age(50.0)
    cluster.see_pod(runs("second", "a"))
    cluster.see_pod(runs("third", "a", started=20.0))
    slots = [cluster.residents.slot[f"uid-{name}"] for name in ("first", "second", "third")]
    assert [float("-inf"), 50.0, 20.0] == cluster.load.placed[slots].tolist()


def test_a_pods_source_that_fails_takes_its_samples_with_it() -> None:
    """Then the node's own sample says what it shows of whom."""
    cluster = machines("a", settings=BY_REQUESTS)
    cluster.see_pod(runs("web", "a", started=0.0))
    at = 100.0
    read(cluster, reading({"a": 1000.0}, at, window=400.0), of_pods({"web": 300.0}, at, window=0.0))
    assert ({"a": 0.0}, [False]) == (pending(cluster), cluster.load.stand_in(CPU).tolist())
    cluster.lose_source("pods", 101.0)
    assert ({"a": 375.0}, [True]) == (pending(cluster), cluster.load.stand_in(CPU).tolist())


def test_what_was_measured_of_pods_outlives_their_node_object() -> None:
    """A node that registers anew has the same pods: they are no strangers on it."""
    cluster = scene("a", "b")
    cluster.see_pod(runs("web", "a", started=-100.0))
    read(cluster, of_pods({"web": 300.0}, at=5.0))
    old = cluster.columns.nodes[cluster.columns.row["a"]]
    cluster.see_node(replace(old, uid="new", version=9))
    assert ([5.0], {"a": 300.0, "b": 0.0}) == (cluster.load.sampled[:1].tolist(), pending(cluster))
    assert [] == faults(cluster)
