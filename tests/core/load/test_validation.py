"""Decides whether numbers that cannot be true are missing, and counted by what was wrong with them."""

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
def test_nonsense_makes_its_node_missing_and_no_other(value: float, more: Mapping[str, Any], reason: str) -> None:
    """Also where a sample of it was held before: the last good value is not what the node uses now."""
    cluster = cluster_of("a", "b")
    good = {"a": 0.5, "b": 0.5}
    ingest(cluster, reading(good, at=0.0, **more))
    assert {reason: 1} == ingest(cluster, reading({"a": value, "b": 0.5}, at=15.0, **more))
    meter = cluster.load_store.latest_samples(
        CPU, more.get("statistic", Statistic.LATEST), custom=more.get("unit") is Unit.RAW
    )
    assert meter is not None
    assert [False, True] == [known == known for known in meter.trusted_value[:2]]


def test_shares_are_of_what_the_machine_has() -> None:
    """Half of four cores is 2,000 thousandths, and just above all of them is a burst, not a slip of units."""
    cluster = cluster_of("a", "b")
    ingest(cluster, reading({"a": 0.5, "b": 1.2}, unit=Unit.FRACTION))
    assert {"a": 2000.0, "b": 4800.0} == latest(cluster)


def test_a_share_of_a_machine_that_tells_nothing_of_itself_is_missing() -> None:
    """There is no telling what it would be a share of."""
    cluster = cluster_of("a")
    assert {"implausible": 1} == ingest(cluster, reading({"a": 0.5}, resource="nvidia.com/gpu", unit=Unit.FRACTION))


def test_cores_told_for_thousandths_are_missing_where_pods_are_measured() -> None:
    """A node cannot use less than a hundredth of what its pods use."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 2000.0}), pod_reading({"web": 1500.0}))
    assert {"implausible": 1} == ingest(cluster, reading({"a": 2.0}, at=15.0))
    assert {"a": None} == latest(cluster)


def test_two_values_for_one_node_are_none() -> None:
    """Ambiguous is missing; the other node keeps its own."""
    cluster = cluster_of("a", "b")
    twice = Reading("meter", CPU, ("a", "b", "a"), (100.0, 200.0, 300.0), (0.0, 0.0, 0.0))
    assert {"duplicate": 2} == ingest(cluster, twice)
    assert {"a": None, "b": 200.0} == latest(cluster)


def test_what_the_source_left_out_is_counted_with_the_rest() -> None:
    """By its own reasons, beside names that nobody knows and columns that do not match."""
    cluster = cluster_of("a")
    told = [
        reading({"a": 1.0}, skipped=(("ambiguous", 3),)),
        reading({"stranger": 1.0}, resource=MEMORY),
        Reading("meter", MEMORY, ("a",), (1.0, 2.0), (0.0,)),
    ]
    assert {"ambiguous": 3, "unknown": 1, "malformed": 1} == ingest(cluster, *told)


@pytest.mark.parametrize(("measured", "reason"), [(699.0, "stale"), (1121.0, "future")])
def test_a_sample_of_another_time_is_refused(measured: float, reason: str) -> None:
    """Too long ago by the sample's own time, or too far ahead of ours; what was held before just grows older."""
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


def test_an_empty_answer_is_not_an_idle_fleet() -> None:
    """What this source had said is missing at once."""
    cluster = cluster_of("a")
    ingest(cluster, reading({"a": 100.0}))
    assert {"empty": 1} == ingest(cluster, reading({}), at=15.0)
    assert {"a": None} == latest(cluster)


FLEET = tuple("abcdefghij")


@pytest.mark.parametrize("level", [0.0, 4000.0])
def test_a_fleet_that_jumps_as_one_is_held_back_three_times(level: float) -> None:
    """Nothing at all, or all there is, on nodes that were elsewhere: the fourth time in a row it is believed."""
    cluster = cluster_of(*FLEET)
    ingest(cluster, reading(dict.fromkeys(FLEET, 2000.0)))
    for step in (1, 2, 3):
        assert {"jump": 10} == ingest(cluster, reading(dict.fromkeys(FLEET, level), at=15.0 * step))
        assert dict.fromkeys(FLEET, 2000.0) == latest(cluster)
    assert {} == ingest(cluster, reading(dict.fromkeys(FLEET, level), at=60.0))
    assert dict.fromkeys(FLEET, level) == latest(cluster)


