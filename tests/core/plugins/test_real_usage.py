"""How MemRealUsage and CpuRealUsage rank nodes, as fixed and with `strict`."""

from __future__ import annotations

import pytest

from tests.build import cluster, pod
from tests.core.plugins.measured_cluster import large, loaded, place_all, points, with_samples
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.framework.profile import WeightedScore
from trimtab.core.plugins.real_usage import CpuRealUsage, MemRealUsage, RealUsage

TINY = pod("tiny", cpu="0", memory="0")
ONE_PERCENT = pod("web", cpu="100m", memory="102.4Mi")


def stretched(plugin: RealUsage, **percents: tuple[float, float]) -> list[int]:
    view = loaded(**percents).view
    raw = plugin.score(view, TINY, ALL_ROWS)
    assert raw is not None
    return [int(each) for each in WeightedScore.of(plugin, 1).normalised(view, TINY, ALL_ROWS, raw)]


def test_a_percent_is_a_point() -> None:
    """100 less the percent that will be used, whatever the other nodes have."""
    held = loaded(a=(10, 30), b=(20, 31))
    assert {"a": pytest.approx(69, abs=0.01), "b": pytest.approx(68, abs=0.01)} == points(
        MemRealUsage(), ONE_PERCENT, held
    )
    assert {"a": pytest.approx(89, abs=0.01), "b": pytest.approx(79, abs=0.01)} == points(
        CpuRealUsage(), ONE_PERCENT, held
    )


def test_the_size_of_the_pod_counts() -> None:
    """A pod that is much for a small node goes where it leaves more."""
    held = with_samples(cluster(large("a")), {"a": 50}, {"a": 50})
    big, small = pod("big", memory="4Gi"), pod("small", memory="100Mi")
    assert points(MemRealUsage(), big, held)["a"] < points(MemRealUsage(), small, held)["a"]


def test_the_readmes_figures() -> None:
    """33, 13 and 13 percent of memory become 0, 100 and 100, as the original's log shows."""
    assert [0, 100, 100] == stretched(MemRealUsage(strict=True), b=(1, 33), a=(1, 13), c=(1, 13))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(41, 42, [100, 0]), (41.2, 41.9, [0, 0]), (0, 100, [100, 0])],
)
def test_strict_stretch(one: float, other: float, expected: list[int]) -> None:
    """Whole percent, stretched over 0 to 100; 0 for all when they are equal."""
    assert expected == stretched(CpuRealUsage(strict=True), a=(one, 0), b=(other, 0))


@pytest.mark.parametrize("strict", [False, True])
def test_one_node_without_a_sample(strict: bool) -> None:
    """It is scored by what its pods ask for, and the others by what they use."""
    held = cluster(large("a"), large("b"), large("c"), pod("big", cpu="5", memory="5Gi", on="c"))
    plugin = MemRealUsage(strict=strict)
    raw = points(plugin, TINY, with_samples(held, {"a": 20, "b": 30}, {"a": 20, "b": 30}))
    assert ["a", "b", "c"] == sorted(raw, key=lambda name: raw[name] if strict else -raw[name])


def test_a_rollout_spreads() -> None:
    """Thirty replicas on three nodes, one of which is full by real use: the other two share them."""
    held = loaded(a=(1, 13), b=(1, 63), c=(1, 13))
    gone = place_all(MemRealUsage(), held, [pod(f"p{number}", cpu="50m", memory="100Mi") for number in range(30)])
    assert (15, 0, 15) == tuple(map(gone.count, "abc"))


@pytest.mark.parametrize("field", ["query_metric_time_seconds", "query_metric_interval_seconds"])
def test_times_are_checked(field: str) -> None:
    """An interval of 0, which made the original spin, is rejected."""
    with pytest.raises(ValueError, match="Seconds: 0 is not between 1 and 3600"):
        CpuRealUsage(**{field: 0})  # type: ignore[arg-type]
