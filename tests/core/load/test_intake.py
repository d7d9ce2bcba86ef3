"""Decides whether numbers that cannot be true are missing, and counted by what was wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.load.meters import by_name, machines, of_pods, read, reading, runs
from trimtab.core.cluster.state import Cluster
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Reading, Statistic, Unit

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
        (1.51, {"unit": Unit.SHARE}, "implausible"),
        (45.0, {"unit": Unit.SHARE}, "implausible"),
        (NAN, {"unit": Unit.RAW}, "not a number"),
        (6001.0, {"statistic": Statistic.MEAN}, "implausible"),
    ],
)
def test_nonsense_makes_its_node_missing_and_no_other(value: float, more: Mapping[str, Any], reason: str) -> None:
    """Also where a sample of it was held before: the last good value is not what the node uses now."""
    cluster = machines("a", "b")
    good = {"a": 0.5, "b": 0.5}
    read(cluster, reading(good, at=0.0, **more))
    assert {reason: 1} == read(cluster, reading({"a": value, "b": 0.5}, at=15.0, **more))
    meter = cluster.load.meter(CPU, more.get("statistic", Statistic.LATEST), own=more.get("unit") is Unit.RAW)
    assert meter is not None
    assert [False, True] == [known == known for known in meter.believed[:2]]


def test_shares_are_of_what_the_machine_has() -> None:
    """Half of four cores is 2,000 thousandths, and just above all of them is a burst, not a slip of units."""
    cluster = machines("a", "b")
    read(cluster, reading({"a": 0.5, "b": 1.2}, unit=Unit.SHARE))
    assert {"a": 2000.0, "b": 4800.0} == latest(cluster)


def test_a_share_of_a_machine_that_tells_nothing_of_itself_is_missing() -> None:
    """There is no telling what it would be a share of."""
    cluster = machines("a")
    assert {"implausible": 1} == read(cluster, reading({"a": 0.5}, resource="nvidia.com/gpu", unit=Unit.SHARE))


def test_cores_told_for_thousandths_are_missing_where_pods_are_measured() -> None:
    """A node cannot use less than a hundredth of what its pods use."""
    cluster = machines("a")
    cluster.see_pod(runs("web", "a"))
    read(cluster, reading({"a": 2000.0}), of_pods({"web": 1500.0}))
    assert {"implausible": 1} == read(cluster, reading({"a": 2.0}, at=15.0))
    assert {"a": None} == latest(cluster)


def test_two_values_for_one_node_are_none() -> None:
    """Ambiguous is missing; the other node keeps its own."""
    cluster = machines("a", "b")
    twice = Reading("meter", CPU, ("a", "b", "a"), (100.0, 200.0, 300.0), (0.0, 0.0, 0.0))
    assert {"duplicate": 2} == read(cluster, twice)
    assert {"a": None, "b": 200.0} == latest(cluster)


def test_what_the_source_left_out_is_counted_with_the_rest() -> None:
    """By its own reasons, beside names that nobody knows and columns that do not match."""
    cluster = machines("a")
    told = [
        reading({"a": 1.0}, skipped=(("ambiguous", 3),)),
        reading({"stranger": 1.0}, resource=MEMORY),
        Reading("meter", MEMORY, ("a",), (1.0, 2.0), (0.0,)),
    ]
    assert {"ambiguous": 3, "unknown": 1, "malformed": 1} == read(cluster, *told)


@pytest.mark.parametrize(("measured", "reason"), [(699.0, "stale"), (1121.0, "future")])
def test_a_sample_of_another_time_is_refused(measured: float, reason: str) -> None:
    """Too long ago by the sample's own time, or too far ahead of ours; what was held before just grows older."""
    cluster = machines("a")
    read(cluster, reading({"a": 100.0}, at=990.0))
    assert {reason: 1} == read(cluster, reading({"a": 300.0}, at=measured), at=1000.0)
    assert {"a": 100.0} == latest(cluster)


def test_an_older_sample_never_replaces_a_newer_one() -> None:
    """Sources may answer out of order."""
    cluster = machines("a")
    read(cluster, reading({"a": 100.0}, at=100.0), at=100.0)
    read(cluster, reading({"a": 300.0}, at=90.0), at=110.0)
    assert {"a": 100.0} == latest(cluster)


def test_an_empty_answer_is_not_an_idle_fleet() -> None:
    """What this source had said is missing at once."""
    cluster = machines("a")
    read(cluster, reading({"a": 100.0}))
    assert {"empty": 1} == read(cluster, reading({}), at=15.0)
    assert {"a": None} == latest(cluster)


FLEET = tuple("abcdefghij")


@pytest.mark.parametrize("level", [0.0, 4000.0])
def test_a_fleet_that_jumps_as_one_is_held_back_three_times(level: float) -> None:
    """Nothing at all, or all there is, on nodes that were elsewhere: the fourth time in a row it is believed."""
    cluster = machines(*FLEET)
    read(cluster, reading(dict.fromkeys(FLEET, 2000.0)))
    for step in (1, 2, 3):
        assert {"jump": 10} == read(cluster, reading(dict.fromkeys(FLEET, level), at=15.0 * step))
        assert dict.fromkeys(FLEET, 2000.0) == latest(cluster)
    assert {} == read(cluster, reading(dict.fromkeys(FLEET, level), at=60.0))
    assert dict.fromkeys(FLEET, level) == latest(cluster)