def test_a_jump_that_ends_starts_the_count_anew() -> None:
    """Two bad scrapes, a good one, and two bad ones are all held back."""
    cluster = cluster_of(*FLEET)
    fine, bad = dict.fromkeys(FLEET, 2000.0), dict.fromkeys(FLEET, 0.0)
    told = [ingest(cluster, reading(values, at=15.0 * i)) for i, values in enumerate((fine, bad, bad, fine, bad, bad))]
    assert [0, 10, 10, 0, 10, 10] == [each["jump"] for each in told]


def test_a_few_nodes_may_do_as_they_like() -> None:
    """Eight of ten that fall idle together are an ended job; so are all of four."""
    cluster = cluster_of(*FLEET)
    ingest(cluster, reading(dict.fromkeys(FLEET, 2000.0)))
    assert {} == ingest(cluster, reading(dict.fromkeys(FLEET[:8], 0.0) | dict.fromkeys(FLEET[8:], 2000.0), at=15.0))
    few = cluster_of(*FLEET[:4])
    ingest(few, reading(dict.fromkeys(FLEET[:4], 2000.0)))
    assert {} == ingest(few, reading(dict.fromkeys(FLEET[:4], 0.0), at=15.0))


@pytest.mark.parametrize("claim", [1e9, 4001.0, 3000.0])
def test_a_pod_cannot_use_more_than_its_node(claim: float) -> None:
    """Neither more than the machine has, nor far more than it is seen to use: such a sample is as none."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web", "a"))
    assert {"implausible": 1} == ingest(cluster, reading({"a": 1000.0}), pod_reading({"web": claim}))
    assert [True] == [when != when for when in pods_sampled_at(cluster)[:1]]


def test_a_sample_of_who_had_the_name_before_is_not_the_pods() -> None:
    """A StatefulSet's pod comes back under its name: what was measured before it started was its predecessor."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("db-0", "a", started=100.0))
    assert {"earlier": 1} == ingest(
        cluster, reading({"a": 1000.0}, at=95.0), pod_reading({"db-0": 900.0}, at=95.0), at=110.0
    )
    assert {} == ingest(cluster, pod_reading({"db-0": 100.0}, at=115.0))
    assert [115.0] == pods_sampled_at(cluster)[:1].tolist()


def test_statistics_of_pods_and_metrics_that_nobody_reads_are_counted() -> None:
    """Pods are kept by CPU and memory, as they were measured."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web", "a"))
    told = [
        pod_reading({"web": 1.0}, statistic=Statistic.MEAN),
        pod_reading({"web": 1.0}, resource="threads", unit=Unit.RAW),
    ]
    assert {"unused": 2} == ingest(cluster, *told)


def test_a_jump_that_is_read_again_is_still_one() -> None:
    """A source that is asked more often than it measures does not make four jumps of one."""
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
def test_a_pod_on_a_machine_that_nobody_knows_teaches_nothing(more: Mapping[str, Any]) -> None:
    """There is nothing to hold its claim against, and its siblings would be taken to use as much."""
    cluster = cluster_of("a")
    for name, on in (("p", "elsewhere"), ("q", "a")):
        cluster.upsert_pod(running_pod(name, on, owner="web"))
    assert {"unknown": 1, "implausible": 1} == ingest(cluster, pod_reading({"p": 1e308, "q": 1e308}, at=15.0, **more))
    assert "koordinator" == cluster.load.estimate(running_pod("r", "a", owner="web"), CPU)[2]


def test_a_machine_that_tells_nothing_of_itself_still_has_less_than_everything() -> None:
    """What no machine can use is missing there, too."""
    cluster = cluster_of("a")
    assert {"implausible": 1} == ingest(cluster, reading({"a": 1e20}, resource="nvidia.com/gpu"))
