"""Decides whether pods that ask for more than any machine has leave the sums of their node as they found them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.load.meters import expected, machines, pending, read, reading, runs
from trimtab.core.cluster.state import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

ABSURD = "9e18"


def figures(cluster: Cluster) -> list[list[float]]:
    return [column.tolist() for column in cluster.load.forecast(CPU)]


@pytest.mark.parametrize("way", ["leaves", "is on its way out", "asks for less"])
def test_nothing_is_left_behind(way: str) -> None:
    """Neither of its estimate nor of the square of that; what others count for is what it was."""
    cluster = machines("a")
    read(cluster, reading({"a": 1000.0}, at=100.0))
    cluster.see_pod(runs("p", "a"))
    before = figures(cluster)
    absurd = runs("absurd", "a", cpu=ABSURD)
    cluster.see_pod(absurd)
    if way == "leaves":
        cluster.lose_pod(absurd.uid)
    elif way == "is on its way out":
        cluster.see_pod(replace(absurd, deleting=True, version=2))
    else:
        cluster.see_pod(replace(runs("absurd", "a", cpu=""), version=2))
        cluster.lose_pod(absurd.uid)
    assert before == figures(cluster)
    assert [] == list(cluster.load.miscounted())


def test_who_goes_takes_no_more_along_than_the_sample_shows() -> None:
    """The node is seen to use half a core; what an estimate says beyond that was never in it, and hides nobody who comes."""
    cluster = machines("a", settings=LoadSettings(estimates=("requests",)))
    large = runs("large", "a", cpu="3", started=0.0)
    cluster.see_pod(large)
    read(cluster, reading({"a": 500.0}, at=100.0))
    cluster.lose_pod(large.uid)
    cluster.see_pod(runs("next", "a", cpu="2"))
    assert {"a": 2000.0} == expected(cluster)


def test_other_rules_for_estimates_hold_for_pods_that_stand_already() -> None:
    """As if they had come under the new settings."""
    cluster = machines("a", settings=LoadSettings(estimates=("requests",)))
    read(cluster, reading({"a": 1000.0}, at=100.0))
    cluster.see_pod(runs("p", "a", cpu="1"))
    assert {"a": 1000.0} == pending(cluster)
    cluster.load.settings = LoadSettings(estimates=("trimaran",))
    assert {"a": 1500.0} == pending(cluster)
    assert {"a": 2500.0} == expected(cluster)
