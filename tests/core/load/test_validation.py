"""Samples that cannot be true are rejected, and counted by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.load.builders import by_name, cluster_of, ingest, pod_reading, pods_sampled_at, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.readings import Reading, Statistic, Unit
from trimtab.core.model.resources import CPU, MEMORY

NAN, INF = float("nan"), float("inf")


def latest(cluster: Cluster, resource: str = CPU) -> dict[str, float | None]:
    return by_name(cluster, cluster.load.latest(resource))


@pytest.mark.parametrize(
    ("value", "more", "reason"),
    [
        (NAN, {}, "not a number"),
        (INF, {}, "infinite"),
        (-INF, {}, "infinite"),
        (-3.0, {}, "negative"),
        (1e308, {}, "implausible"),
        (6001.0, {}, "implausible"),
        (1.51, {"unit": Unit.FRACTION}, "implausible"),
        (45.0, {"unit": Unit.FRACTION}, "implausible"),
        (NAN, {"unit": Unit.RAW}, "not a number"),
        (6001.0, {"statistic": Statistic.MEAN}, "implausible"),
    ],
)
def test_an_invalid_value_invalidates_its_node_alone(value: float, more: Mapping[str, Any], reason: str) -> None:
    """Also the sample held before: it is not what the node uses now."""
    cluster = cluster_of("a", "b")
    good = {"a": 0.5, "b": 0.5}
    ingest(cluster, reading(good, at=0.0, **more))
    assert {reason: 1} == ingest(cluster, reading({"a": value, "b": 0.5}, at=15.0, **more))
    samples = cluster.load_store.latest_samples(
        CPU, more.get("statistic", Statistic.LATEST), custom=more.get("unit") is Unit.RAW
    )
    assert samples is not None
    assert [False, True] == [known == known for known in samples.trusted_value[:2]]


def test_fractions_are_of_the_capacity() -> None:
    """Half of four cores is 2000m; slightly above all of them is a burst, not a wrong unit."""
    cluster = cluster_of("a", "b")
    ingest(cluster, reading({"a": 0.5, "b": 1.2}, unit=Unit.FRACTION))
    assert {"a": 2000.0, "b": 4800.0} == latest(cluster)


def test_a_fraction_of_an_unknown_capacity_is_rejected() -> None:
    """There is no amount to compute."""
    cluster = cluster_of("a")
    assert {"implausible": 1} == ingest(cluster, reading({"a": 0.5}, resource="nvidia.com/gpu", unit=Unit.FRACTION))


def test_cores_given_as_millicores_are_rejected_where_pods_are_measured() -> None:
    """A node cannot use less than 1 % of what its pods use."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 2000.0}), pod_reading({"web": 1500.0}))
    assert {"implausible": 1} == ingest(cluster, reading({"a": 2.0}, at=15.0))
    assert {"a": None} == latest(cluster)


def test_two_values_for_one_node_are_rejected() -> None:
    """The other node keeps its value."""
    cluster = cluster_of("a", "b")
    twice = Reading("meter", CPU, ("a", "b", "a"), (100.0, 200.0, 300.0), (0.0, 0.0, 0.0))
    assert {"duplicate": 2} == ingest(cluster, twice)
    assert {"a": None, "b": 200.0} == latest(cluster)


@pytest.mark.parametrize("measured", [NAN, INF, -INF])
def test_a_sample_without_a_time_is_rejected(measured: float) -> None:
    """It voids the value held before, and the other node keeps its own."""
    cluster = cluster_of("a", "b")
    ingest(cluster, reading({"a": 100.0, "b": 200.0}, at=0.0))
    timeless = Reading("meter", CPU, ("a", "b"), (150.0, 250.0), (measured, 15.0))
    assert {"no time": 1} == ingest(cluster, timeless, at=15.0)
    assert {"a": None, "b": 250.0} == latest(cluster)


def test_samples_skipped_by_the_source_are_counted_too() -> None:
    """By the source's reasons, next to unknown names and columns of different lengths."""
    cluster = cluster_of("a")
    readings = [
        reading({"a": 1.0}, skipped=(("ambiguous", 3),)),
        reading({"stranger": 1.0}, resource=MEMORY),
        Reading("meter", MEMORY, ("a",), (1.0, 2.0), (0.0,)),
    ]
    assert {"ambiguous": 3, "unknown": 1, "malformed": 1} == ingest(cluster, *readings)


@pytest.mark.parametrize(("measured", "reason"), [(699.0, "stale"), (1121.0, "future")])
def test_stale_and_future_samples_are_rejected(measured: float, reason: str) -> None:
    """The sample held before ages."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}, at=990.0))
    assert {reason: 1} == ingest(cluster, reading({"a": 300.0}, at=measured), at=1000.0)
    assert {"a": 100.0} == latest(cluster)


def test_an_older_sample_never_replaces_a_newer_one() -> None:
    """Sources may answer out of order."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}, at=100.0), at=100.0)
    ingest(cluster, reading({"a": 300.0}, at=90.0), at=110.0)
    assert {"a": 100.0} == latest(cluster)