def test_a_jump_that_ends_starts_the_count_anew() -> None:
    """Two bad scrapes, a good one, and two bad ones are all held back."""
    cluster = machines(*FLEET)
    fine, bad = dict.fromkeys(FLEET, 2000.0), dict.fromkeys(FLEET, 0.0)
    told = [read(cluster, reading(values, at=15.0 * i)) for i, values in enumerate((fine, bad, bad, fine, bad, bad))]
    assert [0, 10, 10, 0, 10, 10] == [each["jump"] for each in told]


def test_a_few_nodes_may_do_as_they_like() -> None:
    """Eight of ten that fall idle together are an ended job; so are all of four."""
    cluster = machines(*FLEET)
    read(cluster, reading(dict.fromkeys(FLEET, 2000.0)))
    assert {} == read(cluster, reading(dict.fromkeys(FLEET[:8], 0.0) | dict.fromkeys(FLEET[8:], 2000.0), at=15.0))
    few = machines(*FLEET[:4])
    read(few, reading(dict.fromkeys(FLEET[:4], 2000.0)))
    assert {} == read(few, reading(dict.fromkeys(FLEET[:4], 0.0), at=15.0))


@pytest.mark.parametrize("claim", [1e9, 4001.0, 3000.0])
def test_a_pod_cannot_use_more_than_its_node(claim: float) -> None:
    """Neither more than the machine has, nor far more than it is seen to use: such a sample is as none."""
    cluster = machines("a")
    cluster.see_pod(runs("web", "a"))
    assert {"implausible": 1} == read(cluster, reading({"a": 1000.0}), of_pods({"web": claim}))
    assert [True] == [when != when for when in cluster.load.sampled[:1]]


def test_a_sample_of_who_had_the_name_before_is_not_the_pods() -> None:
    """A StatefulSet's pod comes back under its name: what was measured before it started was its predecessor."""
    cluster = machines("a")
    cluster.see_pod(runs("db-0", "a", started=100.0))
    assert {"earlier": 1} == read(cluster, reading({"a": 1000.0}, at=95.0), of_pods({"db-0": 900.0}, at=95.0), at=110.0)
    assert {} == read(cluster, of_pods({"db-0": 100.0}, at=115.0))
    assert [115.0] == cluster.load.sampled[:1].tolist()


def test_statistics_of_pods_and_metrics_that_nobody_reads_are_counted() -> None:
    """Pods are kept by CPU and memory, as they were measured."""
    cluster = machines("a")
    cluster.see_pod(runs("web", "a"))
    told = [of_pods({"web": 1.0}, statistic=Statistic.MEAN), of_pods({"web": 1.0}, resource="threads", unit=Unit.RAW)]
    assert {"unused": 2} == read(cluster, *told)


def test_a_jump_that_is_read_again_is_still_one() -> None:
    """A source that is asked more often than it measures does not make four jumps of one."""
    cluster = machines(*FLEET)
    read(cluster, reading(dict.fromkeys(FLEET, 2000.0)))
    for asked in (15.0, 20.0, 25.0, 30.0, 35.0):
        assert {"jump": 10} == read(cluster, reading(dict.fromkeys(FLEET, 0.0), at=15.0), at=asked)
    for measured in (30.0, 45.0):
        assert {"jump": 10} == read(cluster, reading(dict.fromkeys(FLEET, 0.0), at=measured))
    assert {} == read(cluster, reading(dict.fromkeys(FLEET, 0.0), at=60.0))


def test_one_clock_that_is_ahead_does_not_move_the_others() -> None:
    """The mean of the last minute is still that of all samples in it."""
    cluster = machines("a", "b")
    for at, used in ((0.0, 1000.0), (30.0, 3000.0)):
        ahead = replace(reading({"a": used, "b": used}), measured=(at, at + (100.0 if at else 0.0)))
        read(cluster, ahead, at=at)
    assert {"a": 2000.0, "b": 2000.0} == by_name(cluster, cluster.load.average(CPU, 60.0))


@pytest.mark.parametrize("more", [{}, {"unit": Unit.SHARE}])
def test_a_pod_on_a_machine_that_nobody_knows_teaches_nothing(more: Mapping[str, Any]) -> None:
    """There is nothing to hold its claim against, and its siblings would be taken to use as much."""
    cluster = machines("a")
    for name, on in (("p", "elsewhere"), ("q", "a")):
        cluster.see_pod(runs(name, on, owner="web"))
    assert {"unknown": 1, "implausible": 1} == read(cluster, of_pods({"p": 1e308, "q": 1e308}, at=15.0, **more))
    assert "koordinator" == cluster.load.estimate(runs("r", "a", owner="web"), CPU)[2]


def test_a_machine_that_tells_nothing_of_itself_still_has_less_than_everything() -> None:
    """What no machine can use is missing there, too."""
    cluster = machines("a")
    assert {"implausible": 1} == read(cluster, reading({"a": 1e20}, resource="nvidia.com/gpu"))
