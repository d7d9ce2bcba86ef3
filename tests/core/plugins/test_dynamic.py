"""What Crane's Dynamic rejects, how it ranks nodes, and that binds count at once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import cluster, pod
from tests.core.plugins.measured_cluster import NOW, large, loaded, place_all, points, rejections, with_samples
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.model.duration import Duration
from trimtab.core.model.pod import Owner
from trimtab.core.plugins.dynamic import Dynamic, DynamicSchedulerPolicy, HotValue, Predicate, Priority, SyncPolicy

WEB = pod("web", cpu="100m", memory="102.4Mi")
STRICT = Dynamic(strict=True)
COOL = DynamicSchedulerPolicy(hot_value=())
HOUR = 3600.0


def calmed() -> Cluster:
    """70 % half an hour ago, 20 % now."""
    held = cluster(large("a"))
    for minute in range(40):
        used = {"a": 70.0 if minute < 15 else 20.0}
        with_samples(held, used, used, at=NOW + 60 * minute)
    return held


def test_predicates() -> None:
    """65 % now or 75 % in the last hour are too much; each is reported by the metric's name."""
    held = loaded(cool=(60, 60), cpu=(66, 10), memory=(10, 80))
    now, hour = "Load[{}_usage_avg_5m] of node(s) is too high", "Load[{}_usage_max_avg_1h] of node(s) is too high"
    expected = {"cool": "", "cpu": now.format("cpu"), "memory": f"{now.format('mem')}, {hour.format('mem')}"}
    assert expected == rejections(STRICT, WEB, held) == rejections(Dynamic(), WEB, held)


def test_the_pod_itself_counts() -> None:
    """A node that is below its limit and would not be with the pod is rejected, for good where the pod alone is too much."""
    held = loaded(a=(60, 10))
    assert ("", "Load[cpu_usage_avg_5m] of node(s) is too high") == (
        rejections(STRICT, pod("big", cpu="1", memory="1Mi"), held)["a"],
        rejections(Dynamic(), pod("big", cpu="1", memory="1Mi"), held)["a"],
    )
    assert rejections(Dynamic(), pod("huge", cpu="9"), held)["a"].startswith("! ")


def test_daemon_pods_are_not_held_back() -> None:
    """As in the original."""
    daemon = replace(WEB, owner=Owner("DaemonSet", "agent", "uid"))
    assert {"a": ""} == rejections(Dynamic(), daemon, loaded(a=(99, 99)))


def test_no_data_refuses_nobody_and_is_not_full() -> None:
    """A node without data passes and is scored by requests; the original gives it 0."""
    held = cluster(large("a"), large("b"), pod("big", cpu="5", memory="5Gi", on="a"))
    with_samples(held, {"b": 20}, {"b": 20})
    assert {"a": "", "b": ""} == rejections(Dynamic(), WEB, held)
    told = points(Dynamic(), WEB, held)
    assert told["b"] > told["a"] > 0
    assert 0 == points(STRICT, WEB, held)["a"]


@pytest.mark.parametrize(("cpu", "memory", "expected"), [(0, 0, 100), (50, 20, 65), (33.3, 33.3, 66), (100, 100, 0)])
def test_strict_scores(cpu: float, memory: float, expected: int) -> None:
    """The weighted mean of what is free, rounded down."""
    assert {"a": expected} == points(STRICT, WEB, loaded(a=(cpu, memory)))


def test_the_past_counts() -> None:
    """A node that was busy within the hour scores lower than by its current load: weights .2, .3 and .5."""
    told = points(Dynamic(COOL), WEB, calmed())["a"]
    assert 30 < told < 50


@pytest.mark.parametrize(("binds", "degrees"), [(0, 0), (1, 0), (2, 1), (4, 2), (5, 3), (7, 4), (10, 7)])
def test_binds_make_a_node_hot_at_the_next_sync(binds: int, degrees: int) -> None:
    """⌊binds in 5 minutes / 5⌋ + ⌊binds in a minute / 2⌋ degrees of 10 points each, and nothing before a sync."""
    plugin = Dynamic(DynamicSchedulerPolicy(sync_policy=(SyncPolicy("cpu_usage_avg_5m", Duration(30)),)), strict=True)
    held = loaded(a=(10, 10), b=(10, 10))
    for number in range(binds):
        held.assume(pod(f"p{number}"), "a")
    for later, expected in ((0, 90), (20, 90), (40, max(90 - 10 * degrees, 0))):
        with_samples(held, {"a": 10, "b": 10}, {"a": 10, "b": 10}, at=NOW + later)
        told = points(plugin, WEB, held)
        assert (90, expected) == (told["b"], told["a"])


def test_a_burst_between_two_syncs_is_not_seen() -> None:
    """Crane syncs every three minutes at best: binds of the last minutes are in no hot value."""
    held = loaded(a=(10, 10))
    for number in range(20):
        held.assume(pod(f"p{number}"), "a")
    with_samples(held, {"a": 10}, {"a": 10}, at=NOW + 60)
    assert {"a": 90} == points(STRICT, WEB, held)
    with_samples(held, {"a": 10}, {"a": 10}, at=NOW + 90)
    assert {"a": 50} == points(STRICT, WEB, held)


def test_heat_passes() -> None:
    """After five minutes without a bind the node is as cool as before."""
    held = loaded(a=(10, 10))
    for number in range(7):
        held.assume(pod(f"p{number}", cpu="0", memory="0"), "a")
    for later, expected in ((90, 80), (600, 90)):
        with_samples(held, {"a": 10}, {"a": 10}, at=NOW + later)
        assert {"a": expected} == points(STRICT, WEB, held)


def test_heat_never_makes_nodes_equal() -> None:
    """However many binds there were, one more is seen."""
    held = loaded(a=(50, 50), b=(50, 50))
    for number in range(60):
        held.assume(pod(f"p{number}", cpu="1m", memory="1Mi"), "ab"[number % 2])
    held.assume(pod("last", cpu="1m", memory="1Mi"), "a")
    told = points(Dynamic(), WEB, held)
    assert 0 < told["a"] < told["b"]


def test_a_burst_spreads() -> None:
    """Equal pods on equal nodes differ by at most one while no sample shows any of them."""
    gone = place_all(
        Dynamic(), loaded(a=(20, 20), b=(20, 20), c=(20, 20)), [pod(f"p{n}", cpu="100m") for n in range(20)]
    )
    assert {6, 7} == {gone.count(name) for name in "abc"}


def test_nonsense_is_refused() -> None:
    """Unknown metrics and values out of range are named, with what is allowed."""
    with pytest.raises(ValueError, match="unknown metric 'gpu_usage': use one of cpu_usage_avg_5m"):
        Predicate("gpu_usage", 0.5)
    with pytest.raises(ValueError, match="maxLimitPecent: 65 is not between 0 and 1"):
        Predicate("cpu_usage_avg_5m", 65)
    with pytest.raises(ValueError, match="weight: -1 is not between 0 and 100"):
        Priority("cpu_usage_avg_5m", -1)
    with pytest.raises(ValueError, match="count at least 1"):
        HotValue(Duration(60), 0)


@pytest.mark.parametrize("strict", [False, True])
def test_a_policy_without_priorities_scores_nothing(strict: bool) -> None:
    """Its thresholds still hold, and no pod fails for the want of a score."""
    plugin = Dynamic(DynamicSchedulerPolicy(priority=()), strict=strict)
    held = loaded(a=(66, 10), b=(10, 10))
    assert plugin.score(held.view, WEB, ALL_ROWS) is None
    assert "" != rejections(plugin, WEB, held)["a"]