def test_an_empty_response_does_not_mean_idle_nodes() -> None:
    """What this source reported before ages as if it had not answered."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}))
    assert {"empty": 1} == ingest(cluster, reading({}), at=15.0)
    assert {"a": 100.0} == latest(cluster)
    ingest(cluster, reading({}), at=301.0)
    assert {"a": None} == latest(cluster)


FLEET = tuple("abcdefghij")


@pytest.mark.parametrize("level", [0.0, 4000.0])
def test_a_jump_of_nearly_all_nodes_is_held_back_three_times(level: float) -> None:
    """To idle, or to full: the fourth time in a row it is accepted."""
    cluster = cluster_of(*FLEET)
    ingest(cluster, reading(dict.fromkeys(FLEET, 2000.0)))
    for step in (1, 2, 3):
        assert {"jump": 10} == ingest(cluster, reading(dict.fromkeys(FLEET, level), at=15.0 * step))
        assert dict.fromkeys(FLEET, 2000.0) == latest(cluster)
    assert {} == ingest(cluster, reading(dict.fromkeys(FLEET, level), at=60.0))
    assert dict.fromkeys(FLEET, level) == latest(cluster)


def test_a_jump_that_ends_resets_the_count() -> None:
    """Two bad scrapes, a good one, and two bad ones are all held back."""
    cluster = cluster_of(*FLEET)
    fine, bad = dict.fromkeys(FLEET, 2000.0), dict.fromkeys(FLEET, 0.0)
    rejected = [
        ingest(cluster, reading(values, at=15.0 * i)) for i, values in enumerate((fine, bad, bad, fine, bad, bad))
    ]
    assert [0, 10, 10, 0, 10, 10] == [each["jump"] for each in rejected]


def test_a_jump_of_fewer_nodes_is_accepted() -> None:
    """Eight of ten that fall idle together are a finished job; so are all of four."""
    cluster = cluster_of(*FLEET)
    ingest(cluster, reading(dict.fromkeys(FLEET, 2000.0)))
    assert {} == ingest(cluster, reading(dict.fromkeys(FLEET[:8], 0.0) | dict.fromkeys(FLEET[8:], 2000.0), at=15.0))
    few = cluster_of(*FLEET[:4])
    ingest(few, reading(dict.fromkeys(FLEET[:4], 2000.0)))
    assert {} == ingest(few, reading(dict.fromkeys(FLEET[:4], 0.0), at=15.0))


@pytest.mark.parametrize("claim", [1e9, 4001.0, 3000.0])
def test_a_pod_cannot_use_more_than_its_node(claim: float) -> None:
    """Neither more than its capacity, nor far more than its usage: such a sample is rejected."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web", "a"))
    assert {"implausible": 1} == ingest(cluster, reading({"a": 1000.0}), pod_reading({"web": claim}))
    assert [True] == [when != when for when in pods_sampled_at(cluster)[:1]]


def test_a_sample_from_before_the_pod_started_is_rejected() -> None:
    """A StatefulSet's pod comes back under its name: the sample is its predecessor's."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("db-0", "a", started=100.0))
    assert {"earlier": 1} == ingest(
        cluster, reading({"a": 1000.0}, at=95.0), pod_reading({"db-0": 900.0}, at=95.0), at=110.0
    )
    assert {} == ingest(cluster, pod_reading({"db-0": 100.0}, at=115.0))
    assert [115.0] == pods_sampled_at(cluster)[:1].tolist()


def test_unused_metrics_of_pods_are_counted() -> None:
    """Only CPU and memory usage of pods is kept."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web", "a"))
    readings = [
        pod_reading({"web": 1.0}, statistic=Statistic.MEAN),
        pod_reading({"web": 1.0}, resource="threads", unit=Unit.RAW),
    ]
    assert {"unused": 2} == ingest(cluster, *readings)


def test_a_jump_read_again_counts_once() -> None:
    """A source polled more often than it scrapes does not turn one jump into four."""
    cluster = cluster_of(*FLEET)
    ingest(cluster, reading(dict.fromkeys(FLEET, 2000.0)))
    for asked in (15.0, 20.0, 25.0, 30.0, 35.0):
        assert {"jump": 10} == ingest(cluster, reading(dict.fromkeys(FLEET, 0.0), at=15.0), at=asked)
    for measured in (30.0, 45.0):
        assert {"jump": 10} == ingest(cluster, reading(dict.fromkeys(FLEET, 0.0), at=measured))
    assert {} == ingest(cluster, reading(dict.fromkeys(FLEET, 0.0), at=60.0))


def test_one_clock_that_is_ahead_does_not_move_the_others() -> None:
    """The mean of the last minute is still that of all samples in it."""
    cluster = cluster_of("a", "b")
    for at, used in ((0.0, 1000.0), (30.0, 3000.0)):
        ahead = replace(reading({"a": used, "b": used}), measured=(at, at + (100.0 if at else 0.0)))
        ingest(cluster, ahead, at=at)
    assert {"a": 2000.0, "b": 2000.0} == by_name(cluster, cluster.load.recent_mean(CPU, 60.0))


@pytest.mark.parametrize("more", [{}, {"unit": Unit.FRACTION}])
def test_nothing_is_learned_from_a_pod_on_an_unknown_node(more: Mapping[str, Any]) -> None:
    """Its value cannot be checked, and its siblings would be estimated by it."""
    cluster = cluster_of("a")
    for name, on in (("p", "elsewhere"), ("q", "a")):
        cluster.upsert_pod(running_pod(name, on, owner="web"))
    assert {"unknown": 1, "implausible": 1} == ingest(cluster, pod_reading({"p": 1e308, "q": 1e308}, at=15.0, **more))
    assert "koordinator" == cluster.load.estimate(running_pod("r", "a", owner="web"), CPU)[2]


def test_absurd_amounts_are_rejected_without_a_known_capacity() -> None:
    """No node can use that much."""
    cluster = cluster_of("a")
    assert {"implausible": 1} == ingest(cluster, reading({"a": 1e20}, resource="nvidia.com/gpu"))
