"""Koordinator's LowNodeLoad evicts what it evicts upstream; all figures are computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.core.rescheduling.measured_pods import NOW, context, large, measured, running, sample
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.rivals.koordinator_low_node_load import KoordinatorLowNodeLoad as Rival
from trimtab.core.rescheduling.rivals.koordinator_low_node_load import max_migrating, usage_score
from trimtab.core.rescheduling.rivals.thresholds import Thresholds

AT_ONCE = Rival(consecutive_abnormalities=1)
NO_LIMIT = Rival(consecutive_abnormalities=1, max_migrating_per_node=0)


def evicted(rival: Rival, cluster: Cluster, state: Any = None) -> list[str]:
    found, _ = rival.evictions(context(cluster), state)
    return [cluster.pods[each.uid].name for each in found]


def loaded(*others: Pod, **cpu: float) -> Cluster:
    """Pods on node a with this usage, each with a twin that uses nothing on node b; c is empty, and `rest` never moves."""
    pods = [running(name, on="a", owner="" if name == "rest" else name) for name in cpu]
    twins = [running(f"{name}-twin", on="b", owner=name) for name in cpu]
    usage = {name: [each] for name, each in cpu.items()}
    return measured(large("a"), large("b"), large("c"), *pods, *twins, *others, cpu=usage)


def test_closest_to_the_excess() -> None:
    """At 90% the excess is 1,500m: a pod of 1,600m covers it best, then one of 3,000m, and smaller ones least."""
    assert ["fitting"] == evicted(AT_ONCE, loaded(small=400.0, large=3000.0, fitting=1600.0, rest=4000.0))
    assert ["large"] == evicted(AT_ONCE, loaded(small=1000.0, large=3000.0, rest=5000.0))


def test_a_sample_every_five_minutes_is_the_average_of_five_minutes() -> None:
    """The newest one counts as soon as it is there, at the beginning of its bucket, and not the one before it."""
    cluster, at = loaded(fitting=100.0, rest=4000.0), NOW + 301.0
    sample(cluster, at, {"fitting": 1600.0, "rest": 7400.0})
    found, _ = AT_ONCE.evictions(context(cluster, now=at + 1.0), None)
    assert ["uid-fitting"] == [each.uid for each in found]


@pytest.mark.parametrize(
    ("usage", "expected"), [(750.0, 0.5), (1500.0, 2.0), (3000.0, 1.5), (15000.0, 1.1), (0.0, 0.0)]
)
def test_usage_score(usage: float, expected: float) -> None:
    """r below 1, and 1 + 1/r above; only the overused resource counts."""
    assert pytest.approx(expected) == usage_score(np.array([usage, 7.0]), np.array([1500.0, 0.0]))


def test_until_the_source_is_below() -> None:
    """From 90%: 800m leave 82%, 700m more 75%, which is not above the threshold; two per node are allowed."""
    assert ["x", "y"] == evicted(AT_ONCE, loaded(x=800.0, y=700.0, z=300.0, rest=7200.0))
    assert ["x", "y"] == evicted(AT_ONCE, loaded(x=600.0, y=500.0, z=400.0, rest=7500.0))
    assert ["x", "y", "z"] == evicted(NO_LIMIT, loaded(x=600.0, y=500.0, z=400.0, rest=7500.0))


def test_the_only_pod_of_an_owner() -> None:
    """It stays, unless the check of replicas is skipped."""
    cluster = measured(
        *(large("a"), large("b"), running("x", on="a", owner="x"), running("rest", on="a", owner="")),
        cpu={"x": [2000.0], "rest": [7000.0]},
    )
    assert [] == evicted(AT_ONCE, cluster)
    assert ["x"] == evicted(Rival(consecutive_abnormalities=1, skip_check_expected_replicas=True), cluster)


def test_post_move_usage() -> None:
    """A pod that would bring every target above 75% stays; so does one that fits no target by its requests."""
    assert [] == evicted(AT_ONCE, loaded(huge=7600.0))
    pinned = running("pinned", on="a", owner="pinned", selector={"disk": "ssd"})
    twin = running("pinned-twin", on="b", owner="pinned")
    assert ["x"] == evicted(AT_ONCE, loaded(pinned, twin, x=1000.0, rest=7500.0))


def test_without_node_fit() -> None:
    """Nothing of that matters then."""
    assert ["huge"] == evicted(Rival(consecutive_abnormalities=1, node_fit=False), loaded(huge=7600.0))


def test_candidates_take_room() -> None:
    """Each candidate takes room on a target, evicted or not: the newest pod, which comes last, finds none."""
    pods = [running(f"p{number}", on="a", owner=f"p{number}", created=float(number)) for number in range(3)]
    twins = [running(f"twin{number}", on="b", owner=f"p{number}") for number in range(3)]
    cluster = measured(large("a"), large("b"), *pods, *twins, cpu={pod.name: [3000.0] for pod in pods})
    assert ["p1"] == evicted(AT_ONCE, cluster)
    assert ["p2"] == evicted(Rival(consecutive_abnormalities=1, node_fit=False), cluster)


def test_order_of_classes() -> None:
    """Batch before prod by label or priority; then priority; then the newest."""
    label = "koordinator.sh/priority-class"
    pods = {
        "batch": running("batch", on="a", owner="batch", cpu="1", labels={label: "koord-batch"}),
        "mid": running("mid", on="a", owner="mid", cpu="1", priority=7500),
        "old": running("old", on="a", owner="old", cpu="1", created=1.0),
        "new": running("new", on="a", owner="new", cpu="1", created=2.0),
        "rest": running("rest", on="a", owner="rest", cpu="1", priority=9500),
    }
    twins = [running(f"{name}-twin", on="b", owner=name) for name in pods]
    usage = {name: [500.0] for name in pods} | {"rest": [7500.0]}
    cluster = measured(large("a"), large("b"), large("c"), *pods.values(), *twins, cpu=usage)
    assert ["batch", "mid", "new", "old"] == evicted(NO_LIMIT, cluster)


def test_workloads() -> None:
    """The only replica stays, and of three replicas one leaves."""
    replicas = [running(f"r{number}", on="a", owner="web") for number in range(3)]
    usage = {each.name: [3000.0] for each in replicas}
    assert ["r0"] == evicted(NO_LIMIT, measured(large("a"), large("b"), large("c"), *replicas, cpu=usage))
    assert [] == evicted(NO_LIMIT, measured(large("a"), large("b"), running("one", on="a"), cpu={"one": [9000.0]}))


@pytest.mark.parametrize(("replicas", "expected"), [(2, 1), (3, 1), (4, 2), (10, 2), (11, 1), (39, 3)])
def test_max_migrating(replicas: int, expected: int) -> None:
    """One, two, or a tenth."""
    assert expected == max_migrating(replicas)


def test_six_rounds() -> None:
    """A node is a source in the sixth round that finds it too full, and then not for another five."""
    cluster, state, rounds = loaded(x=1600.0, rest=7000.0), None, []
    for number in range(13):
        now = NOW + 10.0 * number
        found, state = Rival(anomaly_timeout=1.0).evictions(context(cluster, now), state)
        rounds.append(len(found))
    assert [0, 0, 0, 0, 0, 1] == rounds[:6]
    assert 1 == sum(rounds[6:12])


def test_nothing_to_do() -> None:
    """No target, too few, or metrics that are too old."""
    full = loaded(x=1600.0, rest=7000.0)
    assert [] == evicted(Rival(consecutive_abnormalities=1, number_of_nodes=2), full)
    assert [] == evicted(
        Rival(consecutive_abnormalities=1, low_thresholds=Thresholds(cpu=0, memory=55)), loaded(x=8000.0)
    )
    late, _ = AT_ONCE.evictions(context(full, NOW + 180.0), None)
    assert [] == list(late)


def test_deviation() -> None:
    """Mean 30%: below 20% is a target, above 40% a source, and no target may come above that."""
    rival = Rival(
        low_thresholds=Thresholds(cpu=10),
        high_thresholds=Thresholds(cpu=10),
        use_deviation_thresholds=True,
        consecutive_abnormalities=1,
        max_migrating_per_node=0,
    )
    assert ["x", "y"] == evicted(rival, loaded(x=3000.0, y=2000.0, rest=4000.0))
